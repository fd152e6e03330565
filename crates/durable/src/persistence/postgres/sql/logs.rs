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

    /// A page of a run's lines, up to so many rows and bytes, and for each line whether others
    /// follow it; the first row is always there. Sizes are read without taking the data out of
    /// TOAST. Primary key, in its order.
    READ_LOGS [INT4, UUID, UUID, INT8, INT8, INT8] = "
        SELECT t.id, t.workflow_id, t.activity_id, t.attempt, t.level, t.message, t.meta, t.created_at, k.more
        FROM (SELECT s.id, s.more
              FROM (SELECT id,
                           row_number() OVER w AS place,
                           lead(id) OVER w IS NOT NULL AS more,
                           sum(octet_length(message) + COALESCE(octet_length(meta), 0))
                               OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS bytes
                    FROM (SELECT id, message, meta
                          FROM {s}.durable_step_logs
                          WHERE partition_key = $1 AND workflow_id = $2 AND ($3 IS NULL OR id > $3)
                            AND id >= COALESCE($3, '00000000-0000-0000-0000-000000000000')
                          ORDER BY id
                          LIMIT $4 OFFSET $5) AS e
                    WINDOW w AS (ORDER BY id)) AS s
              WHERE s.place = 1 OR s.bytes <= $6) AS k
        CROSS JOIN LATERAL (SELECT * FROM {s}.durable_step_logs AS l
              WHERE l.partition_key = $1 AND l.workflow_id = $2 AND l.id = k.id
              LIMIT 1) AS t
        ORDER BY t.id";
}
