//! The database itself: its settings, its schema, what is fixed when it is created.

statements! {
    /// Says whether the database is migrated at all.
    HAS_MIGRATIONS =
        "SELECT count(*) FROM sqlite_schema \
         WHERE type = 'table' AND name = 'durable_schema_migrations'";
    /// The log of migrations; not one itself, since it has to be there before the first.
    CREATE_MIGRATIONS =
        "CREATE TABLE IF NOT EXISTS durable_schema_migrations (version INTEGER NOT NULL PRIMARY KEY, \
         name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT";
    /// What was run.
    APPLIED = "SELECT version, name, checksum FROM durable_schema_migrations ORDER BY version";
    /// Written in the migration's own transaction.
    NOTE_MIGRATION =
        "INSERT INTO durable_schema_migrations (version, name, checksum, applied_at) \
         VALUES (?, ?, ?, ?)";
    /// Says whether the database's first migration was run.
    HAS_META =
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'durable_meta'";
    /// The oldest schema version whose builds may open the database.
    MIN_COMPATIBLE =
        "SELECT CAST(value AS INTEGER) FROM durable_meta WHERE key = 'min_compatible_schema'";
    /// Written in each migration's own transaction.
    SET_MIN_COMPATIBLE =
        "INSERT INTO durable_meta (key, value) VALUES ('min_compatible_schema', ?) \
         ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    /// Set once, when the database is created.
    FIX_SHARDS =
        "INSERT INTO durable_meta (key, value) VALUES ('shards', ?) ON CONFLICT DO NOTHING";
    /// What SQLite made of the wish for a write-ahead log.
    JOURNAL_MODE = "PRAGMA journal_mode";
    /// Pages of the file.
    PAGES = "PRAGMA page_count";
    /// Those that hold nothing.
    FREE_PAGES = "PRAGMA freelist_count";
    /// The first damage, or `ok`.
    QUICK_CHECK = "PRAGMA quick_check(1)";
    /// Runs of a shard, type and version whose turn is due since before a moment, the longest
    /// first;
    /// blocked ones wait for another build. Index `ready`, in its order.
    OVERDUE_TURNS = "SELECT id, ready_at FROM durable_workflow_instances \
         INDEXED BY idx_durable_workflow_instances_ready \
         WHERE partition_key = ?1 AND workflow_type = ?2 AND version = ?3 AND ready_at IS NOT NULL \
         AND ready_at < ?4 AND blocked_build IS NULL ORDER BY ready_at LIMIT ?5";
    /// Tasks of a shard whose lease or timeout has run out. Indexes `timeout` and `claimed`, in
    /// their order.
    OVERDUE_TASKS = "SELECT workflow_id, min(due_at) FROM ( \
             SELECT * FROM (SELECT workflow_id, id, timeout_at AS due_at FROM durable_task_queue \
                 INDEXED BY idx_durable_task_queue_timeout \
                 WHERE partition_key = ?1 AND timeout_at IS NOT NULL AND timeout_at < ?2 \
                 ORDER BY timeout_at LIMIT ?3) \
             UNION ALL \
             SELECT * FROM (SELECT workflow_id, id, lease_expires_at FROM durable_task_queue \
                 INDEXED BY idx_durable_task_queue_claimed \
                 WHERE partition_key = ?1 AND status = 'claimed' AND lease_expires_at < ?2 \
                 ORDER BY lease_expires_at LIMIT ?3)) \
         GROUP BY workflow_id, id";
    /// The types and priorities of a shard's tasks that may be claimed: from each to the next by
    /// index `pending`, however many tasks wait.
    PENDING_GROUPS = "WITH RECURSIVE waiting(activity_type, priority) AS ( \
             SELECT activity_type, priority FROM ( \
                 SELECT activity_type, priority FROM durable_task_queue \
                 INDEXED BY idx_durable_task_queue_pending \
                 WHERE partition_key = ?1 AND status = 'pending' \
                 ORDER BY activity_type, priority DESC LIMIT 1) \
             UNION ALL \
             SELECT t.activity_type, t.priority FROM waiting \
             CROSS JOIN durable_task_queue AS t ON t.rowid = coalesce( \
                 (SELECT p.rowid FROM durable_task_queue AS p \
                  INDEXED BY idx_durable_task_queue_pending \
                  WHERE p.partition_key = ?1 AND p.status = 'pending' \
                  AND p.activity_type = waiting.activity_type AND p.priority < waiting.priority \
                  ORDER BY p.priority DESC LIMIT 1), \
                 (SELECT p.rowid FROM durable_task_queue AS p \
                  INDEXED BY idx_durable_task_queue_pending \
                  WHERE p.partition_key = ?1 AND p.status = 'pending' \
                  AND p.activity_type > waiting.activity_type \
                  ORDER BY p.activity_type, p.priority DESC LIMIT 1))) \
         SELECT activity_type, priority FROM waiting";
    /// Tasks of a shard, type and priority that could have been claimed, the longest waiting first.
    /// Index `pending`, in its order.
    UNCLAIMED_TASKS = "SELECT workflow_id, visible_at FROM durable_task_queue \
         INDEXED BY idx_durable_task_queue_pending \
         WHERE partition_key = ?1 AND activity_type = ?2 AND priority = ?3 AND status = 'pending' \
         AND visible_at < ?4 ORDER BY visible_at LIMIT ?5";
    /// Timers of a shard that should have fired. Index `due`, in its order.
    OVERDUE_TIMERS = "SELECT workflow_id, fire_at FROM durable_timers \
         WHERE partition_key = ?1 AND fire_at < ?2 ORDER BY fire_at LIMIT ?3";
    /// A worker of the process that has the file. The key is the worker's, behind a prefix.
    ADD_RESIDENT = "INSERT INTO durable_meta (key, value) VALUES ('resident:' || ?, '') ON CONFLICT DO NOTHING";
    /// Those of the former process.
    RESIDENTS = "SELECT substr(key, 10) FROM durable_meta WHERE key >= 'resident:' AND key < 'resident;'";
    /// They are gone.
    DROP_RESIDENTS = "DELETE FROM durable_meta WHERE key >= 'resident:' AND key < 'resident;'";
    /// As it was set.
    SHARDS = "SELECT CAST(value AS INTEGER) FROM durable_meta WHERE key = 'shards'";
}

/// Before anything else on a file: readers beside the writer, and a commit is on the disk when it is answered.
/// A checkpoint every 16 MiB: under load the same pages are written again and again, and each goes to the file once a checkpoint.
pub(crate) const OPEN_WRITER: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; \
     PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 4096;";
/// Before anything else on a reader.
pub(crate) const OPEN_READER: &str = "PRAGMA query_only = ON;";
