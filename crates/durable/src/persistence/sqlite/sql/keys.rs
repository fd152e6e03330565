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
    /// All keys.
    LIST = "SELECT kind, key, workflow_id, created_at FROM durable_keys";
}
