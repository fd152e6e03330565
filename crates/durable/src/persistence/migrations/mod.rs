//! Migrations: embedded, ordered, checksummed, expand and contract only.
//!
//! A migration, once released, is never edited: its checksum is stored with it, and a difference
//! is an error. Each store brings its own list and runs it under its own lock.
//!
//! A database names the oldest schema version whose builds may still open it
//! ([`MIN_COMPATIBLE_KEY`] in `durable_meta`). A build opens a newer database as long as its own
//! version is not below that minimum, so that a deploy can be rolled back and two releases can
//! run beside each other. A migration that older builds cannot work with raises the minimum: its
//! file's head has the line `-- durable: min-compatible N`.

use sha2::{Digest, Sha256};

use super::StoreError;

/// The key in `durable_meta` under which a database keeps the oldest schema version whose builds
/// may open it. Written by each build that migrates; absent in databases that no such build
/// migrated.
pub const MIN_COMPATIBLE_KEY: &str = "min_compatible_schema";

/// Begins a line in the head of a migration's file that tells the runner something.
const DIRECTIVE: &str = "-- durable: ";

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
    /// Run by a newer build beside which this one can work.
    Newer,
    /// Run by a newer build, and this one cannot work with the schema.
    Unknown {
        /// The oldest schema version whose builds can; absent where the database does not name it.
        needs: Option<i32>,
    },
}

impl MigrationState {
    /// One lower-case word, as the command line prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Pending => "pending",
            Self::Changed => "changed",
            Self::Newer => "newer",
            Self::Unknown { .. } => "unknown",
        }
    }
}

impl Migration {
    /// The oldest schema version whose builds can work with a database that has this migration, if
    /// its file's head names one (`-- durable: min-compatible N`).
    #[must_use]
    pub fn min_compatible(&self) -> Option<i32> {
        self.directives()
            .find_map(|line| line.strip_prefix("min-compatible ")?.trim().parse().ok())
    }

    /// Whether its statements run one by one outside of any transaction: indexes of a PostgreSQL
    /// table that may be large, built without stopping its writers (`-- durable: concurrently`).
    #[must_use]
    pub fn is_concurrent(&self) -> bool {
        self.directives().any(|line| line.trim() == "concurrently")
    }

    /// The statements for a database that nothing else uses: in one transaction.
    #[must_use]
    pub fn plain_sql(&self) -> String {
        if self.is_concurrent() {
            self.sql.replace("INDEX CONCURRENTLY", "INDEX")
        } else {
            self.sql.to_owned()
        }
    }

    /// The statements one by one, without comments. Not for a file with functions or with texts
    /// that contain a semicolon.
    pub fn statements(&self) -> Vec<String> {
        let lines = self.sql.lines();
        let code: Vec<&str> = lines
            .filter(|line| !line.trim_start().starts_with("--"))
            .collect();
        let code = code.join("\n");
        let statements = code.split(';').map(str::trim);
        statements
            .filter(|statement| !statement.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// What the file's head tells the runner. The head ends at the first line that is no comment.
    fn directives(&self) -> impl Iterator<Item = &'static str> {
        self.sql
            .lines()
            .take_while(|line| line.starts_with("--") || line.trim().is_empty())
            .filter_map(|line| line.strip_prefix(DIRECTIVE))
    }

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

/// The minimum that a database has once these migrations ran: what it had, what each of them asks
/// for, and never less than `oldest`, the first version whose builds look at the minimum at all.
#[must_use]
pub(crate) fn min_compatible<'a>(
    oldest: i32,
    stored: Option<i32>,
    migrations: impl IntoIterator<Item = &'a Migration>,
) -> i32 {
    let asked = migrations.into_iter().filter_map(Migration::min_compatible);
    asked.chain(stored).fold(oldest, i32::max)
}

/// Compares what a database has with what this build has. `min_compatible` is what the database
/// keeps under [`MIN_COMPATIBLE_KEY`]: it decides whether this build can work with migrations that
/// only a newer one has. Their checksums cannot be compared.
#[must_use]
pub fn status(
    embedded: &[Migration],
    applied: &[AppliedMigration],
    min_compatible: Option<i32>,
) -> Vec<MigrationStatus> {
    let own = embedded.iter().map(|own| own.version).max().unwrap_or(0);
    let beyond = match min_compatible {
        Some(min) if min <= own => MigrationState::Newer,
        needs => MigrationState::Unknown { needs },
    };
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
        state: beyond,
    }));
    all
}

