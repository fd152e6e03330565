//! Runs, one by one and by what is due.

/// All columns of a run record, in the order in which it is read and written.
macro_rules! run_columns {
    () => {
        "id, workflow_type, version, business_id, idempotency_key, fingerprint, status, input, \
         result, error, memo, trace_id, span_id, trace_flags, parent_id, parent_child_id, \
         parent_epoch, parent_iteration, parent_close_policy, has_children, sequence, \
         history_start, iteration, epoch, arrivals, consumed, last_turn, ready_at, owner, \
         owner_expires_at, blocked_build, blocked_reason, execution_deadline, run_deadline, \
         run_timeout_ms, created_at, updated_at, started_at, completed_at"
    };
}

statements! {
    /// Where a run stands.
    MARK =
        "SELECT status, sequence FROM durable_workflow_instances WHERE partition_key = ?1 AND id = ?2";

    /// A new run; behind its record come its deadline, its shard and its counts.
    INSERT = concat!(
        "INSERT INTO durable_workflow_instances (", run_columns!(),
        ", deadline_at, partition_key, task_count, line_count) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, \
         ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    );
    /// The whole run.
    GET = concat!(
        "SELECT ", run_columns!(),
        " FROM durable_workflow_instances WHERE partition_key = ?1 AND id = ?2"
    );
    /// The run without its payloads.
    GET_HEAD =
        "SELECT id, workflow_type, business_id, idempotency_key, fingerprint, status, parent_id, \
         parent_child_id, parent_epoch, parent_iteration, parent_close_policy, has_children, \
         sequence, history_start, iteration, epoch, arrivals, consumed, last_turn, ready_at, owner, \
         owner_expires_at, blocked_build, blocked_reason, execution_deadline, run_deadline, \
         run_timeout_ms, created_at, updated_at, started_at, completed_at, task_count, line_count \
         FROM durable_workflow_instances WHERE partition_key = ?1 AND id = ?2";
    /// What may change, payloads apart.
    UPDATE_HEAD =
        "UPDATE durable_workflow_instances SET status = ?3, has_children = ?4, sequence = ?5, \
         history_start = ?6, iteration = ?7, epoch = ?8, arrivals = ?9, consumed = ?10, \
         last_turn = ?11, ready_at = ?12, owner = ?13, owner_expires_at = ?14, blocked_build = ?15, \
         blocked_reason = ?16, execution_deadline = ?17, run_deadline = ?18, deadline_at = ?19, \
         updated_at = ?20, started_at = ?21, completed_at = ?22, task_count = ?23, line_count = ?24 \
         WHERE partition_key = ?1 AND id = ?2";
    /// What every turn moves. None of it stands in an index but the end of the ownership, in that of runs with a turn due.
    ADVANCE =
        "UPDATE durable_workflow_instances SET sequence = ?3, arrivals = ?4, consumed = ?5, \
         last_turn = ?6, owner_expires_at = ?7, updated_at = ?8, task_count = ?9, line_count = ?10 \
         WHERE partition_key = ?1 AND id = ?2";
    /// The next iteration's input.
    SET_INPUT =
        "UPDATE durable_workflow_instances SET input = ?3 WHERE partition_key = ?1 AND id = ?2";
    /// How the run ended, or that it has not after all.
    SET_OUTCOME =
        "UPDATE durable_workflow_instances SET result = ?3, error = ?4 \
         WHERE partition_key = ?1 AND id = ?2";
    /// Ready runs of one type and version that nobody has and this build has not given up on; by index `ready`.
    READY =
        "SELECT ready_at, id, \
         max(CASE WHEN sequence = history_start THEN coalesce(length(input), 0) ELSE 0 END \
             + coalesce(length(memo), 0), 1) \
         FROM durable_workflow_instances \
         WHERE partition_key = ?1 AND workflow_type = ?2 AND version = ?3 AND ready_at IS NOT NULL \
         AND (owner_expires_at IS NULL OR owner_expires_at <= ?4) \
         AND (blocked_build IS NULL OR blocked_build <> ?5) \
         ORDER BY ready_at, id LIMIT ?6";
    /// Makes somebody the owner.
    SET_OWNER =
        "UPDATE durable_workflow_instances SET owner = ?3, owner_expires_at = ?4 \
         WHERE partition_key = ?1 AND id = ?2";
    /// Runs past their deadline; by index `deadline`.
    DUE =
        "SELECT id FROM durable_workflow_instances \
         WHERE partition_key = ?1 AND deadline_at IS NOT NULL AND deadline_at <= ?2 \
         AND hex(id) NOT IN (SELECT value FROM json_each(?4)) \
         ORDER BY deadline_at, id LIMIT ?3";
    /// The first deadline of a shard; by index `deadline`.
    NEXT_DUE =
        "SELECT deadline_at FROM durable_workflow_instances \
         WHERE partition_key = ?1 AND deadline_at IS NOT NULL \
         AND hex(id) NOT IN (SELECT value FROM json_each(?2)) \
         ORDER BY deadline_at LIMIT 1";
    /// Children that have not ended and are still to be told that their parent has, wherever they
    /// live; by index `parent`. Those that go on without it are not told, and those that are to be
    /// cancelled have its signal once they were.
    OPEN_CHILDREN =
        "SELECT id FROM durable_workflow_instances AS r \
         WHERE parent_id = ?1 AND status IN ('pending', 'running') \
         AND parent_close_policy <> 'abandon' \
         AND NOT EXISTS (SELECT 1 FROM durable_signals AS g \
             WHERE g.partition_key = r.partition_key AND g.workflow_id = r.id AND g.id = ?1 \
             AND r.parent_close_policy = 'cancel') \
         ORDER BY id LIMIT ?2";
    /// The run itself; what belongs to it follows in slices.
    DELETE = "DELETE FROM durable_workflow_instances WHERE partition_key = ?1 AND id = ?2";
    /// Ownerships of a worker that is gone; by index `owned`.
    DISOWN for Opening =
        "UPDATE durable_workflow_instances SET owner = NULL, owner_expires_at = NULL \
         WHERE owner = ?";
}
