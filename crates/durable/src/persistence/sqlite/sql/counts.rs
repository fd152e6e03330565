//! Counts for health and metrics.

statements! {
    /// Runs of a status, up to so many. By index `status`.
    OPEN_RUNS =
        "SELECT count(*) FROM (SELECT 1 FROM durable_workflow_instances WHERE status = ?1 LIMIT ?2)";
    /// The first pending task of the types behind one. By index `pending`, in its order.
    FIRST_OF_NEXT_TYPE =
        "SELECT activity_type, priority, visible_at FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = 'pending' AND activity_type > ?2 \
         ORDER BY activity_type, priority DESC, visible_at LIMIT 1";
    /// The first pending task of a type's priorities below one. By index `pending`, in its order.
    FIRST_OF_NEXT_PRIORITY =
        "SELECT priority, visible_at FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = 'pending' AND activity_type = ?2 AND priority < ?3 \
         ORDER BY priority DESC, visible_at LIMIT 1";
    /// Pending tasks of a type, up to so many. By index `pending`.
    PENDING_OF_TYPE =
        "SELECT count(*) FROM (SELECT 1 FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = 'pending' AND activity_type = ?2 LIMIT ?3)";
    /// Pending tasks, up to so many. By index `pending`.
    PENDING =
        "SELECT count(*) FROM (SELECT 1 FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = 'pending' LIMIT ?2)";
    /// Claimed tasks by type, up to so many. By index `claimed`.
    CLAIMED =
        "SELECT activity_type, count(*) FROM (SELECT activity_type FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = 'claimed' ORDER BY lease_expires_at LIMIT ?2) \
         GROUP BY activity_type";
    /// Tasks of a status other than these two by type, up to so many. Reads no more than index
    /// `held`.
    HELD =
        "SELECT activity_type, count(*) FROM (SELECT activity_type FROM durable_task_queue \
         WHERE partition_key = ?1 AND status = ?2 AND status IN ('in_line', 'delayed', 'parked', 'dead') \
         ORDER BY activity_type LIMIT ?3) GROUP BY activity_type";
    /// By index `open`.
    DEAD_LETTERS =
        "SELECT count(*) FROM (SELECT 1 FROM durable_dead_letter_queue WHERE state = 'dead' LIMIT ?1)";
    /// Messages on their way, up to so many.
    MESSAGES = "SELECT count(*) FROM (SELECT 1 FROM durable_messages LIMIT ?1)";
    /// By index `due`.
    OUTBOX =
        "SELECT count(*) FROM (SELECT 1 FROM durable_outbox \
         WHERE state IN ('pending', 'in_flight') LIMIT ?1)";
    /// What waits in a shard, and when the first run, timer, clock and lease is due; each by the first entry of its index.
    GLANCE =
        "SELECT EXISTS (SELECT 1 FROM durable_task_queue WHERE partition_key = ?1 AND status = 'pending'), \
                EXISTS (SELECT 1 FROM durable_workflow_instances WHERE partition_key = ?1 AND ready_at IS NOT NULL), \
                EXISTS (SELECT 1 FROM durable_messages WHERE partition_key = ?1), \
                (SELECT min(deadline_at) FROM durable_workflow_instances \
                 WHERE partition_key = ?1 AND deadline_at IS NOT NULL), \
                (SELECT min(fire_at) FROM durable_timers WHERE partition_key = ?1), \
                (SELECT min(timeout_at) FROM durable_task_queue \
                 WHERE partition_key = ?1 AND timeout_at IS NOT NULL), \
                (SELECT min(lease_expires_at) FROM durable_task_queue \
                 WHERE partition_key = ?1 AND status = 'claimed')";
    /// The first tick of a schedule that is not paused.
    NEXT_TICK =
        "SELECT min(next_fire_at) FROM durable_schedules \
         WHERE NOT paused AND next_fire_at IS NOT NULL";
    /// Types of runs of a shard with a turn due: from each to the next by index `ready`, however
    /// many runs wait.
    READY_TYPES =
        "WITH RECURSIVE waiting(workflow_type, version) AS ( \
             SELECT workflow_type, version FROM ( \
                 SELECT workflow_type, version FROM durable_workflow_instances \
                 INDEXED BY idx_durable_workflow_instances_ready \
                 WHERE partition_key = ?1 AND ready_at IS NOT NULL \
                 ORDER BY workflow_type, version LIMIT 1) \
             UNION ALL \
             SELECT r.workflow_type, r.version FROM waiting \
             CROSS JOIN durable_workflow_instances AS r ON r.rowid = coalesce( \
                 (SELECT f.rowid FROM durable_workflow_instances AS f \
                  INDEXED BY idx_durable_workflow_instances_ready \
                  WHERE f.partition_key = ?1 AND f.ready_at IS NOT NULL \
                  AND f.workflow_type = waiting.workflow_type AND f.version > waiting.version \
                  ORDER BY f.version LIMIT 1), \
                 (SELECT f.rowid FROM durable_workflow_instances AS f \
                  INDEXED BY idx_durable_workflow_instances_ready \
                  WHERE f.partition_key = ?1 AND f.ready_at IS NOT NULL \
                  AND f.workflow_type > waiting.workflow_type \
                  ORDER BY f.workflow_type, f.version LIMIT 1))) \
         SELECT workflow_type, version FROM waiting";
    /// Types of tasks of a shard that may be claimed: from each to the next by index `pending`,
    /// however many tasks wait.
    PENDING_TYPES =
        "WITH RECURSIVE waiting(activity_type) AS ( \
             SELECT (SELECT activity_type FROM durable_task_queue \
                     INDEXED BY idx_durable_task_queue_pending \
                     WHERE partition_key = ?1 AND status = 'pending' \
                     ORDER BY activity_type LIMIT 1) \
             UNION ALL \
             SELECT (SELECT q.activity_type FROM durable_task_queue AS q \
                     INDEXED BY idx_durable_task_queue_pending \
                     WHERE q.partition_key = ?1 AND q.status = 'pending' \
                     AND q.activity_type > waiting.activity_type \
                     ORDER BY q.activity_type LIMIT 1) \
             FROM waiting WHERE waiting.activity_type IS NOT NULL) \
         SELECT activity_type FROM waiting WHERE activity_type IS NOT NULL";
    /// By index `blocked`.
    BLOCKED =
        "SELECT count(*) FROM (SELECT 1 FROM durable_workflow_instances \
         WHERE blocked_build IS NOT NULL LIMIT ?1)";
}
