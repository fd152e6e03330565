//! Keys that belong to one run, in their own shard.

statements! {
    /// Writes a key, or moves it to another run.
    PUT =
        "INSERT INTO durable_keys (kind, key, workflow_id, created_at, partition_key) \
         VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE \
         SET workflow_id = excluded.workflow_id, created_at = excluded.created_at";
    /// One key.
    GET =
        "SELECT kind, key, workflow_id, created_at FROM durable_keys \
         WHERE partition_key = ?1 AND kind = ?2 AND key = ?3";
    /// Deletes a key, if it still is this run's.
    DELETE =
        "DELETE FROM durable_keys \
         WHERE partition_key = ?1 AND kind = ?2 AND key = ?3 AND workflow_id = ?4";
    /// Tombstones of all shards from the oldest; by index `tombstones`.
    OLD_TOMBSTONES =
        "SELECT key, workflow_id FROM durable_keys \
         WHERE kind = 'tombstone' AND created_at < ?1 ORDER BY created_at, key LIMIT ?2";
    /// Ticks of all shards from the oldest that nobody could take again. A slot is its schedule's id, an at sign and an instant.
    OLD_SLOTS =
        "SELECT k.key, k.workflow_id FROM durable_keys AS k \
         WHERE k.kind = 'cron_slot' AND k.created_at < ?1 AND NOT EXISTS ( \
             SELECT 1 FROM durable_schedules AS s \
             WHERE s.id = substr(k.key, 1, length(rtrim(k.key, '-0123456789')) - 1) \
             AND (k.key = s.id || '@' || s.last_fire_at OR ?2 - k.created_at <= s.catchup_window_ms * 1000)) \
         ORDER BY k.created_at, k.key LIMIT ?3";
    /// All keys.
    LIST for Proof = "SELECT kind, key, workflow_id, created_at FROM durable_keys";
}
