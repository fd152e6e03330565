//! Migrations: many starters, newer and changed schemas, settings.

use std::time::Duration;

use everruns_durable::persistence::migrations::{Migration, MigrationState};
use everruns_durable::persistence::postgres::{
    MIGRATIONS, Postgres, PostgresOptions, migrate_through, migrate_up, migration_status, print,
    validate,
};
use everruns_durable::persistence::sql::tx::Database;
use everruns_durable::persistence::{Shards, StoreError};
use tokio_postgres::Client;

use crate::server::{connect, fresh_database};

#[tokio::test]
async fn eight_starters_at_once_all_succeed_and_migrate_once() {
    let url = fresh_database().await;
    let starters = (0..8).map(|_| Postgres::open(&url, PostgresOptions::default()));
    for opened in futures_util::future::join_all(starters).await {
        opened.unwrap();
    }
    let row = connect(&url)
        .await
        .query_one(
            "SELECT count(*) FROM durable.durable_schema_migrations",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(
        usize::try_from(row.get::<_, i64>(0)).unwrap(),
        MIGRATIONS.len()
    );
}

#[tokio::test]
async fn status_goes_from_pending_to_applied_and_validate_wants_all() {
    let url = fresh_database().await;
    let options = PostgresOptions::default();
    let before = migration_status(&url, &options).await.unwrap();
    assert!(before.iter().all(|m| m.state == MigrationState::Pending));
    assert!(matches!(
        validate(&url, &options).await,
        Err(StoreError::Schema(_))
    ));
    let refused = Postgres::open(
        &url,
        PostgresOptions {
            migrate: false,
            ..options.clone()
        },
    )
    .await;
    assert!(matches!(refused, Err(StoreError::Schema(_))), "{refused:?}");
    let after = migrate_up(&url, &options).await.unwrap();
    assert!(after.iter().all(|m| m.state == MigrationState::Applied));
    validate(&url, &options).await.unwrap();
    Postgres::open(
        &url,
        PostgresOptions {
            migrate: false,
            ..options
        },
    )
    .await
    .unwrap();
}

/// What a newer build leaves behind when it has migrated a database.
const NEWER: &str =
    "INSERT INTO durable.durable_schema_migrations VALUES (1000, 'future', 'x', now())";

#[tokio::test]
async fn build_opens_a_newer_schema_down_to_the_minimum_that_the_database_names() {
    let url = fresh_database().await;
    let options = PostgresOptions::default();
    migrate_up(&url, &options).await.unwrap();
    let client = connect(&url).await;
    client.batch_execute(NEWER).await.unwrap();
    let unasked = PostgresOptions {
        migrate: false,
        ..options.clone()
    };
    for options in [&options, &unasked] {
        Postgres::open(&url, options.clone()).await.unwrap();
    }
    let status = migrate_up(&url, &options).await.unwrap();
    assert_eq!(status.last().unwrap().state, MigrationState::Newer);
    validate(&url, &options).await.unwrap();

    let raised =
        "UPDATE durable.durable_meta SET value = '1000' WHERE key = 'min_compatible_schema'";
    assert_eq!(client.execute(raised, &[]).await.unwrap(), 1);
    for options in [&options, &unasked] {
        let error = Postgres::open(&url, options.clone()).await.unwrap_err();
        let known = format!("this build has {}", MIGRATIONS.len());
        assert!(
            matches!(&error, StoreError::Schema(why)
                if why.contains("schema version 1000") && why.contains(&known)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn newer_schema_without_a_minimum_and_a_changed_schema_are_refused() {
    let url = fresh_database().await;
    let options = PostgresOptions::default();
    migrate_up(&url, &options).await.unwrap();
    let client = connect(&url).await;
    client.batch_execute(NEWER).await.unwrap();
    let unnamed = "DELETE FROM durable.durable_meta WHERE key = 'min_compatible_schema'";
    client.batch_execute(unnamed).await.unwrap();
    let error = Postgres::open(&url, options.clone()).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Schema(why) if why.contains("newer release")),
        "{error}"
    );
    let changed = "DELETE FROM durable.durable_schema_migrations WHERE version = 1000;
                   UPDATE durable.durable_schema_migrations SET checksum = 'x' WHERE version = 1";
    client.batch_execute(changed).await.unwrap();
    let error = Postgres::open(&url, options).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Schema(why) if why.contains("other statements")),
        "{error}"
    );
}

#[tokio::test]
async fn the_schemas_name_is_a_setting_and_two_live_side_by_side() {
    let url = fresh_database().await;
    let app = format!(
        "{url}{}schema=My_app",
        if url.contains('?') { '&' } else { '?' }
    );
    Postgres::open(&app, PostgresOptions::default())
        .await
        .unwrap();
    Postgres::open(&url, PostgresOptions::default())
        .await
        .unwrap();
    let rows = connect(&url)
        .await
        .query("SELECT schemaname::TEXT FROM pg_tables WHERE tablename = 'durable_task_queue' ORDER BY 1", &[])
        .await
        .unwrap();
    let schemas: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(schemas, ["My_app", "durable"]);
}

#[tokio::test]
async fn the_number_of_shards_is_fixed_when_the_database_is_made() {
    let url = fresh_database().await;
    let with = |shards| PostgresOptions {
        shards: Shards::new(shards),
        ..PostgresOptions::default()
    };
    assert_eq!(
        Postgres::open(&url, with(64)).await.unwrap().shards(),
        Shards::new(64)
    );
    assert_eq!(
        Postgres::open(&url, with(1)).await.unwrap().shards(),
        Shards::new(64)
    );
}

#[tokio::test]
async fn what_is_printed_can_be_run_by_hand() {
    let url = fresh_database().await;
    connect(&url)
        .await
        .batch_execute(&print("by_hand").unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn no_superuser_is_needed() {
    let url = fresh_database().await;
    let admin = connect(&url).await;
    let role = format!("durable_plain_{}", std::process::id());
    let database: String = admin
        .query_one("SELECT current_database()::TEXT", &[])
        .await
        .unwrap()
        .get(0);
    admin
        .batch_execute(&format!(
            "DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN PASSWORD 'pw';
             GRANT CREATE ON DATABASE {database} TO {role}"
        ))
        .await
        .unwrap();
    let config: tokio_postgres::Config = url.parse().unwrap();
    let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
        panic!("the test server listens on TCP");
    };
    let plain = format!(
        "postgres://{role}:pw@{host}:{}/{database}",
        config.get_ports()[0]
    );
    let opened = Postgres::open(&plain, PostgresOptions::default()).await;
    admin
        .batch_execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"))
        .await
        .unwrap();
    opened.unwrap();
}

#[tokio::test]
async fn payloads_are_compressed_with_lz4() {
    let url = fresh_database().await;
    migrate_up(&url, &PostgresOptions::default()).await.unwrap();
    // Debian's PostgreSQL has it.
    let columns = "SELECT attrelid::regclass::text || '.' || attname
                   FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
                   WHERE relnamespace = 'durable'::regnamespace AND relkind = 'r'
                     AND atttypid = 'bytea'::regtype AND NOT attisdropped AND attcompression <> 'l'";
    let rows = connect(&url).await.query(columns, &[]).await.unwrap();
    let other: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(other.is_empty(), "{other:?}");
}

/// So long may anything take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// This build's migrations and one more, as the next build might have it.
fn with_next(name: &'static str, sql: &'static str) -> Vec<Migration> {
    let next = Migration {
        version: i32::try_from(MIGRATIONS.len()).unwrap() + 1,
        name,
        sql,
    };
    MIGRATIONS.iter().copied().chain([next]).collect()
}

/// Looks until a query answers true.
async fn until(client: &Client, query: &str) {
    let looking = async {
        while !client
            .query_one(query, &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, looking).await;
    seen.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {query}"));
}

const WRITE: &str = "UPDATE durable.durable_workflow_instances SET memo = memo WHERE id IS NULL";

#[tokio::test]
async fn migration_that_waits_for_a_long_reader_lets_writers_pass_and_completes_after_it() {
    let url = fresh_database().await;
    let options = PostgresOptions::default();
    migrate_up(&url, &options).await.unwrap();
    let mut reader = connect(&url).await;
    let writer = connect(&url).await;
    let long = reader.transaction().await.unwrap();
    let all = "SELECT count(*) FROM durable.durable_workflow_instances";
    long.query(all, &[]).await.unwrap();

    let migrations = with_next(
        "later",
        "ALTER TABLE {s}.durable_workflow_instances ADD COLUMN later INT",
    );
    let migrating = tokio::spawn({
        let (url, options) = (url.clone(), options.clone());
        async move { migrate_through(&url, &options, &migrations).await }
    });
    let waits =
        "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
                 AND relation = 'durable.durable_workflow_instances'::regclass)";
    // Each of these writes queues behind the migration that waits, until its attempt ends.
    for _ in 0..2 {
        until(&writer, waits).await;
        let write = tokio::time::timeout(PATIENCE, writer.batch_execute(WRITE));
        write.await.expect("a writer is not stopped").unwrap();
    }
    assert!(!migrating.is_finished(), "the reader still holds the table");
    long.commit().await.unwrap();
    let status = migrating.await.unwrap().unwrap();
    assert!(status.iter().all(|m| m.state == MigrationState::Applied));
    // The build without that migration restarts.
    Postgres::open(&url, options).await.unwrap();
}

const INDEX: &str = "-- An index that the next build might bring.
-- durable: concurrently

CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_workflow_instances_later
    ON {s}.durable_workflow_instances (partition_key, created_at);
";

#[tokio::test]
async fn index_is_built_beside_a_long_reader_and_writers_by_one_of_several_starters() {
    let url = fresh_database().await;
    let options = PostgresOptions::default();
    migrate_up(&url, &options).await.unwrap();
    let writer = connect(&url).await;
    // What an interrupted build of the index leaves behind.
    let remains =
        "CREATE INDEX durable_workflow_instances_later ON durable.durable_workflow_instances (id);
                   UPDATE pg_index SET indisvalid = FALSE
                   WHERE indexrelid = 'durable.durable_workflow_instances_later'::regclass";
    writer.batch_execute(remains).await.unwrap();
    let mut reader = connect(&url).await;
    let snapshot = reader
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let long = snapshot.start().await.unwrap();
    long.query("SELECT count(*) FROM durable.durable_meta", &[])
        .await
        .unwrap();

    let migrations = with_next("later", INDEX);
    let starters: Vec<_> = (0..3)
        .map(|_| {
            let (url, options, migrations) = (url.clone(), options.clone(), migrations.clone());
            tokio::spawn(async move { migrate_through(&url, &options, &migrations).await })
        })
        .collect();
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                 AND query LIKE '%INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'
                 AND pid <> pg_backend_pid())";
    until(&writer, waits).await;
    let write = tokio::time::timeout(PATIENCE, writer.batch_execute(WRITE));
    write.await.expect("a writer is not stopped").unwrap();
    assert!(starters.iter().all(|starter| !starter.is_finished()));
    long.commit().await.unwrap();
    for starter in starters {
        let ended = tokio::time::timeout(PATIENCE, starter).await;
        let status = ended.expect("starters do not block each other");
        let status = status.unwrap().unwrap();
        assert!(status.iter().all(|m| m.state == MigrationState::Applied));
    }
    let built = "SELECT indisvalid AND indnatts = 2 FROM pg_index
                 WHERE indexrelid = 'durable.durable_workflow_instances_later'::regclass";
    let row = writer.query_one(built, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0), "the remains were replaced");
}

#[tokio::test]
async fn new_database_gets_every_migration_in_one_transaction_and_indexes_with_it() {
    let url = fresh_database().await;
    let migrations = with_next("later", INDEX);
    let options = PostgresOptions::default();
    let status = migrate_through(&url, &options, &migrations).await.unwrap();
    assert!(status.iter().all(|m| m.state == MigrationState::Applied));
    let one = "SELECT count(DISTINCT xmin::text) = 1 FROM durable.durable_schema_migrations";
    let row = connect(&url).await.query_one(one, &[]).await.unwrap();
    assert!(row.get::<_, bool>(0));
}

#[tokio::test]
async fn minimum_is_raised_in_the_transaction_of_the_migration_that_breaks_older_builds() {
    let url = fresh_database().await;
    let options = PostgresOptions::default();
    migrate_up(&url, &options).await.unwrap();
    let breaking = with_next(
        "breaking",
        "-- durable: min-compatible 1000\nDROP VIEW {s}.durable_workflow_events_view",
    );
    migrate_through(&url, &options, &breaking).await.unwrap();
    let error = Postgres::open(&url, options).await.unwrap_err();
    assert!(error.to_string().contains("schema version 1000"), "{error}");
}
