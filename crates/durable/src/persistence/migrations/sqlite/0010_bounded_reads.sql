-- Indexes that bound what lists, counts and retention read.

-- A workflow type alone, or with statuses: one ordered list for each status.
DROP INDEX idx_durable_workflow_instances_type;
CREATE INDEX idx_durable_workflow_instances_type_status
    ON durable_workflow_instances (workflow_type, status, id);

-- Ranges of starts.
CREATE INDEX idx_durable_workflow_instances_created ON durable_workflow_instances (created_at, id);

-- Dead letters by state, and by activity and state; newest death first.
CREATE INDEX idx_durable_dlq_state
    ON durable_dead_letter_queue (state, dead_at DESC, id, workflow_id);
CREATE INDEX idx_durable_dlq_type_state
    ON durable_dead_letter_queue (activity_type, state, dead_at DESC, id, workflow_id);

-- Tasks that are neither claimable nor claimed.
CREATE INDEX idx_durable_task_queue_held
    ON durable_task_queue (partition_key, status, activity_type)
    WHERE status IN ('in_line', 'delayed', 'parked', 'dead');

-- Audit rows by operation, by kind of target and by request, newest first: the filters of the list that
-- had no index. Audit rows are written by operators' changes, never by a turn.

CREATE INDEX idx_durable_audit_action ON durable_audit (action, id);
CREATE INDEX idx_durable_audit_kind ON durable_audit (target_kind, id);
CREATE INDEX idx_durable_audit_request ON durable_audit (request_id, id);

-- Ticks of schedules that are old enough to be forgotten, the oldest first.
CREATE INDEX idx_durable_keys_slots ON durable_keys (created_at, key) WHERE kind = 'cron_slot';
