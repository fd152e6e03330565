//! Runs: `durable_workflow_instances`.

use crate::persistence::postgres::statement::{Statement, statements};

/// A whole run, in the order in which `rows::runs::record` reads it.
macro_rules! run_columns {
    () => {
        "id, workflow_type, version, business_id, idempotency_key, fingerprint, status, input, \
         result, error, memo, trace_id, span_id, trace_flags, parent_id, parent_child_id, \
         parent_epoch, parent_iteration, parent_close_policy, has_children, sequence_num, \
         history_start, iteration, epoch, arrivals, consumed, last_turn, ready_at, owner_id, \
         owner_expires_at, blocked_build, blocked_reason, execution_deadline, run_deadline, \
         run_timeout_ms, created_at, updated_at, started_at, completed_at"
    };
}
pub(in crate::persistence::postgres) use run_columns;

/// A run as a turn needs it, in the order of `run_columns`: the input only while the run (or
/// iteration) has not begun, so that the input of a run under way is not taken out of TOAST.
macro_rules! turn_columns {
    () => {
        "id, workflow_type, version, business_id, idempotency_key, fingerprint, status, \
         CASE WHEN sequence_num = history_start THEN input END AS input, \
         result, error, memo, trace_id, span_id, trace_flags, parent_id, parent_child_id, \
         parent_epoch, parent_iteration, parent_close_policy, has_children, sequence_num, \
         history_start, iteration, epoch, arrivals, consumed, last_turn, ready_at, owner_id, \
         owner_expires_at, blocked_build, blocked_reason, execution_deadline, run_deadline, \
         run_timeout_ms, created_at, updated_at, started_at, completed_at"
    };
}

/// What a list shows of a run, in the order in which `rows::runs::summary` reads it. No payload: a
/// column that is not named here is not taken out of TOAST.
macro_rules! summary_columns {
    ($table:literal) => {
        concat!(
            $table,
            ".id, ",
            $table,
            ".workflow_type, ",
            $table,
            ".version, ",
            $table,
            ".business_id, ",
            $table,
            ".status, ",
            $table,
            ".parent_id, ",
            $table,
            ".blocked_build, ",
            $table,
            ".blocked_reason, ",
            $table,
            ".sequence_num, ",
            $table,
            ".iteration, ",
            $table,
            ".epoch, ",
            $table,
            ".created_at, ",
            $table,
            ".updated_at, ",
            $table,
            ".started_at, ",
            $table,
            ".completed_at"
        )
    };
}
pub(in crate::persistence::postgres) use summary_columns;

/// What a write has to know of a run, in the order in which `rows::runs::head` reads it, locked in
/// the order of ids.
macro_rules! lock_runs {
    () => {
        "
        SELECT id, workflow_type, business_id, idempotency_key, fingerprint, status, parent_id,
               parent_child_id, parent_epoch, parent_iteration, parent_close_policy, has_children,
               sequence_num, history_start, iteration, epoch, arrivals, consumed, last_turn,
               ready_at, owner_id, owner_expires_at, blocked_build, blocked_reason,
               execution_deadline, run_deadline, run_timeout_ms, created_at, updated_at, started_at,
               completed_at, task_count, line_count
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_workflow_instances AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.run_id
        ORDER BY t.id
        FOR UPDATE OF t"
    };
}

