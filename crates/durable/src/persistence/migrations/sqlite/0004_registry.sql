-- What belongs to no single turn: schedules, workers, breakers, results recorded once; and what leaves or is counted.

CREATE TABLE durable_schedules (
    id                TEXT    NOT NULL PRIMARY KEY,
    workflow_type     TEXT    NOT NULL,
    version           TEXT    NOT NULL,
    input             BLOB,
    cron              TEXT    NOT NULL,
    time_zone         TEXT    NOT NULL,
    overlap           TEXT    NOT NULL,
    catchup_window_ms INTEGER NOT NULL,
    paused            INTEGER NOT NULL,
    next_fire_at      INTEGER,
    last_fire_at      INTEGER,
    last_run          BLOB,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_durable_schedules_due ON durable_schedules (next_fire_at, id) WHERE paused = 0;

CREATE TABLE durable_workers (
    id                   TEXT    NOT NULL PRIMARY KEY,
    worker_group         TEXT    NOT NULL,
    activity_types       TEXT    NOT NULL, -- JSON array
    max_concurrency      INTEGER NOT NULL,
    current_load         INTEGER NOT NULL,
    status               TEXT    NOT NULL, -- active, draining, stopped
    accepting_tasks      INTEGER NOT NULL,
    backpressure_reason  TEXT,
    started_at           INTEGER NOT NULL,
    last_heartbeat_at    INTEGER NOT NULL,
    hostname             TEXT,
    version              TEXT,
    metadata             BLOB,
    tasks_completed      INTEGER NOT NULL,
    tasks_failed         INTEGER NOT NULL,
    avg_task_duration_ms REAL    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE durable_circuit_breaker_state (
    key           TEXT    NOT NULL PRIMARY KEY,
    state         TEXT    NOT NULL, -- closed, open, half_open
    failure_count INTEGER NOT NULL,
    success_count INTEGER NOT NULL,
    opened_at     INTEGER,
    data          BLOB,
    version       INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE durable_dedup (
    key        TEXT    NOT NULL PRIMARY KEY,
    result     BLOB,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE durable_outbox (
    partition_key   INTEGER NOT NULL,
    workflow_id     BLOB    NOT NULL,
    id              BLOB    NOT NULL,
    event_type      TEXT    NOT NULL,
    payload         BLOB,
    idempotency_key TEXT,
    state           TEXT    NOT NULL, -- pending, in_flight, published, failed
    attempts        INTEGER NOT NULL,
    available_at    INTEGER NOT NULL,
    token           BLOB,
    last_error      TEXT,
    created_at      INTEGER NOT NULL,
    published_at    INTEGER,
    PRIMARY KEY (partition_key, workflow_id, id)
) STRICT;

CREATE INDEX idx_durable_outbox_due
    ON durable_outbox (partition_key, available_at, id, workflow_id)
    WHERE state IN ('pending', 'in_flight');

CREATE TABLE durable_step_logs (
    partition_key INTEGER NOT NULL,
    workflow_id   BLOB    NOT NULL,
    id            BLOB    NOT NULL,
    activity_id   TEXT    NOT NULL,
    attempt       INTEGER NOT NULL,
    level         TEXT    NOT NULL, -- debug, info, warn, error
    message       TEXT    NOT NULL,
    meta          BLOB,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (partition_key, workflow_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE durable_rollups (
    hour         INTEGER NOT NULL,
    kind         TEXT    NOT NULL, -- activity, workflow
    name         TEXT    NOT NULL,
    outcome      TEXT    NOT NULL, -- completed, failed, cancelled
    duration_exp INTEGER NOT NULL,
    count        INTEGER NOT NULL,
    total_ms     INTEGER NOT NULL,
    PRIMARY KEY (hour, kind, name, outcome, duration_exp)
) STRICT, WITHOUT ROWID;
