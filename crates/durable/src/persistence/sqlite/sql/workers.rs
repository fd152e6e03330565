//! The worker registry.

/// All columns, in the order in which a worker is read and written.
macro_rules! worker_columns {
    () => {
        "id, worker_group, activity_types, max_concurrency, current_load, status, accepting_tasks, \
         backpressure_reason, started_at, last_heartbeat_at, hostname, version, metadata, \
         tasks_completed, tasks_failed, avg_task_duration_ms"
    };
}

statements! {
    /// A worker, in place of what was known of it.
    REPLACE = concat!(
        "INSERT OR REPLACE INTO durable_workers (", worker_columns!(),
        ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    );
    /// A sign of life; answers the status the worker should be in.
    HEARTBEAT =
        "UPDATE durable_workers SET current_load = ?2, accepting_tasks = ?3, \
         backpressure_reason = ?4, tasks_completed = ?5, tasks_failed = ?6, \
         avg_task_duration_ms = ?7, last_heartbeat_at = ?8 WHERE id = ?1 RETURNING status";
    /// Where a worker stands.
    STATUS = "SELECT status FROM durable_workers WHERE id = ?1";
    /// An operator's word.
    SET_STATUS = "UPDATE durable_workers SET status = ?2 WHERE id = ?1";
    /// Forgets one.
    DELETE = "DELETE FROM durable_workers WHERE id = ?1";
    /// Those that gave no sign.
    SILENT =
        "SELECT id FROM durable_workers \
         WHERE status <> 'stopped' AND last_heartbeat_at < ?1 ORDER BY id";
    /// Workers; conditions follow.
    LIST for List = concat!("SELECT ", worker_columns!(), " FROM durable_workers WHERE TRUE");
}

pub(crate) const IN_GROUP: &str = " AND worker_group = ?";
pub(crate) const IN_STATUS: &str = " AND status = ?";
pub(crate) const HEARD_SINCE: &str = " AND last_heartbeat_at >= ?";
pub(crate) const ORDER: &str = " ORDER BY id";
