-- Indexes that bound what lists, counts and retention read. None holds a column that every turn
-- writes, so that a turn is still a HOT update.
-- durable: concurrently

-- Lists and counts of runs: an index for every filter, in the order of the list. Statuses, completed
-- among them; a workflow type alone, or with statuses; ranges of starts; blocked runs, which are few.
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_workflow_instances_by_status
    ON {s}.durable_workflow_instances (partition_key, status, id);
DROP INDEX CONCURRENTLY IF EXISTS {s}.durable_workflow_instances_status;
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_workflow_instances_type
    ON {s}.durable_workflow_instances (partition_key, workflow_type, status, id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_workflow_instances_created
    ON {s}.durable_workflow_instances (partition_key, created_at, id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_workflow_instances_blocked
    ON {s}.durable_workflow_instances (partition_key, id)
    WHERE blocked_build IS NOT NULL;

-- Tasks that are neither claimable nor claimed. A task of a run without parallel or failing
-- activities is never in it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_task_queue_held
    ON {s}.durable_task_queue (partition_key, status, activity_type)
    WHERE status IN ('in_line', 'delayed', 'parked', 'dead');

-- Dead letters without a decision; by state, and by activity and state, newest death first.
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_dead_letter_queue_open
    ON {s}.durable_dead_letter_queue (partition_key, id)
    WHERE state = 'dead';
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_dead_letter_queue_state
    ON {s}.durable_dead_letter_queue (partition_key, state, dead_at DESC, id, workflow_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_dead_letter_queue_type
    ON {s}.durable_dead_letter_queue (partition_key, activity_type, state, dead_at DESC, id, workflow_id);
DROP INDEX CONCURRENTLY IF EXISTS {s}.durable_dead_letter_queue_dead_at;

-- Audit rows by operation, by kind of target and by request, newest first.
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_audit_action ON {s}.durable_audit (action, id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_audit_kind ON {s}.durable_audit (target_kind, id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_audit_request ON {s}.durable_audit (request_id, id);

-- Retention: runs with events of earlier iterations; ended runs, the earliest end first; what goes
-- by its age, the oldest first.
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_workflow_instances_past
    ON {s}.durable_workflow_instances (partition_key, id)
    WHERE history_start > purged_through;
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_workflow_instances_ended
    ON {s}.durable_workflow_instances (partition_key, completed_at, id)
    WHERE completed_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS {s}.durable_workflow_instances_completed;
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_signals_processed
    ON {s}.durable_signals (partition_key, processed_at)
    WHERE processed_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_updates_completed
    ON {s}.durable_updates (partition_key, completed_at)
    WHERE completed_at IS NOT NULL;
-- By the age alone: a planner that takes the table for empty must not read a run's lines by it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_step_logs_created
    ON {s}.durable_step_logs (created_at);
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_outbox_over
    ON {s}.durable_outbox (partition_key, available_at)
    WHERE state IN ('published', 'failed');
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_dead_letter_queue_decided
    ON {s}.durable_dead_letter_queue (partition_key, dead_at)
    WHERE state <> 'dead';
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_dedup_created ON {s}.durable_dedup (created_at);
-- Without last_heartbeat_at: a heartbeat must stay a HOT update.
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_workers_stopped ON {s}.durable_workers (status, id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_keys_slots
    ON {s}.durable_keys (partition_key, created_at, key)
    WHERE kind = 'cron_slot';
