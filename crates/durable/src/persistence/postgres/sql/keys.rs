//! Keys that belong to one run: `durable_keys`, sharded by the key itself.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Reserves keys that do not exist, in key order: whoever is second waits here for the first to commit. Answers those
    /// that this transaction made, so that they can be taken back.
    RESERVE_KEYS [INT4, TEXT_ARRAY, TEXT_ARRAY] = "
        INSERT INTO {s}.durable_keys (partition_key, kind, key, created_at)
        SELECT $1, unnest($2), unnest($3), clock_timestamp()
        ON CONFLICT (partition_key, kind, key) DO NOTHING
        RETURNING kind, key";

    /// Locks keys. Primary key; locks in its order.
    LOCK_KEYS [INT4, TEXT_ARRAY, TEXT_ARRAY] = "
        SELECT t.kind, t.key, t.run_id, t.created_at
        FROM (SELECT $1 AS shard, unnest($2) AS kind, unnest($3) AS key OFFSET 0) AS k
        JOIN {s}.durable_keys AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.kind = k.kind AND t.key = k.key
        ORDER BY t.kind, t.key
        FOR UPDATE OF t";

    /// Looks at tombstones, after the runs they stand for were looked at: a run that is gone has left its tombstone by then.
    /// Primary key.
    READ_TOMBSTONES [INT4, TEXT_ARRAY] = "
        SELECT t.kind, t.key, t.run_id, t.created_at
        FROM (SELECT $1 AS shard, 'tombstone'::TEXT AS kind, unnest($2) AS key OFFSET 0) AS k
        JOIN {s}.durable_keys AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.kind = k.kind AND t.key = k.key";

    /// Writes keys, or moves them to another run. In key order.
    PUT_KEYS [INT4, TEXT_ARRAY, TEXT_ARRAY, UUID_ARRAY, TIMESTAMPTZ_ARRAY] = "
        INSERT INTO {s}.durable_keys (partition_key, kind, key, run_id, created_at)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5)
        ON CONFLICT (partition_key, kind, key) DO UPDATE
        SET run_id = excluded.run_id, created_at = excluded.created_at";

    /// Takes back reserved keys that got no run. Primary key.
    UNRESERVE_KEYS [INT4, TEXT_ARRAY, TEXT_ARRAY] = "
        DELETE FROM {s}.durable_keys AS t
        USING (SELECT $1 AS shard, unnest($2) AS kind, unnest($3) AS key OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.kind = k.kind AND t.key = k.key AND t.run_id IS NULL";

    /// Deletes keys that still are the run's. Primary key.
    DELETE_KEYS [INT4, TEXT_ARRAY, TEXT_ARRAY, UUID_ARRAY] = "
        DELETE FROM {s}.durable_keys AS t
        USING (SELECT $1 AS shard, unnest($2) AS kind, unnest($3) AS key, unnest($4) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.kind = k.kind AND t.key = k.key AND t.run_id = k.run_id";

    /// Old tombstones of a shard. Index `tombstones`, in its order.
    OLD_TOMBSTONES [INT4, TIMESTAMPTZ, INT8] = "
        SELECT key, run_id, created_at
        FROM {s}.durable_keys
        WHERE partition_key = $1 AND kind = 'tombstone' AND created_at < $2 AND run_id IS NOT NULL
        ORDER BY created_at, key
        LIMIT $3";

    /// Ticks of a shard that no schedule can take again. Index `slots`, in its order. A slot is its
    /// schedule's id, an at sign and an instant in microseconds.
    OLD_SLOTS [INT4, TIMESTAMPTZ, TIMESTAMPTZ, INT8] = "
        SELECT k.key, k.run_id, k.created_at
        FROM {s}.durable_keys AS k
        WHERE k.partition_key = $1 AND k.kind = 'cron_slot' AND k.created_at < $2 AND k.run_id IS NOT NULL
          AND NOT EXISTS (
            SELECT FROM {s}.durable_schedules AS s
            WHERE s.id = substring(k.key FROM '^(.*)@')
              AND (k.key = s.id || '@' || (extract(epoch FROM s.last_fire_at) * 1000000)::BIGINT
                   OR extract(epoch FROM $3 - k.created_at) * 1000 <= s.catchup_window_ms))
        ORDER BY k.created_at, k.key
        LIMIT $4";
}
