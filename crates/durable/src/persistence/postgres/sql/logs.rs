//! Log lines of attempts: `durable_step_logs`.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// New lines; an id that exists is passed over.
    INSERT_LOGS [INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, INT4_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY,
                 TIMESTAMPTZ_ARRAY] = "
        INSERT INTO {s}.durable_step_logs
            (partition_key, id, workflow_id, activity_id, attempt, level, message, meta, created_at)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9)
        ON CONFLICT (partition_key, workflow_id, id) DO NOTHING";

    /// A page of a run's lines. Primary key, in its order.
    READ_LOGS [INT4, UUID, UUID, INT8, INT8] = "
        SELECT id, workflow_id, activity_id, attempt, level, message, meta, created_at
        FROM {s}.durable_step_logs
        WHERE partition_key = $1 AND workflow_id = $2 AND ($3 IS NULL OR id > $3)
        ORDER BY id
        LIMIT $4 OFFSET $5";
}
