-- Queued activities. Short-lived: a finished task leaves in the commit that finishes it.

CREATE TABLE {s}.durable_task_queue (
    partition_key INT NOT NULL,
    id UUID NOT NULL,
    workflow_id UUID NOT NULL,
    activity_id TEXT COLLATE "C" NOT NULL,
    activity_type TEXT COLLATE "C" NOT NULL,
    input BYTEA,
    -- All options as JSON; those that SQL reads are columns beside it.
    options BYTEA NOT NULL,

    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'in_line', 'delayed', 'parked', 'claimed', 'dead')),
    priority INT NOT NULL,
    line BIGINT NOT NULL,
    sequential BOOLEAN NOT NULL,
    epoch INT NOT NULL,
    scheduled_at TIMESTAMPTZ NOT NULL,
    visible_at TIMESTAMPTZ NOT NULL,

    attempt INT NOT NULL,
    max_attempts BIGINT NOT NULL,
    deliveries INT NOT NULL,
    claimed_by TEXT,
    claimed_at TIMESTAMPTZ,
    token UUID,
    lease_expires_at TIMESTAMPTZ,
    heartbeat_at TIMESTAMPTZ,
    heartbeat_details BYTEA,

    schedule_to_start_timeout_ms BIGINT NOT NULL,
    start_to_close_timeout_ms BIGINT NOT NULL,
    heartbeat_timeout_ms BIGINT,
    close_deadline TIMESTAMPTZ,
    -- The next of the activity's clocks, and the earlier of that and the end of the lease.
    timeout_at TIMESTAMPTZ,
    due_at TIMESTAMPTZ,

    -- Failed attempts so far, as JSON; NULL is none.
    attempts BYTEA,
    requeue_count INT NOT NULL,

    trace_id TEXT,
    span_id TEXT,
    trace_flags SMALLINT,

    PRIMARY KEY (partition_key, workflow_id, id)
) WITH (
    -- Rows come and go by the thousand: clean up early, and without sleeping.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- claim_tasks: only what may be claimed now is in it.
CREATE INDEX durable_task_queue_pending
    ON {s}.durable_task_queue (partition_key, activity_type, priority DESC, visible_at, id, workflow_id)
    WHERE status = 'pending';

-- fire_due and reap_leases.
CREATE INDEX durable_task_queue_due
    ON {s}.durable_task_queue (partition_key, due_at)
    WHERE due_at IS NOT NULL;

CREATE TABLE {s}.durable_timers (
    partition_key INT NOT NULL,
    workflow_id UUID NOT NULL,
    timer_id TEXT COLLATE "C" NOT NULL,
    fire_at TIMESTAMPTZ NOT NULL,
    epoch INT NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, timer_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX durable_timers_due
    ON {s}.durable_timers (partition_key, fire_at, workflow_id, timer_id);
