//! Facts that wait: `durable_inbox`.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Facts that wait for runs, in order. Primary key by its first two columns.
    READ_FACTS [INT4, UUID_ARRAY] = "
        SELECT t.workflow_id, t.arrival, t.event_type, t.event_data, t.payload, t.attempts,
               t.last_attempt, t.arrived_at
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_inbox AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id
        ORDER BY t.workflow_id, t.arrival";

    /// Facts that a turn took: by number of arrival, never \"all there are\". Primary key.
    CONSUME_FACTS [INT4, UUID_ARRAY, INT8_ARRAY] = "
        DELETE FROM {s}.durable_inbox AS t
        USING (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS through OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.arrival <= k.through";

    /// Facts of an epoch that is over: ends of activities and timers that no longer count. Primary key by its first two columns.
    DROP_STALE_FACTS [INT4, UUID_ARRAY] = "
        DELETE FROM {s}.durable_inbox AS t
        USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id
          AND (event_type LIKE 'activity.%' OR event_type = 'timer.fired')";

    /// Delivers facts.
    INSERT_FACTS [INT4, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY,
                  BYTEA_ARRAY, TIMESTAMPTZ_ARRAY] = "
        INSERT INTO {s}.durable_inbox
            (partition_key, workflow_id, arrival, event_type, event_data, payload, attempts,
             last_attempt, arrived_at)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9)";
}
