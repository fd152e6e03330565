//! Counts for health and metrics.

statements! {
    /// By index `status`.
    RUNS = "SELECT status, count(*) FROM durable_workflow_instances GROUP BY status";
    /// Tasks by type and status.
    TASKS =
        "SELECT activity_type, status, count(*) FROM durable_task_queue \
         GROUP BY activity_type, status";
    /// Since when the longest waiting claimable task waits.
    OLDEST_PENDING = "SELECT min(visible_at) FROM durable_task_queue WHERE status = 'pending'";
    /// By index `open`.
    DEAD_LETTERS = "SELECT count(*) FROM durable_dead_letter_queue WHERE state = 'dead'";
    /// Messages on their way.
    MESSAGES = "SELECT count(*) FROM durable_messages";
    /// By index `due`.
    OUTBOX = "SELECT count(*) FROM durable_outbox WHERE state IN ('pending', 'in_flight')";
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
    /// Types of runs with a turn due. Reads no more than index `ready`.
    READY_TYPES =
        "SELECT DISTINCT workflow_type, version FROM durable_workflow_instances \
         WHERE ready_at IS NOT NULL";
    /// Types of tasks that may be claimed.
    PENDING_TYPES =
        "SELECT DISTINCT activity_type FROM durable_task_queue WHERE status = 'pending'";
    /// By index `blocked`.
    BLOCKED = "SELECT count(*) FROM durable_workflow_instances WHERE blocked_build IS NOT NULL";
}
