//! The task queue.

/// All columns of a task record, in the order in which it is read and written.
macro_rules! task_columns {
    () => {
        "id, workflow_id, activity_id, activity_type, input, options, status, line, epoch, \
         scheduled_at, visible_at, attempt, deliveries, claimed_by, claimed_at, token, \
         lease_expires_at, heartbeat_at, heartbeat_details, close_deadline, attempts, \
         requeue_count, trace_id, span_id, trace_flags"
    };
}

statements! {
    /// A new task.
    INSERT = concat!(
        "INSERT INTO durable_task_queue (", task_columns!(),
        ", partition_key, priority, sequential, timeout_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    );
    /// One task.
    GET = concat!(
        "SELECT ", task_columns!(), " FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3"
    );
    /// All queued tasks of a run.
    OF_RUN = concat!(
        "SELECT ", task_columns!(), " FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY line, id"
    );
    /// What may change.
    UPDATE =
        "UPDATE durable_task_queue SET status = ?4, visible_at = ?5, attempt = ?6, deliveries = ?7, \
         claimed_by = ?8, claimed_at = ?9, token = ?10, lease_expires_at = ?11, heartbeat_at = ?12, \
         heartbeat_details = ?13, close_deadline = ?14, attempts = ?15, requeue_count = ?16, \
         timeout_at = ?17 WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3";
    /// A task leaves.
    DELETE =
        "DELETE FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3";
    /// All tasks of a run leave.
    DELETE_OF_RUN =
        "DELETE FROM durable_task_queue WHERE partition_key = ?1 AND workflow_id = ?2";
    /// The first claimable tasks of one type; answered by index `pending` alone, in its order.
    CLAIMABLE =
        "SELECT priority, visible_at, id, workflow_id FROM durable_task_queue \
         WHERE partition_key = ?1 AND activity_type = ?2 AND status = 'pending' \
         ORDER BY priority DESC, visible_at, id, workflow_id LIMIT ?3";
    /// The task at the head of a run's line; by index `line`.
    LINE_HEAD = concat!(
        "SELECT ", task_columns!(), " FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND sequential = 1 ORDER BY line LIMIT 1"
    );
    /// Tasks of which a clock has run out; by index `timeout`.
    DUE =
        "SELECT workflow_id, id FROM durable_task_queue \
         WHERE partition_key = ?1 AND timeout_at IS NOT NULL AND timeout_at <= ?2 \
         ORDER BY timeout_at, id, workflow_id LIMIT ?3";
    /// The first clock of a shard to run out; by index `timeout`.
    NEXT_DUE =
        "SELECT min(timeout_at) FROM durable_task_queue \
         WHERE partition_key = ?1 AND timeout_at IS NOT NULL";
    /// Leases that have run out; by index `claimed`.
    EXPIRED =
        "SELECT workflow_id, id FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = 'claimed' AND lease_expires_at <= ?2 \
         ORDER BY lease_expires_at, id, workflow_id LIMIT ?3";
    /// All leases; by index `claimed`.
    CLAIMED = concat!(
        "SELECT ", task_columns!(), " FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = 'claimed'"
    );
    /// Tasks of all shards; conditions follow.
    LIST = concat!("SELECT ", task_columns!(), " FROM durable_task_queue WHERE TRUE");
}

/// Shard and id of a run.
pub(crate) const OF_RUN_ID: &str = " AND partition_key = ? AND workflow_id = ?";
pub(crate) const OF_TYPE: &str = " AND activity_type = ?";
pub(crate) const IN_STATUS: &str = " AND status = ?";
/// Priority, again, when, id and run of the task behind which to go on.
pub(crate) const AFTER: &str =
    " AND priority <= ? AND (priority < ? OR (visible_at, id, workflow_id) > (?, ?, ?))";
pub(crate) const PAGE: &str =
    " ORDER BY priority DESC, visible_at, id, workflow_id LIMIT ? OFFSET ?";
