//! Events for the outside: `durable_outbox`.

use crate::persistence::postgres::statement::{Statement, statements};

/// A whole outbox event, in the order in which `rows::outbox::record` reads it.
macro_rules! outbox_columns {
    () => {
        "t.id, t.workflow_id, t.event_type, t.payload, t.idempotency_key, t.state, t.attempts, \
         t.available_at, t.token, t.last_error, t.created_at, t.published_at"
    };
}
pub(in crate::persistence::postgres) use outbox_columns;

statements! {
    /// Locks outbox events by run and id. Primary key; locks in its order.
    LOCK_OUTBOX [INT4, UUID_ARRAY, UUID_ARRAY] = concat!("
        SELECT ", outbox_columns!(), "
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS id OFFSET 0) AS k
        JOIN {s}.durable_outbox AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id
        ORDER BY t.workflow_id, t.id
        FOR UPDATE OF t");

    /// New events; an id that exists is passed over.
    INSERT_OUTBOX [INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT4_ARRAY,
                   TIMESTAMPTZ_ARRAY, UUID_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY] = "
        INSERT INTO {s}.durable_outbox
            (partition_key, id, workflow_id, event_type, payload, idempotency_key, state, attempts,
             available_at, token, last_error, created_at, published_at)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9),
               unnest($10), unnest($11), unnest($12), unnest($13)
        ON CONFLICT (partition_key, workflow_id, id) DO NOTHING";

    /// Changed events, locked before. Primary key.
    UPDATE_OUTBOX [INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, INT4_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY,
                   TEXT_ARRAY, TIMESTAMPTZ_ARRAY] = "
        UPDATE {s}.durable_outbox AS t
        SET state = k.state, attempts = k.attempts, available_at = k.available_at, token = k.token,
            last_error = k.last_error, published_at = k.published_at
        FROM (SELECT $1 AS shard,
                     unnest($2) AS id, unnest($3) AS workflow_id, unnest($4) AS state, unnest($5) AS attempts,
                     unnest($6) AS available_at, unnest($7) AS token, unnest($8) AS last_error,
                     unnest($9) AS published_at
              OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id";

    /// Claims due events, as many as have no more than $6 bytes together, the first in any case.
    /// Index `open`, in its order, passing over those locked by others.
    CLAIM_OUTBOX [INT4, INT8, UUID, INT8, TIMESTAMPTZ, INT8] = concat!("
        WITH clock AS MATERIALIZED (SELECT COALESCE($5, clock_timestamp()) AS now),
        pick AS MATERIALIZED (
            SELECT f.shard, f.workflow_id, f.id, f.available_at
            FROM (
                SELECT $1 AS shard, c.workflow_id, c.id, c.available_at, c.bytes,
                       sum(c.bytes) OVER (ORDER BY c.available_at, c.id, c.workflow_id) AS total
                FROM (
                    SELECT o.workflow_id, o.id, o.available_at,
                           GREATEST(COALESCE(octet_length(o.payload), 0), 1)::int8 AS bytes
                    FROM {s}.durable_outbox AS o
                    WHERE o.partition_key = $1 AND o.state IN ('pending', 'in_flight')
                      AND o.available_at <= (SELECT now FROM clock)
                    ORDER BY o.available_at, o.id, o.workflow_id
                    LIMIT $2
                    FOR UPDATE SKIP LOCKED
                ) AS c
            ) AS f
            WHERE f.total <= $6 OR f.total = f.bytes
        )
        UPDATE {s}.durable_outbox AS t
        SET state = 'in_flight', attempts = t.attempts + 1, token = $3,
            available_at = clock.now + $4 * INTERVAL '1 microsecond'
        FROM pick CROSS JOIN clock
        WHERE t.partition_key = ANY(ARRAY[pick.shard]) AND t.workflow_id = pick.workflow_id AND t.id = pick.id
        RETURNING clock.now, pick.available_at, ", outbox_columns!());
}
