//! Migrations: many starters, newer and changed schemas, settings.

use everruns_durable::persistence::migrations::MigrationState;
use everruns_durable::persistence::postgres::{
    MIGRATIONS, Postgres, PostgresOptions, migrate_up, migration_status, print, validate,
};
use everruns_durable::persistence::sql::tx::Database;
use everruns_durable::persistence::{Shards, StoreError};

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
