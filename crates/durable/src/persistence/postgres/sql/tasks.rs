//! Queued tasks: `durable_task_queue`.

use crate::persistence::postgres::statement::{Statement, statements};

/// A whole task, in the order in which `rows::tasks::record` reads it.
macro_rules! task_columns {
    () => {
        "t.id, t.workflow_id, t.activity_id, t.activity_type, t.input, t.options, t.sequential, t.status, \
         t.line, t.epoch, t.scheduled_at, t.visible_at, t.attempt, t.deliveries, t.claimed_by, t.claimed_at, \
         t.token, t.lease_expires_at, t.heartbeat_at, t.heartbeat_details, t.close_deadline, \
         t.attempts, t.requeue_count, t.trace_id, t.span_id, t.trace_flags"
    };
}
pub(in crate::persistence::postgres) use task_columns;

statements! {
    /// Locks tasks by run and id. Primary key; locks in its order.
    LOCK_TASKS [INT4, UUID_ARRAY, UUID_ARRAY] = concat!("
        SELECT ", task_columns!(), "
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS id OFFSET 0) AS k
        JOIN {s}.durable_task_queue AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id
        ORDER BY t.workflow_id, t.id
        FOR UPDATE OF t");

    /// Tasks by run and id, nothing locked but their runs. Primary key.
    READ_TASKS [INT4, UUID_ARRAY, UUID_ARRAY] = concat!("
        SELECT ", task_columns!(), "
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS id OFFSET 0) AS k
        JOIN {s}.durable_task_queue AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id");

    /// Locks all tasks of runs. Primary key by its first two columns; locks in its order.
    LOCK_TASKS_OF [INT4, UUID_ARRAY] = concat!("
        SELECT ", task_columns!(), "
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_task_queue AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id
        ORDER BY t.workflow_id, t.id
        FOR UPDATE OF t");

    /// Tasks that leave; they or their runs were locked before. Primary key.
    DELETE_TASKS [INT4, UUID_ARRAY, UUID_ARRAY] = "
        DELETE FROM {s}.durable_task_queue AS t
        USING (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id";

    /// All tasks of runs that ended, go on as new or were reset. Primary key by its first two columns.
    DELETE_TASKS_OF [INT4, UUID_ARRAY] = "
        DELETE FROM {s}.durable_task_queue AS t
        USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id";

    /// Queues tasks.
    INSERT_TASKS [INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, TEXT_ARRAY,
                  INT4_ARRAY, INT8_ARRAY, BOOL_ARRAY, INT4_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY,
                  INT4_ARRAY, INT8_ARRAY, INT4_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY,
                  TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, BYTEA_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY,
                  TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, BYTEA_ARRAY, INT4_ARRAY,
                  TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY] = "
        INSERT INTO {s}.durable_task_queue
            (partition_key, id, workflow_id, activity_id, activity_type, input, options, status,
             priority, line, sequential, epoch, scheduled_at, visible_at, attempt, max_attempts,
             deliveries, claimed_by, claimed_at, token, lease_expires_at, heartbeat_at,
             heartbeat_details, schedule_to_start_timeout_ms, start_to_close_timeout_ms,
             heartbeat_timeout_ms, close_deadline, timeout_at, due_at, attempts, requeue_count,
             trace_id, span_id, trace_flags)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9),
               unnest($10), unnest($11), unnest($12), unnest($13), unnest($14), unnest($15), unnest($16),
               unnest($17), unnest($18), unnest($19), unnest($20), unnest($21), unnest($22), unnest($23),
               unnest($24), unnest($25), unnest($26), unnest($27), unnest($28), unnest($29), unnest($30),
               unnest($31), unnest($32), unnest($33), unnest($34)";

    /// Changed tasks, locked before. Primary key.
    UPDATE_TASKS [INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INT4_ARRAY, INT4_ARRAY,
                  TEXT_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY,
                  BYTEA_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, BYTEA_ARRAY,
                  INT4_ARRAY] = "
        UPDATE {s}.durable_task_queue AS t
        SET status = k.status, visible_at = k.visible_at, attempt = k.attempt,
            deliveries = k.deliveries, claimed_by = k.claimed_by, claimed_at = k.claimed_at,
            token = k.token, lease_expires_at = k.lease_expires_at, heartbeat_at = k.heartbeat_at,
            heartbeat_details = k.heartbeat_details, close_deadline = k.close_deadline,
            timeout_at = k.timeout_at, due_at = k.due_at, attempts = k.attempts,
            requeue_count = k.requeue_count
        FROM (SELECT $1 AS shard,
                     unnest($2) AS workflow_id, unnest($3) AS id, unnest($4) AS status, unnest($5) AS visible_at,
                     unnest($6) AS attempt, unnest($7) AS deliveries, unnest($8) AS claimed_by,
                     unnest($9) AS claimed_at, unnest($10) AS token, unnest($11) AS lease_expires_at,
                     unnest($12) AS heartbeat_at, unnest($13) AS heartbeat_details, unnest($14) AS close_deadline,
                     unnest($15) AS timeout_at, unnest($16) AS due_at, unnest($17) AS attempts,
                     unnest($18) AS requeue_count
              OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id";

    /// Moves the lines of runs up: the first sequential task, if it stands in line, may be claimed (or waits for its time).
    /// Primary key by its first two columns: reads the run's tasks, which the run's lock keeps as they are.
    RELEASE_LINES [INT4, UUID_ARRAY, TIMESTAMPTZ] = "
        UPDATE {s}.durable_task_queue AS t
        SET status = CASE WHEN t.visible_at > $3 THEN 'delayed' ELSE 'pending' END,
            visible_at = GREATEST(t.visible_at, $3),
            timeout_at = LEAST(t.close_deadline, CASE WHEN t.visible_at > $3 THEN t.visible_at
                ELSE $3 + t.schedule_to_start_timeout_ms * INTERVAL '1 millisecond' END),
            due_at = LEAST(t.close_deadline, CASE WHEN t.visible_at > $3 THEN t.visible_at
                ELSE $3 + t.schedule_to_start_timeout_ms * INTERVAL '1 millisecond' END)
        FROM (
            SELECT $1 AS shard, run.id AS run_id, head.id
            FROM unnest($2) AS run(id)
            CROSS JOIN LATERAL (
                SELECT h.id, h.status
                FROM {s}.durable_task_queue AS h
                WHERE h.partition_key = $1 AND h.workflow_id = run.id AND h.sequential
                ORDER BY h.line
                LIMIT 1
            ) AS head
            WHERE head.status = 'in_line'
            OFFSET 0
        ) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id AND t.id = k.id";

    /// Claims pending tasks. Per type the first by index `pending`, passing over those locked by others; of these the
    /// first of all. Sorts only candidates. The CTE only locks; it is read once, which a sub-select in FROM would not promise.
    /// `$8` is how much the claim counts: 1, but for the planted mistake that forgets to count.
    CLAIM_TASKS [INT4, TEXT_ARRAY, INT8, TEXT, UUID, INT8, TIMESTAMPTZ, INT4] = concat!("
        WITH pick AS MATERIALIZED (
            SELECT $1 AS shard, c.workflow_id, c.id, clock.now,
                   clock.now + $6 * INTERVAL '1 microsecond' AS lease_expires_at
            FROM (SELECT COALESCE($7, clock_timestamp()) AS now) AS clock
            CROSS JOIN unnest($2) AS wanted(activity_type)
            CROSS JOIN LATERAL (
                SELECT p.workflow_id, p.id, p.priority, p.visible_at
                FROM {s}.durable_task_queue AS p
                WHERE p.partition_key = $1 AND p.status = 'pending'
                  AND p.activity_type = wanted.activity_type
                ORDER BY p.priority DESC, p.visible_at, p.id, p.workflow_id
                LIMIT $3
                FOR UPDATE SKIP LOCKED
            ) AS c
            ORDER BY c.priority DESC, c.visible_at, c.id, c.workflow_id
            LIMIT $3
        )
        UPDATE {s}.durable_task_queue AS t
        SET status = 'claimed', attempt = t.attempt + $8, deliveries = t.deliveries + $8,
            claimed_by = $4, claimed_at = pick.now, token = $5,
            lease_expires_at = pick.lease_expires_at, heartbeat_at = NULL,
            timeout_at = LEAST(
                pick.now + t.start_to_close_timeout_ms * INTERVAL '1 millisecond',
                pick.now + t.heartbeat_timeout_ms * INTERVAL '1 millisecond',
                t.close_deadline),
            due_at = LEAST(
                pick.now + t.start_to_close_timeout_ms * INTERVAL '1 millisecond',
                pick.now + t.heartbeat_timeout_ms * INTERVAL '1 millisecond',
                t.close_deadline, pick.lease_expires_at)
        FROM pick
        WHERE t.partition_key = ANY(ARRAY[pick.shard]) AND t.workflow_id = pick.workflow_id AND t.id = pick.id
        RETURNING pick.now, ", task_columns!());
}
