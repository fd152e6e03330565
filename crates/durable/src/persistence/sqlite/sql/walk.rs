//! What an audit reads run by run.

statements! {
    /// Columns of a run that follow from others.
    DERIVED_OF_RUN for Proof =
        "SELECT task_count, line_count, deadline_at FROM durable_workflow_instances \
         WHERE partition_key = ?1 AND id = ?2";
    /// Columns of its tasks that follow from others.
    DERIVED_OF_TASKS for Proof =
        "SELECT id, timeout_at FROM durable_task_queue \
         WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY line, id";
    /// Rows whose run is not there, by the range of its id. Events and log lines are not looked at:
    /// they
    /// are many, and go in one transaction with the rest.
    ORPHANS for Proof =
        "SELECT found_in, run_id FROM (\
         SELECT DISTINCT 'task_queue' AS found_in, t.workflow_id AS run_id FROM durable_task_queue AS t \
         WHERE t.partition_key = ?1 AND t.workflow_id > ?2 AND t.workflow_id <= ?3 AND NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
             WHERE r.partition_key = t.partition_key AND r.id = t.workflow_id) UNION ALL \
         SELECT DISTINCT 'timers' AS found_in, t.workflow_id AS run_id FROM durable_timers AS t \
         WHERE t.partition_key = ?1 AND t.workflow_id > ?2 AND t.workflow_id <= ?3 AND NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
             WHERE r.partition_key = t.partition_key AND r.id = t.workflow_id) UNION ALL \
         SELECT DISTINCT 'inbox' AS found_in, t.workflow_id AS run_id FROM durable_inbox AS t \
         WHERE t.partition_key = ?1 AND t.workflow_id > ?2 AND t.workflow_id <= ?3 AND NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
             WHERE r.partition_key = t.partition_key AND r.id = t.workflow_id) UNION ALL \
         SELECT DISTINCT 'signals' AS found_in, t.workflow_id AS run_id FROM durable_signals AS t \
         WHERE t.partition_key = ?1 AND t.workflow_id > ?2 AND t.workflow_id <= ?3 AND NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
             WHERE r.partition_key = t.partition_key AND r.id = t.workflow_id) UNION ALL \
         SELECT DISTINCT 'updates' AS found_in, t.workflow_id AS run_id FROM durable_updates AS t \
         WHERE t.partition_key = ?1 AND t.workflow_id > ?2 AND t.workflow_id <= ?3 AND NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
             WHERE r.partition_key = t.partition_key AND r.id = t.workflow_id) UNION ALL \
         SELECT DISTINCT 'search_attributes' AS found_in, t.workflow_id AS run_id FROM durable_search_attributes AS t \
         WHERE t.partition_key = ?1 AND t.workflow_id > ?2 AND t.workflow_id <= ?3 AND NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
             WHERE r.partition_key = t.partition_key AND r.id = t.workflow_id) UNION ALL \
         SELECT DISTINCT 'messages' AS found_in, t.sender AS run_id FROM durable_messages AS t \
         WHERE t.partition_key = ?1 AND t.sender > ?2 AND t.sender <= ?3 AND NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
             WHERE r.partition_key = t.partition_key AND r.id = t.sender) UNION ALL \
         SELECT DISTINCT 'outbox' AS found_in, t.workflow_id AS run_id FROM durable_outbox AS t \
         WHERE t.partition_key = ?1 AND t.workflow_id > ?2 AND t.workflow_id <= ?3 AND NOT EXISTS (SELECT 1 FROM durable_workflow_instances AS r \
             WHERE r.partition_key = t.partition_key AND r.id = t.workflow_id)) LIMIT ?4";
    /// The next runs of a shard.
    RUN_IDS for Proof =
        "SELECT id FROM durable_workflow_instances WHERE partition_key = ?1 AND id > ?2 \
         ORDER BY id LIMIT ?3";
    /// How many rows and bytes belong to a run, each table up to a limit of rows.
    MEASURE for Proof =
        "SELECT sum(number), CAST(sum(bytes) AS INTEGER) FROM ( \
         SELECT 1 AS number, coalesce(octet_length(input), 0) + coalesce(octet_length(result), 0) + coalesce(octet_length(error), 0) + coalesce(octet_length(memo), 0) AS bytes \
         FROM durable_workflow_instances WHERE partition_key = ?1 AND id = ?2 \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(event_data) + coalesce(octet_length(payload), 0) AS bytes \
         FROM durable_workflow_events WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(event_data) + coalesce(octet_length(payload), 0) + coalesce(octet_length(attempts), 0) AS bytes \
         FROM durable_inbox WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(input), 0) + coalesce(octet_length(attempts), 0) + coalesce(octet_length(heartbeat_details), 0) AS bytes \
         FROM durable_task_queue WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(payload), 0) AS bytes \
         FROM durable_signals WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(input), 0) + coalesce(octet_length(result), 0) AS bytes \
         FROM durable_updates WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(message) + coalesce(octet_length(payload), 0) + coalesce(octet_length(memo), 0) AS bytes \
         FROM durable_messages WHERE partition_key = ?1 AND sender = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(payload), 0) AS bytes \
         FROM durable_outbox WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT octet_length(message) + coalesce(octet_length(meta), 0) AS bytes \
         FROM durable_step_logs WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3) \
         UNION ALL SELECT count(*), total(bytes) FROM (SELECT coalesce(octet_length(input), 0) + octet_length(error_history) AS bytes \
         FROM durable_dead_letter_queue WHERE partition_key = ?1 AND workflow_id = ?2 LIMIT ?3))";
    /// The next keys of a shard.
    KEYS for Proof =
        "SELECT kind, key, workflow_id FROM durable_keys WHERE partition_key = ?1 AND (kind, key) > (?2, ?3) \
         ORDER BY kind, key LIMIT ?4";
    /// What a run says of its keys.
    HOLDER for Proof =
        "SELECT idempotency_key, business_id FROM durable_workflow_instances \
         WHERE partition_key = ?1 AND id = ?2";
    /// Deadlines that passed before an instant, the longest ago first.
    OVERDUE_DEADLINES for Proof =
        "SELECT id, deadline_at FROM durable_workflow_instances \
         WHERE partition_key = ?1 AND deadline_at < ?2 ORDER BY deadline_at LIMIT ?3";
}
