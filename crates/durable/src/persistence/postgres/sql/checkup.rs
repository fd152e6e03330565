//! What a look at the database asks for.

use crate::persistence::postgres::statement::{Statement, statements};

/// The numbers of all shards, `shard.n`. The checkup opens no store, so that it does not know them.
macro_rules! all_shards {
    () => {
        "(SELECT generate_series(0, m.value::int - 1) AS n
          FROM {s}.durable_meta AS m WHERE m.key = 'shards' OFFSET 0) AS shard"
    };
}

statements! {
    /// Settings by name, as text.
    SETTINGS [TEXT_ARRAY] = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY($1)";
    /// Live and dead rows of our tables, the most dead first.
    DEAD_ROWS [TEXT] = "SELECT relname::text, n_live_tup, n_dead_tup FROM pg_catalog.pg_stat_user_tables
         WHERE schemaname = $1 ORDER BY n_dead_tup DESC, relname";
    /// Whoever has a transaction open for long: dead rows since then cannot be cleaned up.
    LONG_TRANSACTIONS [] = "SELECT count(*), coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
         FROM pg_catalog.pg_stat_activity
         WHERE datname = current_database() AND xact_start < clock_timestamp() - interval '5 minutes'";
    /// Runs whose turn is overdue, the longest first; blocked ones wait for another build. From
    /// each shard, type and version to the next by index `ready`, and of each the longest overdue.
    LIST_OVERDUE_TURNS [FLOAT8, INT8] = concat!("
        WITH RECURSIVE ready AS (
            SELECT shard.n, first.workflow_type, first.version
            FROM ", all_shards!(), "
            CROSS JOIN LATERAL (
                SELECT r.workflow_type, r.version
                FROM {s}.durable_workflow_instances AS r
                WHERE r.partition_key = shard.n AND r.ready_at IS NOT NULL
                ORDER BY r.workflow_type, r.version
                LIMIT 1) AS first
            UNION ALL
            SELECT ready.n, following.workflow_type, following.version
            FROM ready
            CROSS JOIN LATERAL (
                SELECT r.workflow_type, r.version
                FROM {s}.durable_workflow_instances AS r
                WHERE r.partition_key = ready.n AND r.ready_at IS NOT NULL
                  AND (r.workflow_type, r.version) > (ready.workflow_type, ready.version)
                ORDER BY r.workflow_type, r.version
                LIMIT 1) AS following)
        SELECT late.id, extract(epoch FROM clock_timestamp() - late.ready_at)::int8
        FROM (SELECT clock_timestamp() - make_interval(secs => $1) AS before OFFSET 0) AS limits
        CROSS JOIN ready
        CROSS JOIN LATERAL (
            SELECT r.id, r.ready_at
            FROM {s}.durable_workflow_instances AS r
            WHERE r.partition_key = ready.n AND r.workflow_type = ready.workflow_type
              AND r.version = ready.version AND r.ready_at < limits.before AND r.blocked_build IS NULL
            ORDER BY r.ready_at
            LIMIT $2) AS late
        ORDER BY late.ready_at
        LIMIT $2");
    /// Tasks whose lease or timeout has run out, the longest ago first. Index `due` of each shard.
    LIST_OVERDUE_TASKS [FLOAT8, INT8] = concat!("
        SELECT late.workflow_id, extract(epoch FROM clock_timestamp() - late.due_at)::int8
        FROM (SELECT clock_timestamp() - make_interval(secs => $1) AS before OFFSET 0) AS limits
        CROSS JOIN ", all_shards!(), "
        CROSS JOIN LATERAL (
            SELECT t.workflow_id, t.due_at
            FROM {s}.durable_task_queue AS t
            WHERE t.partition_key = shard.n AND t.due_at < limits.before
            ORDER BY t.due_at
            LIMIT $2) AS late
        ORDER BY late.due_at
        LIMIT $2");
    /// Tasks that could have been claimed, the longest first. From each shard, type and priority to
    /// the next by index `pending`, and of each those that wait the longest.
    LIST_UNCLAIMED_TASKS [FLOAT8, INT8] = concat!("
        WITH RECURSIVE queued AS (
            SELECT shard.n, first.activity_type, first.priority
            FROM ", all_shards!(), "
            CROSS JOIN LATERAL (
                SELECT t.activity_type, t.priority
                FROM {s}.durable_task_queue AS t
                WHERE t.partition_key = shard.n AND t.status = 'pending'
                ORDER BY t.activity_type, t.priority DESC
                LIMIT 1) AS first
            UNION ALL
            SELECT queued.n, following.activity_type, following.priority
            FROM queued
            CROSS JOIN LATERAL (
                (SELECT 1 AS place, t.activity_type, t.priority
                 FROM {s}.durable_task_queue AS t
                 WHERE t.partition_key = queued.n AND t.status = 'pending'
                   AND t.activity_type = queued.activity_type AND t.priority < queued.priority
                 ORDER BY t.priority DESC
                 LIMIT 1)
                UNION ALL
                (SELECT 2, t.activity_type, t.priority
                 FROM {s}.durable_task_queue AS t
                 WHERE t.partition_key = queued.n AND t.status = 'pending'
                   AND t.activity_type > queued.activity_type
                 ORDER BY t.activity_type, t.priority DESC
                 LIMIT 1)
                ORDER BY place
                LIMIT 1) AS following)
        SELECT late.workflow_id, extract(epoch FROM clock_timestamp() - late.visible_at)::int8
        FROM (SELECT clock_timestamp() - make_interval(secs => $1) AS before OFFSET 0) AS limits
        CROSS JOIN queued
        CROSS JOIN LATERAL (
            SELECT t.workflow_id, t.visible_at
            FROM {s}.durable_task_queue AS t
            WHERE t.partition_key = queued.n AND t.status = 'pending'
              AND t.activity_type = queued.activity_type AND t.priority = queued.priority
              AND t.visible_at < limits.before
            ORDER BY t.visible_at
            LIMIT $2) AS late
        ORDER BY late.visible_at
        LIMIT $2");
    /// Timers that should have fired, the longest ago first. Index `due` of each shard.
    LIST_OVERDUE_TIMERS [FLOAT8, INT8] = concat!("
        SELECT late.workflow_id, extract(epoch FROM clock_timestamp() - late.fire_at)::int8
        FROM (SELECT clock_timestamp() - make_interval(secs => $1) AS before OFFSET 0) AS limits
        CROSS JOIN ", all_shards!(), "
        CROSS JOIN LATERAL (
            SELECT t.workflow_id, t.fire_at
            FROM {s}.durable_timers AS t
            WHERE t.partition_key = shard.n AND t.fire_at < limits.before
            ORDER BY t.fire_at
            LIMIT $2) AS late
        ORDER BY late.fire_at
        LIMIT $2");
    /// Connections of all kinds, of everybody.
    CONNECTIONS [] = "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'";
}
