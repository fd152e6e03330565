//! The migrations, and where a database stands. [`run`] runs what is missing.
//!
//! Statements are sent unnamed here, so that migrating works through a transaction pooler where
//! there is no other way.

mod run;

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

pub(super) use self::run::Runner;
use super::options::{PostgresOptions, Route, Target, place};
use super::schema::Schema;
use super::sqlstate::{open_error, store_error};
use crate::persistence::migrations::{self, AppliedMigration, Migration, MigrationStatus};
use crate::persistence::{Shards, StoreError, StoreResult};

/// Every migration, in order. Once released, one is never edited.
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "workflow_instances",
        sql: include_str!("../migrations/postgres/V001__workflow_instances.sql"),
    },
    Migration {
        version: 2,
        name: "workflow_events",
        sql: include_str!("../migrations/postgres/V002__workflow_events.sql"),
    },
    Migration {
        version: 3,
        name: "task_queue",
        sql: include_str!("../migrations/postgres/V003__task_queue.sql"),
    },
    Migration {
        version: 4,
        name: "dead_letter_queue",
        sql: include_str!("../migrations/postgres/V004__dead_letter_queue.sql"),
    },
    Migration {
        version: 5,
        name: "circuit_breaker_state",
        sql: include_str!("../migrations/postgres/V005__circuit_breaker_state.sql"),
    },
    Migration {
        version: 6,
        name: "workers",
        sql: include_str!("../migrations/postgres/V006__workers.sql"),
    },
    Migration {
        version: 7,
        name: "signals",
        sql: include_str!("../migrations/postgres/V007__signals.sql"),
    },
    Migration {
        version: 8,
        name: "messages",
        sql: include_str!("../migrations/postgres/V008__messages.sql"),
    },
    Migration {
        version: 9,
        name: "human_tasks",
        sql: include_str!("../migrations/postgres/V009__human_tasks.sql"),
    },
    Migration {
        version: 10,
        name: "views",
        sql: include_str!("../migrations/postgres/V010__views.sql"),
    },
    Migration {
        version: 11,
        name: "functions",
        sql: include_str!("../migrations/postgres/V011__functions.sql"),
    },
    Migration {
        version: 12,
        name: "audit",
        sql: include_str!("../migrations/postgres/V012__audit.sql"),
    },
    Migration {
        version: 13,
        name: "dead_letter_ids",
        sql: include_str!("../migrations/postgres/V013__dead_letter_ids.sql"),
    },
    Migration {
        version: 14,
        name: "waits",
        sql: include_str!("../migrations/postgres/V014__waits.sql"),
    },
    Migration {
        version: 15,
        name: "compression",
        sql: include_str!("../migrations/postgres/V015__compression.sql"),
    },
    Migration {
        version: 16,
        name: "events_view",
        sql: include_str!("../migrations/postgres/V016__events_view.sql"),
    },
    Migration {
        version: 17,
        name: "deletions",
        sql: include_str!("../migrations/postgres/V017__deletions.sql"),
    },
    Migration {
        version: 18,
        name: "bounded_reads",
        sql: include_str!("../migrations/postgres/V018__bounded_reads.sql"),
    },
];

/// The first version whose builds look at [`migrations::MIN_COMPATIBLE_KEY`]: no older build may
/// run beside a newer one.
const OLDEST_COMPATIBLE: i32 = 16;

/// Times that two starters may stumble over each other while they create the schema itself.
const BOOTSTRAP_ATTEMPTS_MAX: u32 = 20;

/// Our own records; made before the first migration, locked by each process that migrates.
const CREATE_RECORDS: &str = "
    CREATE TABLE IF NOT EXISTS {s}.durable_schema_migrations (
        version INT PRIMARY KEY,
        name TEXT NOT NULL,
        checksum TEXT NOT NULL,
        applied_at TIMESTAMPTZ NOT NULL
    )";

