//! Totals: `durable_rollups`.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Adds to this committer's slot, in key order: two that share a slot after all wait, and never in a circle.
    ADD_ROLLUPS [INT4, INT4, TIMESTAMPTZ_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT8_ARRAY,
                 INT8_ARRAY, INT8_ARRAY] = "
        INSERT INTO {s}.durable_rollups AS t
            (partition_key, slot, hour, kind, name, outcome, duration_exp, count, total_ms, wait_ms)
        SELECT $1, $2, unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9),
            unnest($10)
        ON CONFLICT (partition_key, hour, kind, name, outcome, duration_exp, slot) DO UPDATE
        SET count = t.count + excluded.count, total_ms = t.total_ms + excluded.total_ms,
            wait_ms = t.wait_ms + excluded.wait_ms";

    /// Totals of a shard since an hour, all slots together, the earliest first. By the primary key,
    /// in its order.
    READ_ROLLUPS [INT4, TIMESTAMPTZ, INT8] = "
        SELECT hour, kind, name, outcome, duration_exp, sum(count)::BIGINT, sum(total_ms)::BIGINT,
            sum(wait_ms)::BIGINT
        FROM {s}.durable_rollups
        WHERE partition_key = $1 AND hour >= $2
        GROUP BY hour, kind, name, outcome, duration_exp
        ORDER BY hour, kind, name, outcome, duration_exp
        LIMIT $3";
}
