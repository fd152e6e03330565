//! Migrations: embedded, ordered, checksummed, expand and contract only.
//!
//! A migration, once released, is never edited: its checksum is stored with it, and a difference
//! is an error. Each store brings its own list and runs it under its own lock.

use sha2::{Digest, Sha256};

use super::StoreError;

/// One step of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its place, from 1, without gaps.
    pub version: i32,
    /// What it does, as in its file name.
    pub name: &'static str,
    /// The statements.
    pub sql: &'static str,
}

/// A migration that a database has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedMigration {
    /// Its place.
    pub version: i32,
    /// What it does.
    pub name: String,
    /// Checksum of what was run.
    pub checksum: String,
}

/// How a migration stands in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Its place.
    pub version: i32,
    /// What it does.
    pub name: String,
    /// Where it stands.
    pub state: MigrationState,
}

/// Where a migration stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationState {
    /// Run, as this build has it.
    Applied,
    /// To be run.
    Pending,
    /// Run, but this build has other statements under its number.
    Changed,
    /// Run by a newer build; this one does not have it.
    Unknown,
}

impl Migration {
    /// Checksum of its statements.
    #[must_use]
    pub fn checksum(&self) -> String {
        use std::fmt::Write as _;
        let digest = Sha256::digest(self.sql.as_bytes());
        digest
            .iter()
            .fold(String::with_capacity(64), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
    }
}

/// Compares what a database has with what this build has.
#[must_use]
pub fn status(embedded: &[Migration], applied: &[AppliedMigration]) -> Vec<MigrationStatus> {
    let mut all: Vec<MigrationStatus> = embedded
        .iter()
        .map(|own| {
            let state = match applied.iter().find(|a| a.version == own.version) {
                None => MigrationState::Pending,
                Some(a) if a.checksum == own.checksum() => MigrationState::Applied,
                Some(_) => MigrationState::Changed,
            };
            MigrationStatus {
                version: own.version,
                name: own.name.to_owned(),
                state,
            }
        })
        .collect();
    let unknown = applied
        .iter()
        .filter(|a| embedded.iter().all(|own| own.version != a.version));
    all.extend(unknown.map(|a| MigrationStatus {
        version: a.version,
        name: a.name.clone(),
        state: MigrationState::Unknown,
    }));
    all
}

/// Refuses a database that this build must not touch: newer than it, or migrated by other statements.
///
/// # Errors
/// [`StoreError::Schema`], which says what to do.
pub fn validate(status: &[MigrationStatus]) -> Result<(), StoreError> {
    for migration in status {
        match migration.state {
            MigrationState::Applied | MigrationState::Pending => {}
            MigrationState::Unknown => {
                return Err(StoreError::Schema(format!(
                    "the database has migration {} ({}), which this build does not know; it was \
                     migrated by a newer release: run that release or a newer one",
                    migration.version, migration.name
                )));
            }
            MigrationState::Changed => {
                return Err(StoreError::Schema(format!(
                    "migration {} ({}) was run with other statements than this build has; the \
                     database was made by a changed build: restore it or use that build",
                    migration.version, migration.name
                )));
            }
        }
    }
    Ok(())
}

/// Refuses a database on which something is missing as well.
///
/// # Errors
/// [`StoreError::Schema`], which says what to do.
pub(crate) fn require_complete(status: &[MigrationStatus]) -> Result<(), StoreError> {
    validate(status)?;
    let mut missing = status
        .iter()
        .filter(|found| found.state == MigrationState::Pending);
    let Some(first) = missing.next() else {
        return Ok(());
    };
    let more = match missing.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(StoreError::Schema(format!(
        "the database lacks migration {} ({}){more}: run `durable migrate up --db URL`, start the server with --migrate, or open the \
         store with `migrate`",
        first.version, first.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [Migration; 2] = [
        Migration {
            version: 1,
            name: "one",
            sql: "a",
        },
        Migration {
            version: 2,
            name: "two",
            sql: "b",
        },
    ];

    fn applied(migration: &Migration) -> AppliedMigration {
        AppliedMigration {
            version: migration.version,
            name: migration.name.into(),
            checksum: migration.checksum(),
        }
    }

    #[test]
    fn what_is_missing_is_pending_and_fine() {
        let status = status(&OWN, &[applied(&OWN[0])]);
        let states: Vec<_> = status.iter().map(|s| s.state).collect();
        assert_eq!(states, [MigrationState::Applied, MigrationState::Pending]);
        assert!(validate(&status).is_ok());
    }

    #[test]
    fn newer_and_changed_schemas_are_refused() {
        let newer = Migration {
            version: 3,
            name: "three",
            sql: "c",
        };
        let error = validate(&status(&OWN, &[applied(&newer)])).unwrap_err();
        assert!(error.to_string().contains("newer release"), "{error}");
        let changed = AppliedMigration {
            checksum: "x".into(),
            ..applied(&OWN[0])
        };
        assert!(validate(&status(&OWN, &[changed])).is_err());
    }
}