/// Runs what is missing and answers how all migrations stand. Any number of processes may do this at once: one works, the others
/// wait for it and find nothing to do. Needs no more than the right to create a schema (or to create tables in it).
///
/// # Errors
/// [`StoreError::Open`] when the database cannot be reached, [`StoreError::Schema`] when it is newer than this build.
pub async fn migrate_up(url: &str, options: &PostgresOptions) -> StoreResult<Vec<MigrationStatus>> {
    migrate_through(url, options, MIGRATIONS).await
}

/// Runs what is missing of another list than this build's: for tests of the runner, which bring
/// migrations that a later build might have.
///
/// # Errors
/// As [`migrate_up`].
pub async fn migrate_through(
    url: &str,
    options: &PostgresOptions,
    migrations: &[Migration],
) -> StoreResult<Vec<MigrationStatus>> {
    let target = Target::parse(url, options.clone())?;
    let options = &target.options;
    let schema = Schema::new(&options.schema)?;
    let route = match &options.direct_url {
        Some(url) => Target::parse(url, options.clone())?.route,
        None => target.route.clone(),
    };
    let client = direct(&route, options.pools.connect_timeout).await?;
    let runner = Runner {
        client: &client,
        schema: &schema,
        shards: options.shards,
        route: &route,
        connect_timeout: options.pools.connect_timeout,
        pooled: options.pooled && options.direct_url.is_none(),
        migrations,
    };
    runner.up().await?;
    read_status(&client, &schema, migrations).await
}

/// How all migrations stand; changes nothing.
///
/// # Errors
/// [`StoreError::Open`] when the database cannot be reached.
pub async fn migration_status(
    url: &str,
    options: &PostgresOptions,
) -> StoreResult<Vec<MigrationStatus>> {
    let (client, options) = connect(url, options).await?;
    read_status(&client, &Schema::new(&options.schema)?, MIGRATIONS).await
}

/// Refuses a database that this build must not work with: newer, changed, or not migrated yet.
///
/// # Errors
/// [`StoreError::Schema`], which says what to do; [`StoreError::Open`] when the database cannot be reached.
pub async fn validate(url: &str, options: &PostgresOptions) -> StoreResult<()> {
    migrations::require_complete(&migration_status(url, options).await?)
}

/// Every statement of every migration, for a schema, as an empty database gets them.
///
/// # Errors
/// [`StoreError::Open`] when the schema's name is not allowed.
pub fn print(schema: &str) -> StoreResult<String> {
    let schema = Schema::new(schema)?;
    let mut text = schema.render("CREATE SCHEMA IF NOT EXISTS {s};\n");
    text.push_str(&schema.render(CREATE_RECORDS));
    text.push_str(";\n");
    for migration in MIGRATIONS {
        let head = format!("\n-- V{:03} {}\n", migration.version, migration.name);
        text.push_str(&head);
        text.push_str(&schema.render(&migration.plain_sql()));
    }
    Ok(text)
}

/// A connection of the runner's own, past a pooler where a way is given.
pub(super) async fn connect(
    url: &str,
    options: &PostgresOptions,
) -> StoreResult<(Client, PostgresOptions)> {
    let target = Target::parse(url, options.clone())?;
    let route = match &target.options.direct_url {
        Some(direct) => Target::parse(direct, target.options.clone())?.route,
        None => target.route,
    };
    let client = direct(&route, target.options.pools.connect_timeout).await?;
    Ok((client, target.options))
}

/// Connects within a bounded time; the errors say where and what, and never the password.
pub(super) async fn direct(route: &Route, timeout: Duration) -> StoreResult<Client> {
    let place = place(&route.config);
    let connecting = tokio::time::timeout(timeout, route.config.connect(route.tls.clone()));
    let (client, connection) = connecting
        .await
        .map_err(|_| StoreError::Open {
            message: format!("{place} gave no answer within {timeout:?}"),
            source: Some(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        })?
        .map_err(|error| open_error(error, &place))?;
    // Ends by itself when the client is dropped.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a direct connection ended");
        }
    });
    Ok(client)
}

