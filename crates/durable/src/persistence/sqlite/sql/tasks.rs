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

/// A queued task as the rules see it, read like a whole one: the input and the details of the last
/// heartbeat stay in the database, and so do its failed attempts unless their column is named.
macro_rules! ruled_task_columns {
    ($attempts:literal) => {
        concat!(
            "id, workflow_id, activity_id, activity_type, NULL, options, status, line, epoch, \
             scheduled_at, visible_at, attempt, deliveries, claimed_by, claimed_at, token, \
             lease_expires_at, heartbeat_at, NULL, close_deadline, ",
            $attempts,
            ", \
             requeue_count, trace_id, span_id, trace_flags"
        )
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
    /// One task as the rules see it.
    RULED = concat!(
        "SELECT ", ruled_task_columns!("attempts"), " FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3"
    );
    /// One task for a renewal, which needs no value that may be large.
    LEASED = concat!(
        "SELECT ", ruled_task_columns!("'[]'"), " FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3"
    );
    /// All queued tasks of a run, whole: for the dump.
    OF_RUN = concat!(
        "SELECT ", task_columns!(), " FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY line, id"
    );
    /// Ids of all queued tasks of a run. Both columns are before the input: pages that an input
    /// fills are not read.
    QUEUED_OF_RUN =
        "SELECT id, activity_id FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2";
    /// Where a task stands.
    STANDING =
        "SELECT status, sequential FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3";
    /// The first place in a run's line; by index `line`.
    FIRST_IN_LINE =
        "SELECT line FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND sequential = 1 ORDER BY line LIMIT 1";
    /// What may change; details of heartbeats and failed attempts only where the last two say so.
    UPDATE =
        "UPDATE durable_task_queue SET status = ?4, visible_at = ?5, attempt = ?6, deliveries = ?7, \
         claimed_by = ?8, claimed_at = ?9, token = ?10, lease_expires_at = ?11, heartbeat_at = ?12, \
         heartbeat_details = iif(?18, ?13, heartbeat_details), close_deadline = ?14, \
         attempts = iif(?19, ?15, attempts), requeue_count = ?16, \
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
        "SELECT ", ruled_task_columns!("'[]'"), " FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND sequential = 1 ORDER BY line LIMIT 1"
    );
    /// Tasks of which a clock has run out; by index `timeout`.
    DUE =
        "SELECT workflow_id, id, \
         coalesce(length(input), 0) + coalesce(length(heartbeat_details), 0) + length(attempts) \
         FROM durable_task_queue \
         WHERE partition_key = ?1 AND timeout_at IS NOT NULL AND timeout_at <= ?2 \
         AND hex(workflow_id) NOT IN (SELECT value FROM json_each(?4)) \
         ORDER BY timeout_at, id, workflow_id LIMIT ?3";
    /// The first clock of a shard to run out; by index `timeout`.
    NEXT_DUE =
        "SELECT timeout_at FROM durable_task_queue \
         WHERE partition_key = ?1 AND timeout_at IS NOT NULL \
         AND hex(workflow_id) NOT IN (SELECT value FROM json_each(?2)) \
         ORDER BY timeout_at LIMIT 1";
    /// Leases that have run out; by index `claimed`.
    EXPIRED =
        "SELECT workflow_id, id, \
         coalesce(length(input), 0) + coalesce(length(heartbeat_details), 0) + length(attempts) \
         FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = 'claimed' AND lease_expires_at <= ?2 \
         AND hex(workflow_id) NOT IN (SELECT value FROM json_each(?4)) \
         ORDER BY lease_expires_at, id, workflow_id LIMIT ?3";
    /// All leases; by index `claimed`.
    CLAIMED for Opening = concat!(
        "SELECT ", ruled_task_columns!("'[]'"), " FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = 'claimed'"
    );
    /// The types that have pending tasks in a shard: from one to the next by index `pending`.
    PENDING_TYPES =
        "WITH RECURSIVE kinds(name) AS (\
         SELECT (SELECT activity_type FROM durable_task_queue \
             WHERE partition_key = ?1 AND status = 'pending' ORDER BY activity_type LIMIT 1) \
         UNION ALL SELECT (SELECT activity_type FROM durable_task_queue \
             WHERE partition_key = ?1 AND status = 'pending' AND activity_type > kinds.name \
             ORDER BY activity_type LIMIT 1) FROM kinds WHERE kinds.name IS NOT NULL) \
         SELECT name FROM kinds WHERE name IS NOT NULL";
    /// Places of the pending tasks of one type, by index `pending`; a place and the page follow.
    PENDING_PLACES for List =
        "SELECT priority, visible_at, id, workflow_id FROM durable_task_queue \
         WHERE partition_key = ? AND activity_type = ? AND status = 'pending'";
    /// Tasks of all shards without payloads, and with failed attempts only where they are small;
    /// conditions follow.
    LIST for List =
        "SELECT id, workflow_id, activity_id, activity_type, NULL, options, status, line, epoch, \
         scheduled_at, visible_at, attempt, deliveries, claimed_by, claimed_at, token, \
         lease_expires_at, heartbeat_at, NULL, close_deadline, \
         CASE WHEN octet_length(attempts) <= 16384 THEN attempts ELSE '[]' END, \
         requeue_count, trace_id, span_id, trace_flags FROM durable_task_queue WHERE TRUE";
}

/// Shard and id of a run.
pub(crate) const OF_RUN_ID: &str = " AND partition_key = ? AND workflow_id = ?";
pub(crate) const OF_ID: &str = " AND id = ?";
pub(crate) const OF_TYPE: &str = " AND activity_type = ?";
pub(crate) const IN_STATUS: &str = " AND status = ?";
/// Priority, again, when, id and run of the task behind which to go on.
pub(crate) const AFTER: &str =
    " AND priority <= ? AND (priority < ? OR (visible_at, id, workflow_id) > (?, ?, ?))";
pub(crate) const PAGE: &str =
    " ORDER BY priority DESC, visible_at, id, workflow_id LIMIT ? OFFSET ?";
