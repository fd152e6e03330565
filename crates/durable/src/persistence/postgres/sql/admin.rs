//! Counts of open work, for health, metrics and admission. Finished runs are in none of the indexes
//! that they read.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// The open work of a shard: of what, the activity type, the status, how many, since when the
    /// first waits, whether some were left out. Each part reads the first 10,001 entries of an
    /// index that holds open work only; pending tasks share 100,000 entries among their types. From
    /// each type and priority of pending tasks to the next by index `pending`, as `PENDING_TYPES`;
    /// 1,000 of them at most. The leases of claimed tasks are the first entries of index `due`. The
    /// condition on senders, which always holds, lets a planner that has never seen the table
    /// expect less of it, and read it in the order of the key instead of sorting all of it.
    OPEN_COUNTS [INT4] = "
        WITH RECURSIVE queued AS (
            (SELECT 1 AS step, activity_type, priority, visible_at
             FROM {s}.durable_task_queue
             WHERE partition_key = $1 AND status = 'pending'
             ORDER BY activity_type, priority DESC, visible_at
             LIMIT 1)
            UNION ALL
            SELECT queued.step + 1, following.activity_type, following.priority, following.visible_at
            FROM queued
            CROSS JOIN LATERAL (
                (SELECT 1 AS place, t.activity_type, t.priority, t.visible_at
                 FROM {s}.durable_task_queue AS t
                 WHERE t.partition_key = $1 AND t.status = 'pending'
                   AND t.activity_type = queued.activity_type AND t.priority < queued.priority
                 ORDER BY t.priority DESC, t.visible_at
                 LIMIT 1)
                UNION ALL
                (SELECT 2, t.activity_type, t.priority, t.visible_at
                 FROM {s}.durable_task_queue AS t
                 WHERE t.partition_key = $1 AND t.status = 'pending'
                   AND t.activity_type > queued.activity_type
                 ORDER BY t.activity_type, t.priority DESC, t.visible_at
                 LIMIT 1)
                ORDER BY place
                LIMIT 1) AS following
            WHERE queued.step < 1000),
        types AS MATERIALIZED (
            SELECT activity_type, min(visible_at) AS oldest, max(step) AS step
            FROM queued
            GROUP BY activity_type),
        share AS MATERIALIZED (
            SELECT LEAST(10001, 100000 / GREATEST(count(*), 1)) AS entries FROM types),
        soonest AS MATERIALIZED (
            SELECT activity_type, status
            FROM {s}.durable_task_queue
            WHERE partition_key = $1 AND due_at IS NOT NULL
            ORDER BY due_at
            LIMIT 10001)
        SELECT 'tasks', types.activity_type, 'pending', counted.count, types.oldest,
               types.step = 1000 OR counted.count >= (SELECT entries FROM share) AND counted.count < 10001
        FROM types
        CROSS JOIN LATERAL (
            SELECT count(*) AS count
            FROM (SELECT 1
                  FROM {s}.durable_task_queue AS t
                  WHERE t.partition_key = $1 AND t.status = 'pending'
                    AND t.activity_type = types.activity_type
                  ORDER BY t.priority DESC, t.visible_at
                  LIMIT (SELECT entries FROM share)) AS found) AS counted
        UNION ALL
        SELECT 'tasks', activity_type, 'claimed', count(*), NULL, FALSE
        FROM soonest
        WHERE status = 'claimed'
        GROUP BY activity_type
        UNION ALL
        SELECT 'due', NULL, NULL, count(*), NULL, FALSE
        FROM soonest
        UNION ALL
        SELECT 'tasks', held.activity_type, held.status, count(*), NULL, FALSE
        FROM (VALUES ('in_line'), ('delayed'), ('parked'), ('dead')) AS statuses (status)
        CROSS JOIN LATERAL (
            SELECT t.activity_type, t.status
            FROM {s}.durable_task_queue AS t
            WHERE t.partition_key = $1 AND t.status = statuses.status
              AND t.status IN ('in_line', 'delayed', 'parked', 'dead')
            ORDER BY t.activity_type
            LIMIT 10001) AS held
        GROUP BY held.activity_type, held.status
        UNION ALL
        SELECT 'runs', NULL, 'pending', count(*), NULL, FALSE
        FROM (SELECT 1
              FROM {s}.durable_workflow_instances
              WHERE partition_key = $1 AND status = 'pending'
              ORDER BY id
              LIMIT 10001) AS found
        UNION ALL
        SELECT 'runs', NULL, 'running', count(*), NULL, FALSE
        FROM (SELECT 1
              FROM {s}.durable_workflow_instances
              WHERE partition_key = $1 AND status = 'running'
              ORDER BY id
              LIMIT 10001) AS found
        UNION ALL
        SELECT 'blocked', NULL, NULL, count(*), NULL, FALSE
        FROM (SELECT 1
              FROM {s}.durable_workflow_instances
              WHERE partition_key = $1 AND blocked_build IS NOT NULL
              ORDER BY id
              LIMIT 10001) AS found
        UNION ALL
        SELECT 'dead letters', NULL, NULL, count(*), NULL, FALSE
        FROM (SELECT 1
              FROM {s}.durable_dead_letter_queue
              WHERE partition_key = $1 AND state = 'dead'
              ORDER BY id
              LIMIT 10001) AS found
        UNION ALL
        SELECT 'messages', NULL, NULL, count(*), NULL, FALSE
        FROM (SELECT 1
              FROM {s}.durable_messages
              WHERE partition_key = $1 AND sender >= '00000000-0000-0000-0000-000000000000'
              ORDER BY sender, sequence_num, idx
              LIMIT 10001) AS found
        UNION ALL
        SELECT 'outbox', NULL, NULL, count(*), NULL, FALSE
        FROM (SELECT 1
              FROM {s}.durable_outbox
              WHERE partition_key = $1 AND state IN ('pending', 'in_flight')
              ORDER BY available_at
              LIMIT 10001) AS found";

    /// Claimable tasks and runs that have not begun, up to so many of each. Indexes `pending` and
    /// `status`.
    COUNT_WAITING [INT4, INT8] = "
        SELECT (SELECT count(*)
                FROM (SELECT 1
                      FROM {s}.durable_task_queue
                      WHERE partition_key = $1 AND status = 'pending'
                      ORDER BY activity_type, priority DESC, visible_at
                      LIMIT $2) AS found)
             + (SELECT count(*)
                FROM (SELECT 1
                      FROM {s}.durable_workflow_instances
                      WHERE partition_key = $1 AND status = 'pending'
                      ORDER BY id
                      LIMIT $2) AS found)";
}
