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
    /// Connections of all kinds, of everybody.
    CONNECTIONS [] = "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'";
}
