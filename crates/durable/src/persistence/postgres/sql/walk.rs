//! What an audit reads page by page. Each statement names one shard and uses the primary key of its
//! table.

use super::letters::letter_columns;
use super::outbox::outbox_columns;
use super::runs::run_columns;
use super::tasks::task_columns;
use crate::persistence::postgres::statement::{Statement, statements};

/// The rows of a table that belong to runs.
macro_rules! of_runs {
    ($table:literal, $run:literal) => {
        concat!(
            " FROM (SELECT $1 AS shard, unnest($2) AS walked OFFSET 0) AS k
        JOIN {s}.durable_",
            $table,
            " AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.",
            $run,
            " = k.walked"
        )
    };
}

/// Rows and bytes of a table that belong to a run, up to a number of rows.
macro_rules! size {
    ($table:literal, $run:literal, $bytes:literal) => {
        concat!(
            "(SELECT count(*) AS number, sum(bytes) AS bytes FROM (SELECT ",
            $bytes,
            " AS bytes
            FROM {s}.durable_",
            $table,
            " AS t
            WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.",
            $run,
            " = k.id LIMIT $3) AS slice)"
        )
    };
}

/// The runs that have rows in a table, by the range of their ids: from one run to the next by the
/// primary key, however many rows each has, and at most a number of them. With each whether its run
/// is neither there nor being deleted.
macro_rules! runs_with_rows {
    ($table:literal, $run:literal) => {
        concat!(
            "
        WITH RECURSIVE found AS (
            (SELECT t.",
            $run,
            " AS id, 1::INT8 AS place
             FROM {s}.durable_",
            $table,
            " AS t
             WHERE t.partition_key = $1 AND t.",
            $run,
            " > $2 AND t.",
            $run,
            " <= $3
             ORDER BY t.partition_key, t.",
            $run,
            " LIMIT 1)
            UNION ALL
            SELECT next.id, found.place + 1
            FROM found CROSS JOIN LATERAL (
                SELECT t.",
            $run,
            " AS id
                FROM {s}.durable_",
            $table,
            " AS t
                WHERE t.partition_key = $1 AND t.",
            $run,
            " > found.id AND t.",
            $run,
            " <= $3
                ORDER BY t.partition_key, t.",
            $run,
            " LIMIT 1) AS next
            WHERE found.place < $4)
        SELECT f.id, r.there IS NULL AND p.there IS NULL
        FROM found AS f
        LEFT JOIN LATERAL (
            SELECT TRUE AS there FROM {s}.durable_workflow_instances AS t
            WHERE t.partition_key = ANY(ARRAY[$1]) AND t.id = f.id LIMIT 1) AS r ON TRUE
        LEFT JOIN LATERAL (
            SELECT TRUE AS there FROM {s}.durable_purges AS t
            WHERE t.partition_key = ANY(ARRAY[$1]) AND t.run_id = f.id LIMIT 1) AS p ON TRUE"
        )
    };
}

statements! {
    /// The next runs of a shard, each with its rows and bytes. `octet_length` reads no payload. The
    /// number of runs stands in the text: for one that is not known the planner expects a tenth of
    /// the table, which it would rather read and sort.
    WALK_PAGE [INT4, UUID, INT8] = concat!("
        SELECT k.id, size.number::int8, size.bytes::int8
        FROM (SELECT partition_key AS shard, id,
                     COALESCE(octet_length(input), 0) + COALESCE(octet_length(result), 0)
                     + COALESCE(octet_length(error), 0) + COALESCE(octet_length(memo), 0) AS own
              FROM {s}.durable_workflow_instances
              WHERE partition_key = $1 AND id > $2
              ORDER BY partition_key, id LIMIT 100) AS k,
        LATERAL (
            SELECT sum(number) + 1 AS number, COALESCE(sum(bytes), 0) + k.own AS bytes FROM (
                ", size!("workflow_events", "workflow_id", "octet_length(event_data) + COALESCE(octet_length(payload), 0)"), "
                UNION ALL ", size!("inbox", "workflow_id",
                    "octet_length(event_data) + COALESCE(octet_length(payload), 0) + COALESCE(octet_length(attempts), 0)
                     + COALESCE(octet_length(last_attempt), 0)"), "
                UNION ALL ", size!("task_queue", "workflow_id",
                    "COALESCE(octet_length(input), 0) + octet_length(options) + COALESCE(octet_length(attempts), 0)
                     + COALESCE(octet_length(heartbeat_details), 0)"), "
                UNION ALL ", size!("timers", "workflow_id", "octet_length(timer_id)"), "
                UNION ALL ", size!("signals", "workflow_id", "COALESCE(octet_length(payload), 0)"), "
                UNION ALL ", size!("updates", "workflow_id",
                    "COALESCE(octet_length(input), 0) + COALESCE(octet_length(result), 0) + COALESCE(octet_length(error), 0)"), "
                UNION ALL ", size!("search_attributes", "workflow_id",
                    "octet_length(name) + COALESCE(octet_length(value_text), 0)"), "
                UNION ALL ", size!("messages", "sender",
                    "octet_length(data) + COALESCE(octet_length(payload), 0) + COALESCE(octet_length(memo), 0)"), "
                UNION ALL ", size!("outbox", "workflow_id",
                    "COALESCE(octet_length(payload), 0) + COALESCE(octet_length(last_error), 0)"), "
                UNION ALL ", size!("step_logs", "workflow_id", "octet_length(message) + COALESCE(octet_length(meta), 0)"), "
                UNION ALL ", size!("dead_letter_queue", "workflow_id", "COALESCE(octet_length(input), 0) + octet_length(options) + octet_length(last_error)
                     + octet_length(error_history)"), "
            ) AS sizes) AS size
        ORDER BY k.id");
    /// Runs.
    WALK_RUNS [INT4, UUID_ARRAY] = concat!("
        SELECT ", run_columns!(), ", task_count, line_count, deadline_at", of_runs!("workflow_instances", "id"), "
        ORDER BY t.id");
    /// Their events.
    WALK_EVENTS [INT4, UUID_ARRAY] = concat!("
        SELECT workflow_id, sequence_num, event_type, event_data, payload, created_at",
        of_runs!("workflow_events", "workflow_id"), "
        ORDER BY workflow_id, sequence_num");
    /// Their tasks.
    WALK_TASKS [INT4, UUID_ARRAY] = concat!("
        SELECT ", task_columns!(), ", t.timeout_at, t.due_at", of_runs!("task_queue", "workflow_id"), "
        ORDER BY t.line, t.id");
    /// Their timers.
    WALK_TIMERS [INT4, UUID_ARRAY] = concat!("
        SELECT workflow_id, timer_id, fire_at, epoch", of_runs!("timers", "workflow_id"), "
        ORDER BY workflow_id, timer_id");
    /// Their facts that wait.
    WALK_FACTS [INT4, UUID_ARRAY] = concat!("
        SELECT workflow_id, arrival, event_type, event_data, payload, attempts, last_attempt, arrived_at",
        of_runs!("inbox", "workflow_id"), "
        ORDER BY workflow_id, arrival");
    /// Their signals.
    WALK_SIGNALS [INT4, UUID_ARRAY] = concat!("
        SELECT workflow_id, id, signal_type, payload, sequence_num, sent_at, processed_at",
        of_runs!("signals", "workflow_id"), "
        ORDER BY workflow_id, sequence_num, id");
    /// Their updates.
    WALK_UPDATES [INT4, UUID_ARRAY] = concat!("
        SELECT workflow_id, update_id, name, input, sequence_num, state, result, error, created_at,
               completed_at", of_runs!("updates", "workflow_id"), "
        ORDER BY workflow_id, sequence_num, update_id");
    /// Their search attributes.
    WALK_ATTRIBUTES [INT4, UUID_ARRAY] = concat!("
        SELECT workflow_id, name, kind, value_text, value_int, value_double, value_bool, value_time",
        of_runs!("search_attributes", "workflow_id"));
    /// Their messages.
    WALK_MESSAGES [INT4, UUID_ARRAY] = concat!("
        SELECT sender, sequence_num, idx, data, payload, memo", of_runs!("messages", "sender"), "
        ORDER BY sender, sequence_num, idx");
    /// Their outbox events.
    WALK_OUTBOX [INT4, UUID_ARRAY] = concat!("
        SELECT ", outbox_columns!(), of_runs!("outbox", "workflow_id"), "
        ORDER BY t.id");
    /// Their log lines.
    WALK_LOGS [INT4, UUID_ARRAY] = concat!("
        SELECT id, workflow_id, activity_id, attempt, level, message, meta, created_at",
        of_runs!("step_logs", "workflow_id"), "
        ORDER BY workflow_id, id");
    /// Their dead letters.
    WALK_LETTERS [INT4, UUID_ARRAY] = concat!("
        SELECT ", letter_columns!(), of_runs!("dead_letter_queue", "workflow_id"), "
        ORDER BY t.id, t.workflow_id");
    /// Runs with events.
    WALK_EVENT_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("workflow_events", "workflow_id");
    /// Runs with tasks.
    WALK_TASK_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("task_queue", "workflow_id");
    /// Runs with timers.
    WALK_TIMER_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("timers", "workflow_id");
    /// Runs with facts.
    WALK_FACT_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("inbox", "workflow_id");
    /// Runs with signals.
    WALK_SIGNAL_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("signals", "workflow_id");
    /// Runs with updates.
    WALK_UPDATE_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("updates", "workflow_id");
    /// Runs with search attributes.
    WALK_ATTRIBUTE_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("search_attributes", "workflow_id");
    /// Runs with messages.
    WALK_MESSAGE_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("messages", "sender");
    /// Runs with outbox events.
    WALK_OUTBOX_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("outbox", "workflow_id");
    /// Runs with log lines.
    WALK_LOG_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("step_logs", "workflow_id");
    /// Runs with dead letters.
    WALK_LETTER_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("dead_letter_queue", "workflow_id");
    /// Runs with human tasks.
    WALK_HUMAN_TASK_RUNS [INT4, UUID, UUID, INT8] = runs_with_rows!("human_tasks", "workflow_id");
    /// Idempotency keys by their names.
    WALK_KEYS_NAMED [INT4, TEXT_ARRAY] = "
        SELECT t.kind, t.key, t.run_id, t.created_at
        FROM (SELECT $1 AS shard, 'idempotency'::TEXT AS kind, unnest($2) AS key OFFSET 0) AS k
        JOIN {s}.durable_keys AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.kind = k.kind AND t.key = k.key";
    /// The next keys of a shard.
    WALK_KEYS [INT4, TEXT, TEXT, INT8] = "
        SELECT kind, key, run_id FROM {s}.durable_keys
        WHERE partition_key = $1 AND (kind, key) > ($2, $3)
        ORDER BY kind, key LIMIT $4";
    /// What runs say of their keys.
    WALK_HOLDERS [INT4, UUID_ARRAY] = concat!("
        SELECT t.id, t.idempotency_key, t.business_id", of_runs!("workflow_instances", "id"));
    /// What is noted of the keys of runs that are being deleted.
    WALK_DELETED_HOLDERS [INT4, UUID_ARRAY] = concat!("
        SELECT t.run_id, t.idempotency_key, t.business_id", of_runs!("purges", "run_id"));
    /// Deadlines that passed longer ago than so many seconds, the longest ago first.
    WALK_OVERDUE_DEADLINES [INT4, FLOAT8, INT8] = "
        SELECT id, extract(epoch FROM clock_timestamp() - deadline_at)::int8
        FROM {s}.durable_workflow_instances
        WHERE partition_key = $1 AND deadline_at < (SELECT clock_timestamp() - make_interval(secs => $2))
        ORDER BY partition_key, deadline_at LIMIT $3";
}
