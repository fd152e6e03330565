//! What a look at the database asks for.

use crate::persistence::postgres::statement::{Statement, statements};

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
    /// Runs whose turn is overdue, the longest first; blocked ones wait for another build. All of the index of ready runs.
    LIST_OVERDUE_TURNS [FLOAT8, INT8] = "SELECT id, extract(epoch FROM clock_timestamp() - ready_at)::int8
         FROM {s}.durable_workflow_instances
         WHERE ready_at < clock_timestamp() - make_interval(secs => $1) AND blocked_build IS NULL ORDER BY ready_at LIMIT $2";
    /// Tasks whose lease or timeout has run out, the longest ago first.
    LIST_OVERDUE_TASKS [FLOAT8, INT8] = "SELECT workflow_id, extract(epoch FROM clock_timestamp() - due_at)::int8
         FROM {s}.durable_task_queue
         WHERE due_at < clock_timestamp() - make_interval(secs => $1) ORDER BY due_at LIMIT $2";
    /// Tasks that could have been claimed, the longest first.
    LIST_UNCLAIMED_TASKS [FLOAT8, INT8] = "SELECT workflow_id, extract(epoch FROM clock_timestamp() - visible_at)::int8
         FROM {s}.durable_task_queue
         WHERE status = 'pending' AND visible_at < clock_timestamp() - make_interval(secs => $1) ORDER BY visible_at LIMIT $2";
    /// Timers that should have fired, the longest ago first.
    LIST_OVERDUE_TIMERS [FLOAT8, INT8] = "SELECT workflow_id, extract(epoch FROM clock_timestamp() - fire_at)::int8
         FROM {s}.durable_timers
         WHERE fire_at < clock_timestamp() - make_interval(secs => $1) ORDER BY fire_at LIMIT $2";
    /// Connections of all kinds, of everybody.
    CONNECTIONS [] = "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'";
}
