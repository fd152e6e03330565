//! Counts for health and metrics. They read all of a table or an index of it; operators' reads have a pool of their own.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Runs by status.
    COUNT_RUNS_BY_STATUS [] = "
        SELECT status, count(*), count(blocked_build)
        FROM {s}.durable_workflow_instances
        GROUP BY status";

    /// Tasks by type and status, and since when the longest claimable one waits.
    COUNT_TASKS [] = "
        SELECT activity_type, status, count(*), min(visible_at)
        FROM {s}.durable_task_queue
        GROUP BY activity_type, status";

    /// What else waits for somebody.
    COUNT_OPEN [] = "
        SELECT (SELECT count(*) FROM {s}.durable_dead_letter_queue WHERE state = 'dead'),
               (SELECT count(*) FROM {s}.durable_messages),
               (SELECT count(*) FROM {s}.durable_outbox WHERE state IN ('pending', 'in_flight'))";
}
