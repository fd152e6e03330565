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
    /// Runs whose turn is due since before a moment, the longest first; blocked ones wait for another build.
    OVERDUE_TURNS = "SELECT id, ready_at FROM durable_workflow_instances \
         WHERE ready_at < ? AND blocked_build IS NULL ORDER BY ready_at LIMIT ?";
    /// Tasks whose lease or timeout has run out.
    OVERDUE_TASKS = "SELECT workflow_id, min(coalesce(lease_expires_at, timeout_at), coalesce(timeout_at, lease_expires_at)) AS due_at \
         FROM durable_task_queue WHERE due_at < ? ORDER BY due_at LIMIT ?";
    /// Tasks that could have been claimed.
    UNCLAIMED_TASKS = "SELECT workflow_id, visible_at FROM durable_task_queue \
         WHERE status = 'pending' AND visible_at < ? ORDER BY visible_at LIMIT ?";
    /// Timers that should have fired.
    OVERDUE_TIMERS = "SELECT workflow_id, fire_at FROM durable_timers WHERE fire_at < ? ORDER BY fire_at LIMIT ?";
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
