//! Deleting runs with all that belongs to them (tasks and timers have statements for it already). Each by the first two columns of a primary key; the runs are locked before.

use crate::persistence::postgres::statement::{Statement, statements};

macro_rules! delete_of {
    ($table:literal) => {
        concat!(
            "DELETE FROM {s}.",
            $table,
            " AS t USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k \
             WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id"
        )
    };
}

statements! {
    /// History.
    PURGE_EVENTS [INT4, UUID_ARRAY] = delete_of!("durable_workflow_events");
    /// Facts that wait.
    PURGE_FACTS [INT4, UUID_ARRAY] = delete_of!("durable_inbox");
    /// The ledger of signals.
    PURGE_SIGNALS [INT4, UUID_ARRAY] = delete_of!("durable_signals");
    /// Updates.
    PURGE_UPDATES [INT4, UUID_ARRAY] = delete_of!("durable_updates");
    /// Search attributes.
    PURGE_ATTRIBUTES [INT4, UUID_ARRAY] = delete_of!("durable_search_attributes");
    /// Outbox events.
    PURGE_OUTBOX [INT4, UUID_ARRAY] = delete_of!("durable_outbox");
    /// Log lines.
    PURGE_LOGS [INT4, UUID_ARRAY] = delete_of!("durable_step_logs");
    /// Dead letters.
    PURGE_LETTERS [INT4, UUID_ARRAY] = delete_of!("durable_dead_letter_queue");
    /// Human tasks.
    PURGE_HUMAN_TASKS [INT4, UUID_ARRAY] = delete_of!("durable_human_tasks");
    /// Messages that the run sent.
    PURGE_MESSAGES [INT4, UUID_ARRAY] = "
        DELETE FROM {s}.durable_messages AS t
        USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.sender = k.run_id";
    /// The runs.
    PURGE_RUNS [INT4, UUID_ARRAY] = "
        DELETE FROM {s}.durable_workflow_instances AS t
        USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.run_id";
}
