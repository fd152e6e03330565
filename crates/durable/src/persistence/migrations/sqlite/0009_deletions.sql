-- Deleting in slices: what a deleted run leaves, and what goes by its age.

-- Deleted runs whose rows are still to be deleted. A row is written in the commit that deletes the run.
CREATE TABLE durable_purges (
    partition_key   INTEGER NOT NULL,
    run_id          BLOB    NOT NULL,
    idempotency_key TEXT,             -- the keys that the run had
    business_id     TEXT,
    created_at      INTEGER NOT NULL,
    retry_at        INTEGER NOT NULL, -- a deletion that failed is set aside for a while
    failures        INTEGER NOT NULL,
    last_error      TEXT,
    PRIMARY KEY (partition_key, run_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_durable_purges_due ON durable_purges (partition_key, retry_at, run_id);
CREATE INDEX idx_durable_purges_stuck ON durable_purges (partition_key, run_id) WHERE failures > 0;

-- Events up to this number were deleted; they belonged to earlier iterations.
ALTER TABLE durable_workflow_instances ADD COLUMN purged_through INTEGER NOT NULL DEFAULT 0;

CREATE INDEX idx_durable_workflow_instances_past
    ON durable_workflow_instances (partition_key, id)
    WHERE history_start > purged_through;

-- What goes by its age.
CREATE INDEX idx_durable_signals_processed
    ON durable_signals (partition_key, processed_at)
    WHERE processed_at IS NOT NULL;
CREATE INDEX idx_durable_updates_completed
    ON durable_updates (partition_key, completed_at)
    WHERE completed_at IS NOT NULL;
CREATE INDEX idx_durable_step_logs_created ON durable_step_logs (partition_key, created_at);
CREATE INDEX idx_durable_outbox_over
    ON durable_outbox (partition_key, available_at)
    WHERE state IN ('published', 'failed');
CREATE INDEX idx_durable_dlq_decided
    ON durable_dead_letter_queue (partition_key, dead_at)
    WHERE state <> 'dead';
CREATE INDEX idx_durable_dedup_created ON durable_dedup (created_at);
CREATE INDEX idx_durable_workers_stopped ON durable_workers (last_heartbeat_at) WHERE status = 'stopped';