/// Refuses a database that this build must not touch: its schema is too new, it was migrated by
/// other statements, or a newer build migrated it past a migration that it lacks.
///
/// # Errors
/// [`StoreError::Schema`], which says what to do.
pub fn validate(status: &[MigrationStatus]) -> Result<(), StoreError> {
    let own = status
        .iter()
        .filter(|m| {
            !matches!(
                m.state,
                MigrationState::Unknown { .. } | MigrationState::Newer
            )
        })
        .map(|m| m.version)
        .max()
        .unwrap_or(0);
    let newest_applied = status
        .iter()
        .filter(|m| m.state != MigrationState::Pending)
        .map(|m| m.version)
        .max()
        .unwrap_or(0);
    for migration in status {
        let (version, name) = (migration.version, &migration.name);
        match migration.state {
            MigrationState::Applied | MigrationState::Newer => {}
            MigrationState::Pending if version > newest_applied => {}
            MigrationState::Pending => {
                return Err(StoreError::Schema(format!(
                    "the database has migration {newest_applied} and lacks migration {version} \
                     ({name}); it was made by a build of another line: use that build"
                )));
            }
            MigrationState::Unknown { needs } => {
                let which = needs.map_or_else(
                    || "run that release or a newer one".to_owned(),
                    |needs| {
                        format!(
                            "run that release or a newer one; builds with schema version {needs} \
                             or later can open it, this build has {own}"
                        )
                    },
                );
                return Err(StoreError::Schema(format!(
                    "the database has migration {version} ({name}), which this build does not \
                     know; it was migrated by a newer release: {which}"
                )));
            }
            MigrationState::Changed => {
                return Err(StoreError::Schema(format!(
                    "migration {version} ({name}) was run with other statements than this build \
                     has; the database was made by a changed build: restore it or use that build"
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
        let status = status(&OWN, &[applied(&OWN[0])], None);
        let states: Vec<_> = status.iter().map(|s| s.state).collect();
        assert_eq!(states, [MigrationState::Applied, MigrationState::Pending]);
        assert!(validate(&status).is_ok());
    }

    const NEWER: Migration = Migration {
        version: 3,
        name: "three",
        sql: "-- Why.\n-- durable: min-compatible 2\n\nc\n-- durable: min-compatible 9\n",
    };

    #[test]
    fn newer_schema_opens_as_long_as_its_minimum_is_not_above_this_build() {
        let all = [applied(&OWN[0]), applied(&OWN[1]), applied(&NEWER)];
        for min in [1, 2] {
            let status = status(&OWN, &all, Some(min));
            assert_eq!(status[2].state, MigrationState::Newer);
            assert!(validate(&status).is_ok());
            assert!(require_complete(&status).is_ok());
        }
        for (min, said) in [(Some(3), "schema version 3"), (None, "newer release")] {
            let error = validate(&status(&OWN, &all, min)).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn changed_schema_and_one_with_a_gap_are_refused() {
        let changed = AppliedMigration {
            checksum: "x".into(),
            ..applied(&OWN[0])
        };
        assert!(validate(&status(&OWN, &[changed], None)).is_err());
        let gap = [applied(&OWN[0]), applied(&NEWER)];
        let error = validate(&status(&OWN, &gap, Some(1))).unwrap_err();
        assert!(error.to_string().contains("lacks migration 2"), "{error}");
    }

    #[test]
    fn file_marked_as_concurrent_runs_its_statements_one_by_one() {
        let marked = Migration {
            version: 4,
            name: "four",
            sql: "-- Why; and how.\n-- durable: concurrently\n\n\
                  CREATE INDEX CONCURRENTLY a ON t (x);\n\
                  -- The other.\nCREATE INDEX CONCURRENTLY b\n    ON t (y);\n",
        };
        assert!(marked.is_concurrent() && !NEWER.is_concurrent());
        assert_eq!(
            marked.statements(),
            [
                "CREATE INDEX CONCURRENTLY a ON t (x)",
                "CREATE INDEX CONCURRENTLY b\n    ON t (y)"
            ]
        );
        assert!(!marked.plain_sql().contains("CONCURRENTLY"));
    }

    #[test]
    fn minimum_is_raised_by_the_head_of_a_file_and_never_lowered() {
        assert_eq!(NEWER.min_compatible(), Some(2));
        assert_eq!(OWN[0].min_compatible(), None);
        assert_eq!(min_compatible(1, None, &OWN), 1);
        assert_eq!(min_compatible(1, None, [&NEWER]), 2);
        assert_eq!(min_compatible(1, Some(7), [&NEWER]), 7);
    }
}
