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

/// What a list shows of a task, in the order in which `rows::tasks::listed` reads it: no payloads,
/// and failed attempts only where they are small.
macro_rules! listed_task_columns {
    () => {
        "t.id, t.workflow_id, t.activity_id, t.activity_type, t.options, t.sequential, t.status, \
         t.line, t.epoch, t.scheduled_at, t.visible_at, t.attempt, t.deliveries, t.claimed_by, t.claimed_at, \
         t.token, t.lease_expires_at, t.heartbeat_at, t.close_deadline, \
         CASE WHEN octet_length(t.attempts) <= 16384 THEN t.attempts END, t.requeue_count, \
         t.trace_id, t.span_id, t.trace_flags"
    };
}
pub(in crate::persistence::postgres) use listed_task_columns;

/// A queued task as the rules see it, read like a whole one: the input and the details of the last
/// heartbeat stay in the database, and so do its failed attempts unless their column is named.
macro_rules! ruled_task_columns {
    ($attempts:literal) => {
        concat!("t.id, t.workflow_id, t.activity_id, t.activity_type, NULL::bytea, t.options, t.sequential, t.status, \
         t.line, t.epoch, t.scheduled_at, t.visible_at, t.attempt, t.deliveries, t.claimed_by, t.claimed_at, \
         t.token, t.lease_expires_at, t.heartbeat_at, NULL::bytea, t.close_deadline, ",
         $attempts, ", t.requeue_count, t.trace_id, t.span_id, t.trace_flags")
    };
}

/// Tasks by run and id, locked in the order of the primary key.
macro_rules! lock_tasks {
    ($attempts:literal) => {
        concat!("
        SELECT ", ruled_task_columns!($attempts), "
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS id OFFSET 0) AS k
        JOIN {s}.durable_task_queue AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id
        ORDER BY t.workflow_id, t.id
        FOR UPDATE OF t")
    };
}

