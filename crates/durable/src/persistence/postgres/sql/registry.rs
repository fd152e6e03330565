//! Single rows by a key of their own: workers, breakers, results recorded once.

use crate::persistence::postgres::statement::{Statement, statements};

/// A whole worker, in the order in which `rows::registry::worker` reads it.
macro_rules! worker_columns {
    () => {
        "id, worker_group, activity_types, max_concurrency, current_load, status, accepting_tasks, \
         backpressure_reason, started_at, last_heartbeat_at, hostname, version, metadata, \
         tasks_completed, tasks_failed, avg_task_duration_ms"
    };
}

/// A whole breaker, in the order in which `rows::registry::breaker` reads it.
macro_rules! breaker_columns {
    () => {
        "key, state, failure_count, success_count, opened_at, data, version, updated_at"
    };
}

statements! {
    /// Registers a worker, or replaces what was known of it.
    REGISTER_WORKER [TEXT, TEXT, TEXT_ARRAY, INT8, INT8, TEXT, BOOL, TEXT, TIMESTAMPTZ, TEXT, TEXT, BYTEA,
                     INT8, INT8, FLOAT8] = concat!("
        INSERT INTO {s}.durable_workers (", worker_columns!(), ")
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, clock.now, clock.now, $10, $11, $12, $13, $14, $15
        FROM (SELECT COALESCE($9, clock_timestamp()) AS now) AS clock
        ON CONFLICT (id) DO UPDATE
        SET worker_group = excluded.worker_group, activity_types = excluded.activity_types,
            max_concurrency = excluded.max_concurrency, current_load = excluded.current_load,
            status = excluded.status, accepting_tasks = excluded.accepting_tasks,
            backpressure_reason = excluded.backpressure_reason, started_at = excluded.started_at,
            last_heartbeat_at = excluded.last_heartbeat_at, hostname = excluded.hostname,
            version = excluded.version, metadata = excluded.metadata,
            tasks_completed = excluded.tasks_completed, tasks_failed = excluded.tasks_failed,
            avg_task_duration_ms = excluded.avg_task_duration_ms");

    /// Signs of life, each worker once; answers the statuses of those that are known. Primary key.
    BEAT_WORKERS [TEXT_ARRAY, INT8_ARRAY, BOOL_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, FLOAT8_ARRAY, TIMESTAMPTZ] = "
        UPDATE {s}.durable_workers AS w
        SET current_load = k.current_load, accepting_tasks = k.accepting_tasks,
            backpressure_reason = k.backpressure_reason, tasks_completed = k.tasks_completed,
            tasks_failed = k.tasks_failed, avg_task_duration_ms = k.avg_task_duration_ms,
            last_heartbeat_at = COALESCE($8, clock_timestamp())
        FROM (SELECT unnest($1) AS id, unnest($2) AS current_load, unnest($3) AS accepting_tasks,
                     unnest($4) AS backpressure_reason, unnest($5) AS tasks_completed,
                     unnest($6) AS tasks_failed, unnest($7) AS avg_task_duration_ms
              OFFSET 0) AS k
        WHERE w.id = ANY(ARRAY[k.id])
        RETURNING w.id, w.status";

    /// Workers, by id. The table is small.
    LIST_WORKERS [TEXT, TEXT, TIMESTAMPTZ] = concat!("
        SELECT ", worker_columns!(), "
        FROM {s}.durable_workers
        WHERE ($1 IS NULL OR worker_group = $1) AND ($2 IS NULL OR status = $2)
          AND ($3 IS NULL OR last_heartbeat_at >= $3)
        ORDER BY id");

    /// Changes a worker's status; answers the former one.
    SET_WORKER_STATUS [TEXT, TEXT] = "
        UPDATE {s}.durable_workers AS w SET status = $2
        FROM (SELECT id, status FROM {s}.durable_workers WHERE id = $1 FOR UPDATE) AS former
        WHERE w.id = $1 AND w.id = former.id
        RETURNING former.status";

    /// Forgets a worker.
    DELETE_WORKER [TEXT] = "
        DELETE FROM {s}.durable_workers WHERE id = $1 RETURNING id";

    /// Workers without a sign of life.
    STOP_SILENT_WORKERS [TIMESTAMPTZ] = "
        UPDATE {s}.durable_workers SET status = 'stopped'
        WHERE status <> 'stopped' AND last_heartbeat_at < $1
        RETURNING id";

    /// A breaker.
    READ_BREAKER [TEXT] = concat!("
        SELECT ", breaker_columns!(), "
        FROM {s}.durable_circuit_breaker_state
        WHERE key = $1");

    /// Saves a breaker if nobody else did since it was read.
    SAVE_BREAKER [TEXT, TEXT, INT8, INT8, TIMESTAMPTZ, BYTEA, INT8, TIMESTAMPTZ] = "
        UPDATE {s}.durable_circuit_breaker_state
        SET state = $2, failure_count = $3, success_count = $4, opened_at = $5, data = $6,
            version = $7 + 1, updated_at = COALESCE($8, clock_timestamp())
        WHERE key = $1 AND version = $7
        RETURNING key";

    /// Saves a breaker that nobody has saved before.
    CREATE_BREAKER [TEXT, TEXT, INT8, INT8, TIMESTAMPTZ, BYTEA, INT8, TIMESTAMPTZ] = concat!("
        INSERT INTO {s}.durable_circuit_breaker_state (", breaker_columns!(), ")
        VALUES ($1, $2, $3, $4, $5, $6, $7 + 1, COALESCE($8, clock_timestamp()))
        ON CONFLICT (key) DO NOTHING
        RETURNING key");

    /// Breakers, by key.
    LIST_BREAKERS [] = concat!("
        SELECT ", breaker_columns!(), "
        FROM {s}.durable_circuit_breaker_state
        ORDER BY key");

    /// Forgets limiters that nobody has asked for long. Reads all: there are few besides those.
    FORGET_LIMITERS [TIMESTAMPTZ] = "
        DELETE FROM {s}.durable_circuit_breaker_state
        WHERE substr(key, 1, 6) = 'limit:' AND updated_at < $1";

    /// Forgets a breaker.
    DELETE_BREAKER [TEXT] = "
        DELETE FROM {s}.durable_circuit_breaker_state WHERE key = $1 RETURNING key";

    /// The result recorded under a key.
    READ_ONCE [TEXT] = "
        SELECT result FROM {s}.durable_dedup WHERE key = $1";

    /// Records a result unless there is one.
    PUT_ONCE [TEXT, BYTEA, TIMESTAMPTZ] = "
        INSERT INTO {s}.durable_dedup (key, result, created_at)
        VALUES ($1, $2, COALESCE($3, clock_timestamp()))
        ON CONFLICT (key) DO NOTHING";
}
