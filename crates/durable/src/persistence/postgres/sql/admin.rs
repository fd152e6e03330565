//! Counts for health and metrics. They read all of a table or an index of it; operators' reads have a pool of their own.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// All counts, one statement so that they are of one instant: runs by status with those that are blocked, tasks by type and status with since
    /// when the first of them waits, and what else waits for somebody.
    COUNT_ALL [] = "
        SELECT 'runs', NULL::text, status, count(*), count(blocked_build), NULL::timestamptz
        FROM {s}.durable_workflow_instances
        GROUP BY status
        UNION ALL
        SELECT 'tasks', activity_type, status, count(*), 0, min(visible_at)
        FROM {s}.durable_task_queue
        GROUP BY activity_type, status
        UNION ALL
        SELECT 'dead letters', NULL, NULL, count(*), 0, NULL
        FROM {s}.durable_dead_letter_queue WHERE state = 'dead'
        UNION ALL
        SELECT 'messages', NULL, NULL, count(*), 0, NULL FROM {s}.durable_messages
        UNION ALL
        SELECT 'outbox', NULL, NULL, count(*), 0, NULL
        FROM {s}.durable_outbox WHERE state IN ('pending', 'in_flight')";
}