statements! {
    /// Locks tasks by run and id. Primary key; locks in its order.
    LOCK_TASKS [INT4, UUID_ARRAY, UUID_ARRAY] = lock_tasks!("t.attempts");

    /// The same, passing over tasks that another transaction has locked.
    LOCK_FREE_TASKS [INT4, UUID_ARRAY, UUID_ARRAY] =
        concat!(lock_tasks!("t.attempts"), " SKIP LOCKED");

    /// Locks leased tasks by run and id, passing over those that another transaction has locked:
    /// for a renewal, which reads no value that may be large.
    LOCK_LEASES [INT4, UUID_ARRAY, UUID_ARRAY] = concat!(lock_tasks!("NULL::bytea"), " SKIP LOCKED");

    /// Which of these tasks exist, locked or not. Primary key.
    TASKS_THERE [INT4, UUID_ARRAY, UUID_ARRAY] = "
        SELECT t.workflow_id, t.id
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS id OFFSET 0) AS k
        JOIN {s}.durable_task_queue AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id";

    /// Tasks by run and id, nothing locked but their runs. Primary key.
    READ_TASKS [INT4, UUID_ARRAY, UUID_ARRAY] = concat!("
        SELECT ", ruled_task_columns!("t.attempts"), "
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS id OFFSET 0) AS k
        JOIN {s}.durable_task_queue AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id");

    /// Ids of all tasks of runs. Primary key by its first two columns.
    READ_QUEUED [INT4, UUID_ARRAY] = "
        SELECT t.workflow_id, t.id, t.activity_id
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_task_queue AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id";

    /// Where the tasks of runs stand that have one of these activities. Primary key by its first
    /// two columns; each run's tasks are read once.
    READ_STANDING [INT4, UUID_ARRAY, TEXT_ARRAY] = "
        SELECT t.workflow_id, t.id, t.activity_id, t.status, t.sequential
        FROM (SELECT DISTINCT $1 AS shard, unnest($2) AS run_id) AS k
        JOIN {s}.durable_task_queue AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id
        WHERE t.activity_id = ANY($3)";

    /// First places in the lines of runs. Primary key by its first two columns.
    READ_LINES [INT4, UUID_ARRAY] = "
        SELECT t.workflow_id, min(t.line)
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_task_queue AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id
        WHERE t.sequential
        GROUP BY t.workflow_id";

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

    /// Changed tasks, locked before. Primary key. Details of heartbeats and failed attempts are
    /// written only where `beats` and `failed` say so: a value that stays is neither read nor copied,
    /// the new row points to where it is stored already.
    UPDATE_TASKS [INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INT4_ARRAY, INT4_ARRAY,
                  TEXT_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY,
                  BYTEA_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, BYTEA_ARRAY,
                  INT4_ARRAY, BOOL_ARRAY, BOOL_ARRAY] = "
        UPDATE {s}.durable_task_queue AS t
        SET status = k.status, visible_at = k.visible_at, attempt = k.attempt,
            deliveries = k.deliveries, claimed_by = k.claimed_by, claimed_at = k.claimed_at,
            token = k.token, lease_expires_at = k.lease_expires_at, heartbeat_at = k.heartbeat_at,
            heartbeat_details = CASE WHEN k.beats THEN k.heartbeat_details ELSE t.heartbeat_details END,
            close_deadline = k.close_deadline, timeout_at = k.timeout_at, due_at = k.due_at,
            attempts = CASE WHEN k.failed THEN k.attempts ELSE t.attempts END,
            requeue_count = k.requeue_count
        FROM (SELECT $1 AS shard,
                     unnest($2) AS workflow_id, unnest($3) AS id, unnest($4) AS status, unnest($5) AS visible_at,
                     unnest($6) AS attempt, unnest($7) AS deliveries, unnest($8) AS claimed_by,
                     unnest($9) AS claimed_at, unnest($10) AS token, unnest($11) AS lease_expires_at,
                     unnest($12) AS heartbeat_at, unnest($13) AS heartbeat_details, unnest($14) AS close_deadline,
                     unnest($15) AS timeout_at, unnest($16) AS due_at, unnest($17) AS attempts,
                     unnest($18) AS requeue_count, unnest($19) AS beats, unnest($20) AS failed
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
    /// `$9` is how many bytes it may take: those that
    /// fit in that order, and the first in any case.
    CLAIM_TASKS [INT4, TEXT_ARRAY, INT8, TEXT, UUID, INT8, TIMESTAMPTZ, INT4, INT8] = concat!("
        WITH pick AS MATERIALIZED (
            SELECT f.shard, f.workflow_id, f.id, f.now, f.lease_expires_at
            FROM (
            SELECT $1 AS shard, c.workflow_id, c.id, clock.now, c.bytes,
                   clock.now + $6 * INTERVAL '1 microsecond' AS lease_expires_at,
                   sum(c.bytes) OVER (ORDER BY c.priority DESC, c.visible_at, c.id, c.workflow_id) AS total
            FROM (SELECT COALESCE($7, clock_timestamp()) AS now) AS clock
            CROSS JOIN unnest($2) AS wanted(activity_type)
            CROSS JOIN LATERAL (
                SELECT p.workflow_id, p.id, p.priority, p.visible_at,
                       GREATEST(COALESCE(octet_length(p.input), 0)
                                + COALESCE(octet_length(p.heartbeat_details), 0), 1)::int8 AS bytes
                FROM {s}.durable_task_queue AS p
                WHERE p.partition_key = $1 AND p.status = 'pending'
                  AND p.activity_type = wanted.activity_type
                ORDER BY p.priority DESC, p.visible_at, p.id, p.workflow_id
                LIMIT $3
                FOR UPDATE SKIP LOCKED
            ) AS c
            ORDER BY c.priority DESC, c.visible_at, c.id, c.workflow_id
            LIMIT $3
            ) AS f
            WHERE f.total <= $9 OR f.total = f.bytes
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
