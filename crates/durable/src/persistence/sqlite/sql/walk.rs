//! What an audit reads run by run.

/// The runs that have rows in a table, by the range of their ids: from one run to the next by the
/// primary key, however many rows each has, and at most a number of them. With each whether its run
/// is neither there nor being deleted.
macro_rules! runs_with_rows {
    ($table:literal, $run:literal) => {
        concat!(
            "WITH RECURSIVE found(run_id) AS (SELECT (SELECT ",
            $run,
            " FROM durable_",
            $table,
            " WHERE partition_key = ?1 AND ",
            $run,
            " > ?2 AND ",
            $run,
            " <= ?3 ORDER BY ",
            $run,
            " LIMIT 1) UNION ALL SELECT (SELECT ",
            $run,
            " FROM durable_",
            $table,
            " WHERE partition_key = ?1 AND ",
            $run,
            " > found.run_id AND ",
            $run,
            " <= ?3 ORDER BY ",
            $run,
            " LIMIT 1) FROM found WHERE found.run_id IS NOT NULL LIMIT ?4) \
             SELECT run_id, NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
                 WHERE r.partition_key = ?1 AND r.id = found.run_id) \
             AND NOT EXISTS (SELECT 1 FROM durable_purges AS p \
                 WHERE p.partition_key = ?1 AND p.run_id = found.run_id) \
             FROM found WHERE run_id IS NOT NULL"
        )
    };
}

statements! {
    /// Columns of a run that follow from others.
    DERIVED_OF_RUN =
        "SELECT task_count, line_count, deadline_at FROM durable_workflow_instances \
         WHERE partition_key = ?1 AND id = ?2";
    /// Columns of its tasks that follow from others.
    DERIVED_OF_TASKS =
        "SELECT id, timeout_at FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY line, id";
    /// Runs with events.
    EVENT_RUNS = runs_with_rows!("workflow_events", "workflow_id");
    /// Runs with tasks.
    TASK_RUNS = runs_with_rows!("task_queue", "workflow_id");
    /// Runs with timers.
    TIMER_RUNS = runs_with_rows!("timers", "workflow_id");
    /// Runs with facts.
    FACT_RUNS = runs_with_rows!("inbox", "workflow_id");
    /// Runs with signals.
    SIGNAL_RUNS = runs_with_rows!("signals", "workflow_id");
    /// Runs with updates.
    UPDATE_RUNS = runs_with_rows!("updates", "workflow_id");
    /// Runs with search attributes.
    ATTRIBUTE_RUNS = runs_with_rows!("search_attributes", "workflow_id");
    /// Runs with messages.
    MESSAGE_RUNS = runs_with_rows!("messages", "sender");
    /// Runs with outbox events.
    OUTBOX_RUNS = runs_with_rows!("outbox", "workflow_id");
    /// Runs with log lines.
    LOG_RUNS = runs_with_rows!("step_logs", "workflow_id");
    /// Runs with dead letters.
    LETTER_RUNS = runs_with_rows!("dead_letter_queue", "workflow_id");
    /// Runs with human tasks.
    HUMAN_TASK_RUNS = runs_with_rows!("human_tasks", "workflow_id");
    /// The next runs of a shard.
    RUN_IDS =
        "SELECT id FROM durable_workflow_instances WHERE partition_key = ?1 AND id > ?2 \
         ORDER BY id LIMIT ?3";
    /// How many rows and bytes belong to a run, each table up to a limit of rows.
    MEASURE =
        "SELECT sum(number), CAST(sum(bytes) AS INTEGER) FROM ( \
         SELECT 1 AS number, coalesce(octet_length(input), 0) + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) + coalesce(octet_length(memo), 0) AS bytes \
         FROM durable_workflow_instances WHERE partition_key = ?1 AND id = ?2 \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(event_data) + coalesce(octet_length(payload), 0) AS bytes \
         FROM durable_workflow_events WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(event_data) + coalesce(octet_length(payload), 0) + coalesce(octet_length(attempts), 0) + coalesce(octet_length(last_attempt), 0) AS bytes \
         FROM durable_inbox WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(input), 0) + octet_length(options) + coalesce(octet_length(attempts), 0) + coalesce(octet_length(heartbeat_details), 0) AS bytes \
         FROM durable_task_queue WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(timer_id) AS bytes \
         FROM durable_timers WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(name) + octet_length(value) AS bytes \
         FROM durable_search_attributes WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(payload), 0) AS bytes \
         FROM durable_signals WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(input), 0) + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) AS bytes \
         FROM durable_updates WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(message) + coalesce(octet_length(payload), 0) + coalesce(octet_length(memo), 0) AS bytes \
         FROM durable_messages WHERE partition_key = ?1 AND sender = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(payload), 0) + coalesce(octet_length(last_error), 0) AS bytes \
         FROM durable_outbox WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(message) + coalesce(octet_length(meta), 0) AS bytes \
         FROM durable_step_logs WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(input), 0) + octet_length(options) + octet_length(last_error) + octet_length(error_history) AS bytes \
         FROM durable_dead_letter_queue WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3))";
    /// The next keys of a shard.
    KEYS =
        "SELECT kind, key, workflow_id FROM durable_keys WHERE partition_key = ?1 AND (kind, key) > (?2, ?3) \
         ORDER BY kind, key LIMIT ?4";
    /// What a run says of its keys.
    HOLDER =
        "SELECT idempotency_key, business_id FROM durable_workflow_instances \
         WHERE partition_key = ?1 AND id = ?2";
    /// What is noted of the keys of a run that is being deleted.
    DELETED_HOLDER =
        "SELECT idempotency_key, business_id FROM durable_purges WHERE partition_key = ?1 AND run_id = ?2";
    /// Runs that are being deleted.
    DELETED for Proof =
        "SELECT run_id FROM durable_purges AS p WHERE NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
         WHERE r.partition_key = p.partition_key AND r.id = p.run_id)";
    /// Deadlines that passed before an instant, the longest ago first.
    OVERDUE_DEADLINES =
        "SELECT id, deadline_at FROM durable_workflow_instances \
         WHERE partition_key = ?1 AND deadline_at < ?2 ORDER BY deadline_at LIMIT ?3";
}
