//! What becomes due. None of these lock: what they find is loaded, and looked at again, under its lock.

use crate::persistence::postgres::statement::{Statement, statements};

/// What is stored with a task, in bytes; nothing of it is read for that.
macro_rules! task_bytes {
    () => {
        "(COALESCE(octet_length(input), 0) + COALESCE(octet_length(heartbeat_details), 0) + COALESCE(octet_length(attempts), 0))::int8"
    };
}

statements! {
    /// Runs past a deadline. Index `deadline`, in its order.
    DUE_RUNS [INT4, TIMESTAMPTZ, INT8, UUID_ARRAY] = "
        SELECT id
        FROM {s}.durable_workflow_instances
        WHERE partition_key = $1 AND deadline_at <= $2 AND id <> ALL($4)
        ORDER BY deadline_at, id
        LIMIT $3";

    /// Timers that are due. Index `due`, in its order.
    DUE_TIMERS [INT4, TIMESTAMPTZ, INT8, UUID_ARRAY] = "
        SELECT workflow_id, timer_id
        FROM {s}.durable_timers
        WHERE partition_key = $1 AND fire_at <= $2 AND workflow_id <> ALL($4)
        ORDER BY fire_at, workflow_id, timer_id
        LIMIT $3";

    /// Tasks of which a clock has run out. Index `due`, in its order; sorts and answers the first
    /// of 10,000 tasks that are due, so that a crowd of expired leases bounds what is read, not
    /// what is answered in the end: the lease reaper takes those away.
    DUE_TASKS [INT4, TIMESTAMPTZ, INT8, UUID_ARRAY] = concat!("
        SELECT workflow_id, id, bytes
        FROM (
            SELECT workflow_id, id, timeout_at, ", task_bytes!(), " AS bytes
            FROM {s}.durable_task_queue
            WHERE partition_key = $1 AND due_at <= $2 AND workflow_id <> ALL($4)
            ORDER BY due_at
            LIMIT 10000
        ) AS due
        WHERE timeout_at <= $2
        ORDER BY timeout_at, id, workflow_id
        LIMIT $3");

    /// Leases that have run out. Index `due`, in its order; sorts and answers the first of 10,000
    /// tasks that are due, as `DUE_TASKS` does: what is due by another clock, the due chore takes
    /// away.
    EXPIRED_LEASES [INT4, TIMESTAMPTZ, INT8, UUID_ARRAY] = concat!("
        SELECT workflow_id, id, bytes
        FROM (
            SELECT workflow_id, id, lease_expires_at, status, ", task_bytes!(), " AS bytes
            FROM {s}.durable_task_queue
            WHERE partition_key = $1 AND due_at <= $2 AND workflow_id <> ALL($4)
            ORDER BY due_at
            LIMIT 10000
        ) AS due
        WHERE lease_expires_at <= $2 AND status = 'claimed'
        ORDER BY lease_expires_at, id, workflow_id
        LIMIT $3");

    /// What waits in a shard, and the next instant at which anything is due, leases included. Each
    /// by the first entry of its index. A limit in the order of the index and no `EXISTS`: the
    /// planner takes a scan of the table for the cheaper way to any one row, and in a queue that
    /// was long such a scan passes over all dead rows first.
    GLANCE [INT4, TIMESTAMPTZ] = "
        SELECT (SELECT TRUE FROM {s}.durable_task_queue
                WHERE partition_key = $1 AND status = 'pending'
                ORDER BY activity_type LIMIT 1) IS NOT NULL,
               (SELECT TRUE FROM {s}.durable_workflow_instances
                WHERE partition_key = $1 AND ready_at IS NOT NULL
                ORDER BY workflow_type, version, ready_at, id LIMIT 1) IS NOT NULL,
               (SELECT TRUE FROM {s}.durable_messages
                WHERE partition_key = $1
                ORDER BY sender, sequence_num, idx LIMIT 1) IS NOT NULL,
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

    /// The next instant at which something of a shard is due, leases and some runs apart. Deadlines
    /// and timers by the first entry of their index. Of a task, no clock runs out before `due_at`:
    /// the smallest timeout is found among the first tasks by index `due`. Where 1,000 tasks are
    /// not all of them, the others have none before the last of these, whose `due_at` is the answer
    /// then: early, never late.
    NEXT_DUE [INT4, UUID_ARRAY] = "
        SELECT LEAST(
            (SELECT deadline_at FROM {s}.durable_workflow_instances
             WHERE partition_key = $1 AND deadline_at IS NOT NULL AND id <> ALL($2)
             ORDER BY deadline_at LIMIT 1),
            (SELECT fire_at FROM {s}.durable_timers
             WHERE partition_key = $1 AND workflow_id <> ALL($2)
             ORDER BY fire_at LIMIT 1),
            (SELECT LEAST(min(timeout_at), CASE WHEN count(*) = 1000 THEN max(due_at) END)
             FROM (SELECT timeout_at, due_at FROM {s}.durable_task_queue
                   WHERE partition_key = $1 AND due_at IS NOT NULL AND workflow_id <> ALL($2)
                   ORDER BY due_at LIMIT 1000) AS first))";
}
