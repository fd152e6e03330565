//! The schema: which migrations a file has, and running those it lacks.

use std::path::Path;

use durable_core::Timestamp;
use rusqlite::{Connection, OptionalExtension as _};

use super::connect;
use super::db::Db;
use super::lock::ProcessLock;
use super::sql::{meta as sql, transaction};
use super::value::At;
use crate::persistence::migrations::{
    self, AppliedMigration, Migration, MigrationState, MigrationStatus,
};
use crate::persistence::{Shards, StoreError, StoreResult};

macro_rules! migration {
    ($version:literal, $name:literal, $file:literal) => {
        Migration {
            version: $version,
            name: $name,
            sql: include_str!($file),
        }
    };
}

/// All migrations, in order. One that was released is never edited.
pub const MIGRATIONS: &[Migration] = &[
    migration!(1, "runs", "../migrations/sqlite/0001_runs.sql"),
    migration!(2, "tasks", "../migrations/sqlite/0002_tasks.sql"),
    migration!(3, "inbox", "../migrations/sqlite/0003_inbox.sql"),
    migration!(4, "registry", "../migrations/sqlite/0004_registry.sql"),
    migration!(5, "people", "../migrations/sqlite/0005_people.sql"),
    migration!(6, "audit", "../migrations/sqlite/0006_audit.sql"),
    migration!(
        7,
        "dead_letter_ids",
        "../migrations/sqlite/0007_dead_letter_ids.sql"
    ),
    migration!(8, "waits", "../migrations/sqlite/0008_waits.sql"),
    migration!(9, "deletions", "../migrations/sqlite/0009_deletions.sql"),
    migration!(
        10,
        "bounded_reads",
        "../migrations/sqlite/0010_bounded_reads.sql"
    ),
];

/// The first version whose builds look at [`migrations::MIN_COMPATIBLE_KEY`]: no older build may
/// run beside a newer one.
const OLDEST_COMPATIBLE: i32 = 8;

/// How each migration stands in a file; all are pending where there is none. Changes nothing.
///
/// # Errors
/// [`StoreError::Open`] when the file cannot be read.
pub fn status(path: &Path) -> StoreResult<Vec<MigrationStatus>> {
    if !path.exists() {
        return Ok(migrations::status(MIGRATIONS, &[], None));
    }
    status_of(&connect::open_to_look(path)?)
}

/// Checks that this build may work with a file. Changes nothing.
///
/// # Errors
/// [`StoreError::Schema`] when it is newer than this build or was migrated by other statements.
pub fn validate(path: &Path) -> StoreResult<()> {
    migrations::validate(&status(path)?)
}

/// The statements of all migrations, as text.
#[must_use]
pub fn print() -> String {
    MIGRATIONS
        .iter()
        .map(|own| {
            let (version, name, sql) = (own.version, own.name, own.sql);
            format!("-- migration {version}: {name}\n{sql}\n")
        })
        .collect()
}

/// Runs the migrations that a file lacks, and answers how all of them stand. Creates the file if need be.
///
/// # Errors
/// [`StoreError::Open`] when the file cannot be written or is in use, [`StoreError::Schema`] as [`validate`].
pub fn up(path: &Path) -> StoreResult<Vec<MigrationStatus>> {
    connect::check_version()?;
    let path = connect::check_path(path)?;
    let _lock = ProcessLock::take(&path)?;
    let mut conn = connect::open_writer(&path)?;
    bring_up(&mut conn)?;
    status_of(&conn)
}

/// Runs what a database lacks.
pub(super) fn bring_up(conn: &mut Connection) -> StoreResult<()> {
    let status = status_of(conn)?;
    migrations::validate(&status)?;
    conn.execute(sql::CREATE_MIGRATIONS, [])?;
    for own in MIGRATIONS {
        let pending = status
            .iter()
            .any(|found| found.version == own.version && found.state == MigrationState::Pending);
        if pending {
            run(conn, own)?;
        }
    }
    Ok(())
}

/// Refuses a database that lacks a migration, or that this build must not touch.
pub(super) fn require_all(conn: &Connection) -> StoreResult<()> {
    let status = status_of(conn)?;
    migrations::require_complete(&status)
}

/// One migration and its note, in one transaction.
fn run(conn: &mut Connection, own: &Migration) -> StoreResult<()> {
    conn.execute_batch(transaction::BEGIN_WRITE)?;
    let ran = conn.execute_batch(own.sql).and_then(|()| {
        conn.execute(
            sql::NOTE_MIGRATION,
            (own.version, own.name, own.checksum(), At(Timestamp::now())),
        )?;
        let stored = stored_minimum(conn)?;
        let minimum = migrations::min_compatible(OLDEST_COMPATIBLE, stored, [own]);
        conn.execute(sql::SET_MIN_COMPATIBLE, [minimum.to_string()])?;
        conn.execute_batch(transaction::COMMIT)
    });
    ran.map_err(|error| {
        // The transaction ends with the connection, if not here.
        let _ = conn.execute_batch(transaction::ROLLBACK);
        StoreError::Schema(format!(
            "migration {} ({}) failed: {error}",
            own.version, own.name
        ))
    })
}

fn status_of(conn: &Connection) -> StoreResult<Vec<MigrationStatus>> {
    // No row of a run is touched here, so any number of shards will do.
    let shards = Shards::default();
    let db = Db { conn, shards };
    let migrated: i64 = db.one(sql::HAS_MIGRATIONS, [], |row| row.int())?;
    if migrated == 0 {
        return Ok(migrations::status(MIGRATIONS, &[], None));
    }
    let applied = db.all(sql::APPLIED, [], |row| {
        Ok(AppliedMigration {
            version: row.int()?,
            name: row.text()?,
            checksum: row.text()?,
        })
    })?;
    let has_meta: i64 = db.one(sql::HAS_META, [], |row| row.int())?;
    let minimum = if has_meta == 0 {
        None
    } else {
        stored_minimum(conn)?
    };
    Ok(migrations::status(MIGRATIONS, &applied, minimum))
}

/// The oldest schema version whose builds may open the file, if it names one.
fn stored_minimum(conn: &Connection) -> rusqlite::Result<Option<i32>> {
    conn.query_row(sql::MIN_COMPATIBLE, [], |row| row.get(0))
        .optional()
}
