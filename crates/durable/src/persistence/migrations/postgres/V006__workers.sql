-- The worker registry, and schedules.

CREATE TABLE {s}.durable_workers (
    id TEXT COLLATE "C" PRIMARY KEY,
    worker_group TEXT COLLATE "C" NOT NULL,
    activity_types TEXT[] NOT NULL,
    max_concurrency BIGINT NOT NULL,
    current_load BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'draining', 'stopped', 'stale')),
    accepting_tasks BOOLEAN NOT NULL,
    backpressure_reason TEXT,
    started_at TIMESTAMPTZ NOT NULL,
    last_heartbeat_at TIMESTAMPTZ NOT NULL,
    hostname TEXT,
    version TEXT COLLATE "C",
    metadata BYTEA,
    tasks_completed BIGINT NOT NULL,
    tasks_failed BIGINT NOT NULL,
    avg_task_duration_ms DOUBLE PRECISION NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE {s}.durable_schedules (
    id TEXT COLLATE "C" PRIMARY KEY,
    workflow_type TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    input BYTEA,
    cron TEXT NOT NULL,
    time_zone TEXT NOT NULL,
    overlap TEXT NOT NULL,
    catchup_window_ms BIGINT NOT NULL,
    paused BOOLEAN NOT NULL,
    next_fire_at TIMESTAMPTZ,
    last_fire_at TIMESTAMPTZ,
    last_run UUID,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);

CREATE INDEX durable_schedules_due
    ON {s}.durable_schedules (next_fire_at, id)
    WHERE NOT paused AND next_fire_at IS NOT NULL;
