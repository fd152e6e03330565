//! Opening: what is refused and how clearly, what the schema says, and what the former process leaves behind.
#![cfg(feature = "sqlite")]

mod sqlite_fixture;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use everruns_durable::persistence::limits::DELIVERIES_MAX;
use everruns_durable::persistence::migrations::MigrationState;
use everruns_durable::persistence::model::{Dump, OutboxState, TaskStatus};
use everruns_durable::persistence::sql::rows::Changes;
use everruns_durable::persistence::sql::tx::Database;
use everruns_durable::persistence::sqlite::{Sqlite, SqliteOptions, migrate};
use everruns_durable::persistence::{Shards, StoreError};
use sqlite_fixture::records::{bare_task, full_outbox, full_run, full_task};
use sqlite_fixture::{at, folder, open, put, reopen};

fn refusal(path: &Path) -> String {
    match Sqlite::open(path, SqliteOptions::default()) {
        Err(error @ StoreError::Open { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn what_cannot_be_opened_is_said_clearly() {
    let folder = folder();
    let missing = refusal(&folder.path().join("missing/test.db"));
    assert!(
        missing.contains("missing") && missing.contains("create it"),
        "{missing}"
    );
    let directory = refusal(folder.path());
    assert!(directory.contains("is a folder"), "{directory}");
    let nameless = refusal(Path::new(""));
    assert!(nameless.contains("does not name a file"), "{nameless}");
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "These are notes, not a database. ".repeat(50)).unwrap();
    let notes = refusal(&text);
    assert!(notes.contains("is not a SQLite database"), "{notes}");
}

#[tokio::test]
async fn what_is_read_only_is_refused() {
    let folder = folder();
    drop(open(&folder));
    let file = folder.path().join("test.db");
    set_mode(&file, 0o444);
    let found = refusal(&file);
    assert!(
        found.contains("file") && found.contains("read-only"),
        "{found}"
    );
    set_mode(&file, 0o644);
    set_mode(folder.path(), 0o555);
    let found = refusal(&file);
    set_mode(folder.path(), 0o755);
    assert!(
        found.contains("folder") && found.contains("read-only"),
        "{found}"
    );
    drop(open(&folder));
}

#[tokio::test]
async fn a_second_open_in_the_same_process_is_refused_under_any_name() {
    let folder = folder();
    let db = open(&folder);
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(folder.path().join("test.db"), &link).unwrap();
    for name in [
        folder.path().join("test.db"),
        folder.path().join("./test.db"),
        link,
    ] {
        let found = refusal(&name);
        assert!(found.contains("is in use by another process"), "{found}");
    }
    let clone = db.clone();
    drop(db);
    assert!(refusal(&folder.path().join("test.db")).contains("in use"));
    drop(clone);
    drop(open(&folder));
}

#[tokio::test]
async fn closing_folds_the_log_into_the_file() {
    let folder = folder();
    let db = open(&folder);
    put(
        &db,
        Changes {
            insert_runs: vec![full_run(1).into()],
            ..Changes::default()
        },
    )
    .await;
    db.get_run(full_run(1).id).await.unwrap();
    assert!(folder.path().join("test.db-wal").exists());
    drop(db);
    assert!(!folder.path().join("test.db-wal").exists());
}

#[tokio::test]
async fn the_number_of_shards_is_fixed_when_the_file_is_created() {
    let folder = folder();
    let with = |count| SqliteOptions {
        shards: Shards::new(count),
        ..SqliteOptions::default()
    };
    assert_eq!(reopen(&folder, with(4)).shards().count(), 4);
    assert_eq!(reopen(&folder, with(2)).shards().count(), 4);
}

#[tokio::test]
async fn migrations_are_pending_then_applied_and_never_run_unasked() {
    let folder = folder();
    let file = folder.path().join("test.db");
    let states = |path: &Path| -> Vec<MigrationState> {
        let status = migrate::status(path).unwrap();
        status.into_iter().map(|found| found.state).collect()
    };
    let all = migrate::MIGRATIONS.len();
    assert_eq!(states(&file), vec![MigrationState::Pending; all]);
    assert!(!file.exists());
    let unasked = SqliteOptions {
        migrate: false,
        ..SqliteOptions::default()
    };
    let error = Sqlite::open(&file, unasked).unwrap_err();
    assert!(error.to_string().contains("lacks migration 1"), "{error}");
    migrate::up(&file).unwrap();
    assert_eq!(states(&file), vec![MigrationState::Applied; all]);
    migrate::validate(&file).unwrap();
    let again = migrate::up(&file).unwrap();
    assert_eq!(again.len(), all);
    drop(Sqlite::open(&file, unasked).unwrap());
    assert!(migrate::print().contains("CREATE TABLE durable_workflow_instances"));
}

#[tokio::test]
async fn build_opens_a_newer_schema_down_to_the_minimum_that_the_file_names() {
    let folder = folder();
    let file = folder.path().join("test.db");
    drop(open(&folder));
    let note = |sql: &str| {
        rusqlite::Connection::open(&file)
            .unwrap()
            .execute(sql, [])
            .unwrap();
    };
    note("INSERT INTO durable_schema_migrations VALUES (99, 'later', 'x', 0)");
    for migrate in [true, false] {
        let options = SqliteOptions {
            migrate,
            ..SqliteOptions::default()
        };
        drop(Sqlite::open(&file, options).unwrap());
    }
    migrate::validate(&file).unwrap();
    note("UPDATE durable_meta SET value = '99' WHERE key = 'min_compatible_schema'");
    let error = Sqlite::open(&file, SqliteOptions::default()).unwrap_err();
    assert!(error.to_string().contains("schema version 99"), "{error}");
    assert!(migrate::validate(&file).is_err());
    note("DELETE FROM durable_meta WHERE key = 'min_compatible_schema'");
    let error = Sqlite::open(&file, SqliteOptions::default()).unwrap_err();
    assert!(error.to_string().contains("newer release"), "{error}");
    note("DELETE FROM durable_schema_migrations WHERE version = 99");
    note("UPDATE durable_schema_migrations SET checksum = 'x' WHERE version = 2");
    let error = Sqlite::open(&file, SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::Schema(_)), "{error}");
}

/// Leases of all kinds, in four shards.
fn leases() -> Changes {
    let mut poison = full_task(4, 4);
    poison.deliveries = DELIVERIES_MAX;
    Changes {
        now: at(0),
        insert_runs: (1..=4).map(full_run).map(Into::into).collect(),
        insert_tasks: vec![full_task(1, 1), bare_task(2, 2), full_task(3, 3), poison],
        insert_outbox: (1..=4).map(|run| full_outbox(run, run)).collect(),
        ..Changes::default()
    }
}

#[tokio::test]
async fn opening_ends_the_leases_of_the_former_process() {
    let folder = folder();
    let options = |second| SqliteOptions {
        shards: Shards::new(4),
        now: Some(at(second)),
        ..SqliteOptions::default()
    };
    let db = reopen(&folder, options(0));
    db.reside("worker-1".to_owned()).await.unwrap();
    put(&db, leases()).await;
    let before = db.dump().await.unwrap();
    drop(db);
    let after = reopen(&folder, options(500)).dump().await.unwrap();
    assert_eq!(after, ended(before));
}

#[tokio::test]
async fn those_who_were_only_connected_keep_what_they_hold() {
    let folder = folder();
    let options = || SqliteOptions {
        shards: Shards::new(4),
        ..SqliteOptions::default()
    };
    let db = reopen(&folder, options());
    db.reside("another".to_owned()).await.unwrap();
    let changes = Changes {
        insert_outbox: Vec::new(),
        ..leases()
    };
    put(&db, changes).await;
    let before = db.dump().await.unwrap();
    drop(db);
    let db = reopen(&folder, options());
    assert_eq!(db.dump().await.unwrap(), before);
    // Who lived in a process before the last one is not asked about again.
    db.reside("worker-1".to_owned()).await.unwrap();
    drop(db);
    let after = reopen(&folder, options()).dump().await.unwrap();
    let tasks = after.runs.iter().flat_map(|run| &run.tasks);
    let left = tasks.filter(|task| task.status == TaskStatus::Claimed);
    let deliveries: Vec<u32> = left.map(|task| task.deliveries).collect();
    assert_eq!(
        deliveries,
        [DELIVERIES_MAX],
        "all but what may have killed it"
    );
}

/// What the dump should be after the process was replaced at 500.
fn ended(mut dump: Dump) -> Dump {
    for run in &mut dump.runs {
        run.run.owner = None;
        for event in &mut run.outbox {
            event.state = OutboxState::Pending;
            event.token = None;
            event.available_at = at(500);
        }
        for task in &mut run.tasks {
            if task.deliveries >= DELIVERIES_MAX {
                // The reaper ends it: it may be what killed the process.
                task.lease_expires_at = Some(at(500));
            } else if task.status == TaskStatus::Claimed {
                task.status = TaskStatus::Pending;
                task.attempt -= 1;
                task.visible_at = at(500);
                task.claimed_by = None;
                task.claimed_at = None;
                task.token = None;
                task.lease_expires_at = None;
                task.heartbeat_at = None;
            }
        }
        run.derived.tasks = run.derive().tasks;
    }
    dump
}
