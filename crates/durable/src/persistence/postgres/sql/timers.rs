//! Timers: `durable_timers`.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Timers by run and id; the run's lock keeps them as they are. Primary key.
    READ_TIMERS [INT4, UUID_ARRAY, TEXT_ARRAY] = "
        SELECT t.workflow_id, t.timer_id, t.fire_at, t.epoch
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS timer_id OFFSET 0) AS k
        JOIN {s}.durable_timers AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.timer_id = k.timer_id";

    /// Timers that fired or are forgotten. Primary key.
    DELETE_TIMERS [INT4, UUID_ARRAY, TEXT_ARRAY] = "
        DELETE FROM {s}.durable_timers AS t
        USING (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS timer_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.timer_id = k.timer_id";

    /// All timers of runs. Primary key by its first two columns.
    DELETE_TIMERS_OF [INT4, UUID_ARRAY] = "
        DELETE FROM {s}.durable_timers AS t
        USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id";

    /// Sets timers.
    INSERT_TIMERS [INT4, UUID_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INT4_ARRAY] = "
        INSERT INTO {s}.durable_timers (partition_key, workflow_id, timer_id, fire_at, epoch)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5)";
}
