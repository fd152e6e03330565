//! What becomes due. None of these lock: what they find is loaded, and looked at again, under its lock.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Runs past a deadline. Index `deadline`, in its order.
    DUE_RUNS [INT4, TIMESTAMPTZ, INT8] = "
        SELECT id
        FROM {s}.durable_workflow_instances
        WHERE partition_key = $1 AND deadline_at <= $2
        ORDER BY deadline_at, id
        LIMIT $3";

    /// Timers that are due. Index `due`, in its order.
    DUE_TIMERS [INT4, TIMESTAMPTZ, INT8] = "
        SELECT workflow_id, timer_id
        FROM {s}.durable_timers
        WHERE partition_key = $1 AND fire_at <= $2
        ORDER BY fire_at, workflow_id, timer_id
        LIMIT $3";

    /// Tasks of which a clock has run out. Index `due`; sorts what is due.
    DUE_TASKS [INT4, TIMESTAMPTZ, INT8] = "
        SELECT workflow_id, id
        FROM {s}.durable_task_queue
        WHERE partition_key = $1 AND due_at <= $2 AND timeout_at <= $2
        ORDER BY timeout_at, id, workflow_id
        LIMIT $3";

    /// Leases that have run out. Index `due`; sorts what is due.
    EXPIRED_LEASES [INT4, TIMESTAMPTZ, INT8] = "
        SELECT workflow_id, id
        FROM {s}.durable_task_queue
        WHERE partition_key = $1 AND due_at <= $2 AND lease_expires_at <= $2 AND status = 'claimed'
        ORDER BY lease_expires_at, id, workflow_id
        LIMIT $3";

    /// What waits in a shard, and the next instant at which anything is due, leases included. Each by the first entry of its index.
    GLANCE [INT4, TIMESTAMPTZ] = "
        SELECT EXISTS (SELECT 1 FROM {s}.durable_task_queue
                       WHERE partition_key = $1 AND status = 'pending'),
               EXISTS (SELECT 1 FROM {s}.durable_workflow_instances
                       WHERE partition_key = $1 AND ready_at IS NOT NULL),
               EXISTS (SELECT 1 FROM {s}.durable_messages WHERE partition_key = $1),
               LEAST(
                   (SELECT deadline_at FROM {s}.durable_workflow_instances
                    WHERE partition_key = $1 AND deadline_at IS NOT NULL
                    ORDER BY deadline_at LIMIT 1),
                   (SELECT fire_at FROM {s}.durable_timers
                    WHERE partition_key = $1
                    ORDER BY fire_at LIMIT 1),
                   (SELECT due_at FROM {s}.durable_task_queue
                    WHERE partition_key = $1 AND due_at IS NOT NULL
                    ORDER BY due_at LIMIT 1)),
               (SELECT next_fire_at FROM {s}.durable_schedules
                WHERE NOT paused AND next_fire_at IS NOT NULL
                ORDER BY next_fire_at LIMIT 1),
               COALESCE($2, clock_timestamp())";

    /// Types of runs with a turn due: from each to the next by index `ready`, however many runs wait.
    READY_TYPES [INT4] = "
        WITH RECURSIVE waiting AS (
            (SELECT workflow_type, version
             FROM {s}.durable_workflow_instances
             WHERE partition_key = $1 AND ready_at IS NOT NULL
             ORDER BY workflow_type, version
             LIMIT 1)
            UNION ALL
            SELECT following.workflow_type, following.version
            FROM waiting
            CROSS JOIN LATERAL (
                SELECT r.workflow_type, r.version
                FROM {s}.durable_workflow_instances AS r
                WHERE r.partition_key = $1 AND r.ready_at IS NOT NULL
                  AND (r.workflow_type, r.version) > (waiting.workflow_type, waiting.version)
                ORDER BY r.workflow_type, r.version
                LIMIT 1) AS following)
        SELECT workflow_type, version FROM waiting";

    /// Types of tasks that may be claimed: from each to the next by index `pending`, however many tasks wait.
    PENDING_TYPES [INT4] = "
        WITH RECURSIVE waiting AS (
            (SELECT activity_type
             FROM {s}.durable_task_queue
             WHERE partition_key = $1 AND status = 'pending'
             ORDER BY activity_type
             LIMIT 1)
            UNION ALL
            SELECT following.activity_type
            FROM waiting
            CROSS JOIN LATERAL (
                SELECT q.activity_type
                FROM {s}.durable_task_queue AS q
                WHERE q.partition_key = $1 AND q.status = 'pending'
                  AND q.activity_type > waiting.activity_type
                ORDER BY q.activity_type
                LIMIT 1) AS following)
        SELECT activity_type FROM waiting";

    /// The next instant at which something of a shard is due, leases apart. Each by the first entry of its index. Of a task that is
    /// not leased, `due_at` is the timeout; below the first of these there are only leased ones, so that the smallest
    /// timeout of all is found by reading no more than those.
    NEXT_DUE [INT4] = "
        SELECT LEAST(
            (SELECT deadline_at FROM {s}.durable_workflow_instances
             WHERE partition_key = $1 AND deadline_at IS NOT NULL
             ORDER BY deadline_at LIMIT 1),
            (SELECT fire_at FROM {s}.durable_timers
             WHERE partition_key = $1
             ORDER BY fire_at LIMIT 1),
            free.due_at,
            (SELECT min(timeout_at) FROM {s}.durable_task_queue
             WHERE partition_key = $1 AND due_at < COALESCE(free.due_at, 'infinity')))
        FROM (SELECT (
            SELECT due_at FROM {s}.durable_task_queue
            WHERE partition_key = $1 AND due_at IS NOT NULL AND status <> 'claimed'
            ORDER BY due_at LIMIT 1) AS due_at) AS free";
}
