-- What is to be done: queued activities, timers, and activities that failed for good.

CREATE TABLE durable_task_queue (
    partition_key     INTEGER NOT NULL,
    workflow_id       BLOB    NOT NULL,
    id                BLOB    NOT NULL,
    activity_id       TEXT    NOT NULL,
    activity_type     TEXT    NOT NULL,
    input             BLOB,
    options           TEXT    NOT NULL,
    priority          INTEGER NOT NULL, -- of the options
    sequential        INTEGER NOT NULL, -- of the options
    status            TEXT    NOT NULL, -- pending, in_line, delayed, parked, claimed, dead
    line              INTEGER NOT NULL,
    epoch             INTEGER NOT NULL,
    scheduled_at      INTEGER NOT NULL,
    visible_at        INTEGER NOT NULL,
    attempt           INTEGER NOT NULL,
    deliveries        INTEGER NOT NULL,
    claimed_by        TEXT,
    claimed_at        INTEGER,
    token             BLOB,
    lease_expires_at  INTEGER,
    heartbeat_at      INTEGER,
    heartbeat_details BLOB,
    close_deadline    INTEGER,
    timeout_at        INTEGER,          -- the next clock that runs out, computed from the rest
    attempts          TEXT    NOT NULL, -- failed ones, JSON
    requeue_count     INTEGER NOT NULL,
    trace_id          TEXT,
    span_id           TEXT,
    trace_flags       INTEGER,
    PRIMARY KEY (partition_key, workflow_id, id)
) STRICT;

-- claim_tasks: only what may be claimed now, in the order in which it is.
CREATE INDEX idx_durable_task_queue_pending
    ON durable_task_queue (partition_key, activity_type, priority DESC, visible_at, id, workflow_id)
    WHERE status = 'pending';

-- reap_leases.
CREATE INDEX idx_durable_task_queue_claimed
    ON durable_task_queue (partition_key, lease_expires_at, id, workflow_id)
    WHERE status = 'claimed';

-- fire_due.
CREATE INDEX idx_durable_task_queue_timeout
    ON durable_task_queue (partition_key, timeout_at, id, workflow_id)
    WHERE timeout_at IS NOT NULL;

-- The head of a run's line.
CREATE INDEX idx_durable_task_queue_line
    ON durable_task_queue (partition_key, workflow_id, line)
    WHERE sequential = 1;

CREATE TABLE durable_timers (
    partition_key INTEGER NOT NULL,
    workflow_id   BLOB    NOT NULL,
    timer_id      TEXT    NOT NULL,
    fire_at       INTEGER NOT NULL,
    epoch         INTEGER NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, timer_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_durable_timers_due ON durable_timers (partition_key, fire_at, workflow_id, timer_id);

-- A letter's id is its task's.
CREATE TABLE durable_dead_letter_queue (
    partition_key INTEGER NOT NULL,
    workflow_id   BLOB    NOT NULL,
    id            BLOB    NOT NULL,
    activity_id   TEXT    NOT NULL,
    activity_type TEXT    NOT NULL,
    input         BLOB,
    options       TEXT    NOT NULL,
    epoch         INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    last_error    TEXT    NOT NULL,
    error_history TEXT    NOT NULL,
    parked        INTEGER NOT NULL,
    state         TEXT    NOT NULL, -- dead, requeued, completed, discarded
    dead_at       INTEGER NOT NULL,
    requeued_at   INTEGER,
    requeue_count INTEGER NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, id)
) STRICT;

CREATE INDEX idx_durable_dlq_dead_at ON durable_dead_letter_queue (dead_at DESC, id, workflow_id);
CREATE INDEX idx_durable_dlq_activity_type ON durable_dead_letter_queue (activity_type, dead_at DESC, id, workflow_id);
CREATE INDEX idx_durable_dlq_open ON durable_dead_letter_queue (id) WHERE state = 'dead';
