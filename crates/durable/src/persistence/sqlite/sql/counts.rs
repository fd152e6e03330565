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
    /// By index `blocked`.
    BLOCKED = "SELECT count(*) FROM durable_workflow_instances WHERE blocked_build IS NOT NULL";
}
