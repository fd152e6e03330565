-- Views for people and dashboards: the payloads as JSONB. They never error: bytes that PostgreSQL
-- cannot read as JSONB (a codec's output, \u0000, a number out of its range) show as {"$bytes": base64}.

CREATE FUNCTION {s}.durable_json(bytes BYTEA) RETURNS JSONB
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN jsonb_build_object('$bytes', replace(encode(bytes, 'base64'), E'\n', ''));
END
$$;

CREATE VIEW {s}.durable_workflow_instances_view AS
SELECT id, workflow_type, version, business_id, idempotency_key, status,
       {s}.durable_json(input) AS input,
       {s}.durable_json(result) AS result,
       {s}.durable_json(error) AS error,
       {s}.durable_json(memo) AS memo,
       parent_id, parent_child_id, has_children, sequence_num, history_start, iteration, epoch,
       arrivals, consumed, ready_at, owner_id, owner_expires_at, blocked_build, blocked_reason,
       execution_deadline, run_deadline, created_at, updated_at, started_at, completed_at,
       partition_key, trace_id, span_id
FROM {s}.durable_workflow_instances;

CREATE VIEW {s}.durable_workflow_events_view AS
SELECT workflow_id, sequence_num, event_type,
       {s}.durable_json(event_data) AS event_data,
       {s}.durable_json(payload) AS payload,
       created_at, partition_key, trace_id, span_id
FROM {s}.durable_workflow_events;

CREATE VIEW {s}.durable_task_queue_view AS
SELECT id, workflow_id, activity_id, activity_type,
       {s}.durable_json(input) AS input,
       {s}.durable_json(options) AS options,
       status, priority, line, sequential, epoch, scheduled_at, visible_at, attempt, max_attempts,
       deliveries, claimed_by, claimed_at, lease_expires_at, heartbeat_at,
       {s}.durable_json(heartbeat_details) AS heartbeat_details,
       close_deadline, timeout_at,
       {s}.durable_json(attempts) AS attempts,
       requeue_count, partition_key, trace_id, span_id
FROM {s}.durable_task_queue;

CREATE VIEW {s}.durable_dead_letter_queue_view AS
SELECT id, workflow_id, activity_id, activity_type,
       {s}.durable_json(input) AS input,
       {s}.durable_json(options) AS options,
       epoch, attempts,
       {s}.durable_json(last_error) AS last_error,
       {s}.durable_json(error_history) AS error_history,
       parked, state, dead_at, requeued_at, requeue_count, partition_key
FROM {s}.durable_dead_letter_queue;

CREATE VIEW {s}.durable_inbox_view AS
SELECT workflow_id, arrival, event_type,
       {s}.durable_json(event_data) AS event_data,
       {s}.durable_json(payload) AS payload,
       {s}.durable_json(attempts) AS attempts,
       {s}.durable_json(last_attempt) AS last_attempt,
       arrived_at, partition_key
FROM {s}.durable_inbox;

CREATE VIEW {s}.durable_signals_view AS
SELECT workflow_id, id, signal_type, {s}.durable_json(payload) AS payload,
       sequence_num, sent_at, processed_at, partition_key
FROM {s}.durable_signals;

CREATE VIEW {s}.durable_updates_view AS
SELECT workflow_id, update_id, name, {s}.durable_json(input) AS input, sequence_num, state,
       {s}.durable_json(result) AS result, {s}.durable_json(error) AS error,
       created_at, completed_at, partition_key
FROM {s}.durable_updates;

CREATE VIEW {s}.durable_messages_view AS
SELECT sender, sequence_num, idx, kind, {s}.durable_json(data) AS data,
       {s}.durable_json(payload) AS payload, {s}.durable_json(memo) AS memo, partition_key
FROM {s}.durable_messages;

CREATE VIEW {s}.durable_outbox_view AS
SELECT id, workflow_id, event_type, {s}.durable_json(payload) AS payload, idempotency_key, state,
       attempts, available_at, last_error, created_at, published_at, partition_key
FROM {s}.durable_outbox;

CREATE VIEW {s}.durable_step_logs_view AS
SELECT id, workflow_id, activity_id, attempt, level, message, {s}.durable_json(meta) AS meta,
       created_at, partition_key
FROM {s}.durable_step_logs;

CREATE VIEW {s}.durable_schedules_view AS
SELECT id, workflow_type, version, {s}.durable_json(input) AS input, cron, time_zone, overlap,
       catchup_window_ms, paused, next_fire_at, last_fire_at, last_run, created_at, updated_at
FROM {s}.durable_schedules;

CREATE VIEW {s}.durable_workers_view AS
SELECT id, worker_group, activity_types, max_concurrency, current_load, status, accepting_tasks,
       backpressure_reason, started_at, last_heartbeat_at, hostname, version,
       {s}.durable_json(metadata) AS metadata, tasks_completed, tasks_failed, avg_task_duration_ms
FROM {s}.durable_workers;

CREATE VIEW {s}.durable_dedup_view AS
SELECT key, {s}.durable_json(result) AS result, created_at
FROM {s}.durable_dedup;

CREATE VIEW {s}.durable_circuit_breaker_state_view AS
SELECT key, state, failure_count, success_count, opened_at, {s}.durable_json(data) AS data,
       version, updated_at
FROM {s}.durable_circuit_breaker_state;

CREATE VIEW {s}.durable_human_tasks_view AS
SELECT workflow_id, task_id, state, assignee, {s}.durable_json(request) AS request,
       {s}.durable_json(answer) AS answer, decision, actor, due_at, created_at, decided_at,
       partition_key
FROM {s}.durable_human_tasks;

CREATE VIEW {s}.durable_audit_view AS
SELECT id, at, actor, action, target_kind, target_id, outcome, {s}.durable_json(detail) AS detail
FROM {s}.durable_audit;