statements! {
    /// Where runs stand. Primary key.
    READ_MARKS [INT4, UUID_ARRAY] = "
        SELECT r.id, r.status, r.sequence_num
        FROM (SELECT $1 AS shard, unnest($2) AS id OFFSET 0) AS k
        JOIN {s}.durable_workflow_instances AS r ON r.partition_key = ANY(ARRAY[k.shard]) AND r.id = k.id";

    /// Locks runs and reads what a write has to know. Primary key; locks in the order of ids.
    LOCK_RUNS [INT4, UUID_ARRAY] = lock_runs!();

    /// The same, passing over runs that another transaction has locked.
    LOCK_FREE_RUNS [INT4, UUID_ARRAY] = concat!(lock_runs!(), " SKIP LOCKED");

    /// Which of these runs exist, locked or not. Primary key.
    RUNS_THERE [INT4, UUID_ARRAY] = "
        SELECT t.id
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_workflow_instances AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.run_id";

    /// Runs by id as a turn needs them, nothing locked. Primary key.
    READ_TURN_RUNS [INT4, UUID_ARRAY] = concat!("
        SELECT ", turn_columns!(), "
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_workflow_instances AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.run_id");

    /// Runs by id, nothing locked. Primary key.
    READ_RUNS [INT4, UUID_ARRAY] = concat!("
        SELECT ", run_columns!(), "
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_workflow_instances AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.run_id");

    /// Runs by id, as lists show them. Primary key.
    READ_SUMMARIES [INT4, UUID_ARRAY] = concat!("
        SELECT ", summary_columns!("t"), "
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_workflow_instances AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.run_id");

    /// New runs. A run id that exists is a unique violation: somebody else was first, and the write is planned again.
    INSERT_RUNS [INT4, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY,
                 BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY,
                 UUID_ARRAY, TEXT_ARRAY, INT4_ARRAY, INT4_ARRAY, TEXT_ARRAY, BOOL_ARRAY, INT8_ARRAY,
                 INT8_ARRAY, INT4_ARRAY, INT4_ARRAY, INT8_ARRAY, INT8_ARRAY, UUID_ARRAY,
                 TIMESTAMPTZ_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
                 TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, INT8_ARRAY, TIMESTAMPTZ_ARRAY,
                 TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, INT4_ARRAY,
                 INT4_ARRAY] = concat!("
        INSERT INTO {s}.durable_workflow_instances (partition_key, ", run_columns!(), ", deadline_at, task_count, line_count)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9),
               unnest($10), unnest($11), unnest($12), unnest($13), unnest($14), unnest($15), unnest($16),
               unnest($17), unnest($18), unnest($19), unnest($20), unnest($21), unnest($22), unnest($23),
               unnest($24), unnest($25), unnest($26), unnest($27), unnest($28), unnest($29), unnest($30),
               unnest($31), unnest($32), unnest($33), unnest($34), unnest($35), unnest($36), unnest($37),
               unnest($38), unnest($39), unnest($40), unnest($41), unnest($42), unnest($43)");

    /// Changed runs, locked before. Primary key. Input and outcome are kept unless their flag is set; a kept one keeps its
    /// place in TOAST.
    UPDATE_RUNS [INT4, UUID_ARRAY, TEXT_ARRAY, BOOL_ARRAY, INT8_ARRAY, INT8_ARRAY, INT4_ARRAY, INT4_ARRAY,
                 INT8_ARRAY, INT8_ARRAY, UUID_ARRAY, TIMESTAMPTZ_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY,
                 TEXT_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY,
                 TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, INT4_ARRAY, INT4_ARRAY,
                 BOOL_ARRAY, BYTEA_ARRAY, BOOL_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY] = "
        UPDATE {s}.durable_workflow_instances AS t
        SET status = k.status, has_children = k.has_children, sequence_num = k.sequence_num,
            history_start = k.history_start, iteration = k.iteration, epoch = k.epoch,
            arrivals = k.arrivals, consumed = k.consumed, last_turn = k.last_turn,
            ready_at = k.ready_at, owner_id = k.owner_id, owner_expires_at = k.owner_expires_at,
            blocked_build = k.blocked_build, blocked_reason = k.blocked_reason,
            execution_deadline = k.execution_deadline, run_deadline = k.run_deadline,
            deadline_at = k.deadline_at, updated_at = k.updated_at, started_at = k.started_at,
            completed_at = k.completed_at, task_count = k.task_count, line_count = k.line_count,
            input = CASE WHEN k.new_input THEN k.input ELSE t.input END,
            result = CASE WHEN k.new_outcome THEN k.result ELSE t.result END,
            error = CASE WHEN k.new_outcome THEN k.error ELSE t.error END
        FROM (SELECT $1 AS shard,
                     unnest($2) AS id, unnest($3) AS status, unnest($4) AS has_children, unnest($5) AS sequence_num,
                     unnest($6) AS history_start, unnest($7) AS iteration, unnest($8) AS epoch,
                     unnest($9) AS arrivals, unnest($10) AS consumed, unnest($11) AS last_turn,
                     unnest($12) AS ready_at, unnest($13) AS owner_id, unnest($14) AS owner_expires_at,
                     unnest($15) AS blocked_build, unnest($16) AS blocked_reason, unnest($17) AS execution_deadline,
                     unnest($18) AS run_deadline, unnest($19) AS deadline_at, unnest($20) AS updated_at,
                     unnest($21) AS started_at, unnest($22) AS completed_at, unnest($23) AS task_count,
                     unnest($24) AS line_count, unnest($25) AS new_input, unnest($26) AS input,
                     unnest($27) AS new_outcome, unnest($28) AS result, unnest($29) AS error
              OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.id";

    /// Runs that go on as they are, locked before: the mass of a loaded engine's updates, with a third of the columns. Primary key.
    ADVANCE_RUNS [INT4, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, UUID_ARRAY, TIMESTAMPTZ_ARRAY,
                  TIMESTAMPTZ_ARRAY, INT4_ARRAY, INT4_ARRAY] = "
        UPDATE {s}.durable_workflow_instances AS t
        SET sequence_num = k.sequence_num, arrivals = k.arrivals, consumed = k.consumed,
            last_turn = k.last_turn, owner_expires_at = k.owner_expires_at, updated_at = k.updated_at,
            task_count = k.task_count, line_count = k.line_count
        FROM (SELECT $1 AS shard,
                     unnest($2) AS id, unnest($3) AS sequence_num, unnest($4) AS arrivals,
                     unnest($5) AS consumed, unnest($6) AS last_turn, unnest($7) AS owner_expires_at,
                     unnest($8) AS updated_at, unnest($9) AS task_count, unnest($10) AS line_count
              OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.id";

    /// Claims ready runs. Per hosted type and version the longest ready by index `ready`, passing over those locked
    /// by others; of these the longest ready of all. Sorts only candidates. The CTE only locks; it is read once, which a
    /// sub-select in FROM would not promise.
    CLAIM_RUNS [INT4, TEXT_ARRAY, TEXT_ARRAY, TEXT, INT8, TEXT, INT8, TIMESTAMPTZ, INT8] = concat!("
        WITH pick AS MATERIALIZED (
            SELECT f.shard, f.pick_id, f.now
            FROM (
            SELECT $1 AS shard, c.pick_id, clock.now, c.pick_bytes,
                   sum(c.pick_bytes) OVER (ORDER BY c.pick_ready_at, c.pick_id) AS total
            FROM (SELECT COALESCE($8, clock_timestamp()) AS now) AS clock
            CROSS JOIN unnest($2, $3) AS hosted(workflow_type, version)
            CROSS JOIN LATERAL (
                SELECT r.id AS pick_id, r.ready_at AS pick_ready_at,
                       GREATEST(COALESCE(CASE WHEN r.sequence_num = r.history_start
                                              THEN octet_length(r.input) END, 0)
                                + COALESCE(octet_length(r.memo), 0), 1)::int8 AS pick_bytes
                FROM {s}.durable_workflow_instances AS r
                WHERE r.partition_key = $1 AND r.workflow_type = hosted.workflow_type
                  AND r.version = hosted.version AND r.ready_at IS NOT NULL
                  AND (r.owner_expires_at IS NULL OR r.owner_expires_at <= clock.now)
                  AND r.blocked_build IS DISTINCT FROM $4
                ORDER BY r.ready_at, r.id
                LIMIT $5
                FOR UPDATE SKIP LOCKED
            ) AS c
            ORDER BY c.pick_ready_at, c.pick_id
            LIMIT $5
            ) AS f
            WHERE f.total <= $9 OR f.total = f.pick_bytes
        )
        UPDATE {s}.durable_workflow_instances AS t
        SET owner_id = $6, owner_expires_at = pick.now + $7 * INTERVAL '1 microsecond'
        FROM pick
        WHERE t.partition_key = ANY(ARRAY[pick.shard]) AND t.id = pick.pick_id
        RETURNING pick.now, ", turn_columns!());

    /// Runs of a parent that have not ended and are still to be told that it has: those that go on
    /// without it are not, and those that are to be cancelled have its signal once they were. Index
    /// `parent`.
    OPEN_CHILDREN [INT4, UUID, INT8] = "
        SELECT r.id
        FROM {s}.durable_workflow_instances AS r
        WHERE r.partition_key = $1 AND r.parent_id = $2
          AND r.status NOT IN ('completed', 'failed', 'cancelled')
          AND r.parent_close_policy <> 'abandon'
          AND NOT EXISTS (
              SELECT 1 FROM {s}.durable_signals AS g
              WHERE g.partition_key = $1 AND g.workflow_id = r.id AND g.id = $2
                AND r.parent_close_policy = 'cancel')
        ORDER BY r.id
        LIMIT $3";
}
