//! Intents and records for the tests of the SQLite store below its rules.
#![allow(dead_code, reason = "each test file uses its share")]

pub(crate) mod records;

use everruns_durable::core::Timestamp;
use everruns_durable::persistence::model::{ClaimTasks, ScheduleRecord};
use everruns_durable::persistence::sql::rows::{Changes, Load, Loaded, RegistryWrite, Touched};
use everruns_durable::persistence::sql::tx::{Concern, Database, Intent, Tx};
use everruns_durable::persistence::sqlite::{Sqlite, SqliteOptions};
use everruns_durable::persistence::{StoreError, StoreResult};
use tempfile::TempDir;
use uuid::Uuid;

/// Writes what it is told to.
pub(crate) struct Put(pub(crate) Changes);

impl Intent for Put {
    type Answer = ();

    fn at(&self) -> Option<Timestamp> {
        Some(self.0.now)
    }

    async fn plan<T: Tx>(&self, _tx: &mut T) -> StoreResult<((), Changes)> {
        Ok(((), self.0.clone()))
    }
}

/// Puts a schedule, as a user does.
struct PutSchedule(ScheduleRecord);

impl Intent for PutSchedule {
    type Answer = ();

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<((), Changes)> {
        let put = RegistryWrite::PutSchedule(self.0.clone());
        assert_eq!(tx.write_registry(&put).await?, Touched::rows(1));
        Ok(((), Changes::default()))
    }
}

pub(crate) async fn put_schedule(db: &Sqlite, schedule: ScheduleRecord) {
    let put = db.write(Concern::Registry, PutSchedule(schedule)).await;
    put.unwrap();
}

/// Reads what it is told to.
pub(crate) struct Get(pub(crate) Load);

impl Intent for Get {
    type Answer = Loaded;

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Loaded, Changes)> {
        Ok((tx.load(self.0.clone()).await?, Changes::default()))
    }
}

/// Decides to write, and then fails.
pub(crate) struct Refuse;

impl Intent for Refuse {
    type Answer = ();

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<((), Changes)> {
        let claim = ClaimTasks {
            worker_id: "refuser".into(),
            activity_types: vec!["charge".into()],
            max: 10,
            lease: std::time::Duration::from_secs(1),
            token: Uuid::nil(),
            first_shard: 0,
            now: None,
        };
        // A claim writes before the changes do; it has to be undone too.
        tx.claim_tasks(0, &claim, 10).await?;
        Err(StoreError::Invalid("refused".into()))
    }
}

/// A file of a test's own.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A fresh database in the folder.
pub(crate) fn open(folder: &TempDir) -> Sqlite {
    reopen(folder, SqliteOptions::default())
}

/// The folder's database with these options.
pub(crate) fn reopen(folder: &TempDir, options: SqliteOptions) -> Sqlite {
    Sqlite::open(folder.path().join("test.db"), options).expect("the database opens")
}

/// Writes.
pub(crate) async fn put(db: &Sqlite, changes: Changes) {
    db.write(Concern::Events, Put(changes))
        .await
        .expect("the changes are written");
}

/// Reads through the writer.
pub(crate) async fn get(db: &Sqlite, load: Load) -> Loaded {
    db.write(Concern::Events, Get(load))
        .await
        .expect("the rows are read")
}

/// An instant.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("within the range of instants")
}