/// Makes the schema and the table of records. `IF NOT EXISTS` does not help two that try at the same moment: the second gets a
/// unique violation on PostgreSQL's own catalogue, and looks again.
async fn bootstrap(client: &Client, schema: &Schema) -> StoreResult<()> {
    for attempt in 1.. {
        match try_bootstrap(client, schema).await {
            Err(error) if attempt < BOOTSTRAP_ATTEMPTS_MAX && is_race(&error) => {}
            result => return result.map_err(store_error),
        }
    }
    Ok(())
}

async fn try_bootstrap(client: &Client, schema: &Schema) -> Result<(), tokio_postgres::Error> {
    // Asked first, since CREATE SCHEMA wants a right that a user of an existing schema need not have.
    let exists = client
        .query_typed(
            "SELECT 1 FROM pg_namespace WHERE nspname = $1",
            &[(&schema.name(), Type::TEXT)],
        )
        .await?;
    if exists.is_empty() {
        client
            .batch_execute(&schema.render("CREATE SCHEMA IF NOT EXISTS {s}"))
            .await?;
    }
    client.batch_execute(&schema.render(CREATE_RECORDS)).await
}

fn is_race(error: &tokio_postgres::Error) -> bool {
    matches!(
        error.code(),
        Some(
            &SqlState::UNIQUE_VIOLATION
                | &SqlState::DUPLICATE_TABLE
                | &SqlState::DUPLICATE_SCHEMA
                | &SqlState::DUPLICATE_OBJECT
                | &SqlState::T_R_DEADLOCK_DETECTED
        )
    )
}

/// How all migrations stand; a database without our records has none.
pub(super) async fn read_status(
    client: &Client,
    schema: &Schema,
    embedded: &[Migration],
) -> StoreResult<Vec<MigrationStatus>> {
    let exists = client
        .query_typed(
            "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'durable_schema_migrations'",
            &[(&schema.name(), Type::TEXT)],
        )
        .await
        .map_err(store_error)?;
    if exists.is_empty() {
        return Ok(migrations::status(embedded, &[], None));
    }
    let select = schema.render(
        "SELECT version, name, checksum FROM {s}.durable_schema_migrations ORDER BY version",
    );
    let rows = client
        .query_typed(&select, &[])
        .await
        .map_err(store_error)?;
    let applied: Vec<AppliedMigration> = rows
        .iter()
        .map(|row| AppliedMigration {
            version: row.get(0),
            name: row.get(1),
            checksum: row.get(2),
        })
        .collect();
    let minimum = if applied.is_empty() {
        None
    } else {
        stored_minimum(client, schema).await?
    };
    Ok(migrations::status(embedded, &applied, minimum))
}

/// The oldest schema version whose builds may open the database, if it names one. The first
/// migration creates the table.
async fn stored_minimum(client: &Client, schema: &Schema) -> StoreResult<Option<i32>> {
    let select = schema.render("SELECT value FROM {s}.durable_meta WHERE key = $1");
    let rows = client
        .query_typed(&select, &[(&migrations::MIN_COMPATIBLE_KEY, Type::TEXT)])
        .await
        .map_err(store_error)?;
    Ok(rows
        .first()
        .and_then(|row| row.get::<_, String>(0).parse().ok()))
}

/// How many shards the database was made with.
pub(super) async fn read_shards(client: &Client, schema: &Schema) -> StoreResult<Shards> {
    let select = schema.render("SELECT value FROM {s}.durable_meta WHERE key = 'shards'");
    let rows = client
        .query_typed(&select, &[])
        .await
        .map_err(store_error)?;
    let count = rows
        .first()
        .and_then(|row| row.get::<_, String>(0).parse().ok());
    count.map(Shards::new).ok_or_else(|| {
        StoreError::Schema("the database does not say how many shards it has".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_gaps_and_printed_in_full() {
        for (i, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(usize::try_from(migration.version), Ok(i + 1));
        }
        let text = print("app").unwrap();
        assert!(text.contains(r#"CREATE TABLE "app".durable_task_queue"#));
        assert!(!text.contains("{s}"));
    }
}
