//! Running what a database lacks beside everything else that uses it.
//!
//! A statement that changes a table waits for that table's readers, and every other statement on
//! the table queues behind it. Each migration therefore waits for a lock for [`LOCK_TIMEOUT`] at
//! most, is rolled back, pauses, and tries again, a bounded number of times. An index on a table
//! that may be large is built without stopping writers: a file whose head says `-- durable:
//! concurrently` runs statement by statement outside of any transaction.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::super::options::Route;
use super::super::schema::Schema;
use super::super::sqlstate::store_error;
use super::{OLDEST_COMPATIBLE, bootstrap, direct, read_status, stored_minimum};
use crate::persistence::migrations::{self, Migration, MigrationState, MigrationStatus};
use crate::persistence::{Shards, StoreError, StoreResult};

/// How long one statement of a migration waits for a lock, during which others queue behind it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Attempts before a migration gives up on a lock that other transactions hold: some ten minutes.
const LOCK_ATTEMPTS_MAX: u32 = 120;
/// The pause after the first attempt; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The database to migrate and the way to it.
pub(in super::super) struct Runner<'a> {
    pub(in super::super) client: &'a Client,
    pub(in super::super) schema: &'a Schema,
    pub(in super::super) shards: Shards,
    /// The way to a second connection, which keeps other processes from building the same index.
    pub(in super::super) route: &'a Route,
    pub(in super::super) connect_timeout: Duration,
    /// Whether a transaction pooler is the only way, so that settings of a session do not hold.
    pub(in super::super) pooled: bool,
    pub(in super::super) migrations: &'a [Migration],
}

/// Why an attempt ended without its migration.
enum Failed {
    /// Another transaction holds a lock that it needs, or another process migrates: try again.
    Locked(String),
    /// Trying again does not help.
    Final(StoreError),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Final(error)
    }
}

impl Runner<'_> {
    /// Runs what is missing, in order.
    pub(in super::super) async fn up(&self) -> StoreResult<()> {
        let mut attempts = 0;
        loop {
            let status = self.status().await?;
            let Some(next) = first_pending(&status) else {
                return Ok(());
            };
            let attempt = if status.iter().all(is_pending) {
                bootstrap(self.client, self.schema).await?;
                self.create_all().await
            } else {
                self.run_next(next).await
            };
            match attempt {
                Ok(()) => attempts = 0,
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Locked(why)) if attempts == LOCK_ATTEMPTS_MAX => {
                    return Err(StoreError::Schema(format!(
                        "migration {next} got no lock on its tables in {attempts} attempts ({why}): \
                         end the transactions that hold them open, or wait for the process that \
                         migrates, and try again"
                    )));
                }
                Err(Failed::Locked(why)) => {
                    attempts += 1;
                    tracing::warn!(
                        migration = next,
                        attempts,
                        why,
                        "a migration waits for a lock"
                    );
                    tokio::time::sleep(pause(attempts)).await;
                }
            }
        }
    }

    async fn status(&self) -> StoreResult<Vec<MigrationStatus>> {
        let status = read_status(self.client, self.schema, self.migrations).await?;
        migrations::validate(&status)?;
        Ok(status)
    }

    /// All migrations of a database that has none, in one transaction: no reader is in the way, and
    /// tables without rows need no index built beside writers.
    async fn create_all(&self) -> Result<(), Failed> {
        self.in_transaction(async || {
            if !self.status().await?.iter().all(is_pending) {
                // Another process was first.
                return Ok(());
            }
            for migration in self.migrations {
                self.execute(&migration.plain_sql(), migration).await?;
                self.record(migration).await?;
            }
            Ok(())
        })
        .await
    }

    async fn run_next(&self, version: i32) -> Result<(), Failed> {
        let Some(migration) = self.migrations.iter().find(|own| own.version == version) else {
            return Ok(());
        };
        if migration.is_concurrent() {
            return self.run_concurrently(migration).await;
        }
        self.in_transaction(async || {
            if first_pending(&self.status().await?) != Some(version) {
                // Another process was first.
                return Ok(());
            }
            self.execute(migration.sql, migration).await?;
            self.record(migration).await
        })
        .await
    }

    /// One transaction under a lock that every process takes which migrates. The lock stops no
    /// reader of the records.
    async fn in_transaction(
        &self,
        work: impl AsyncFnOnce() -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED;
             SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = 0;
             LOCK TABLE {{s}}.durable_schema_migrations IN SHARE UPDATE EXCLUSIVE MODE",
            LOCK_TIMEOUT.as_millis()
        );
        let result = async {
            self.client
                .batch_execute(&self.schema.render(&begin))
                .await
                .map_err(unlocked)?;
            work().await?;
            self.client.batch_execute("COMMIT").await.map_err(unlocked)
        }
        .await;
        if result.is_err() {
            // The first error counts; a lost connection rolls back by itself.
            let _ = self.client.batch_execute("ROLLBACK").await;
        }
        result
    }

    async fn execute(&self, sql: &str, migration: &Migration) -> Result<(), Failed> {
        let ran = self.client.batch_execute(&self.schema.render(sql)).await;
        ran.map_err(|error| failed(&error, migration))
    }

    /// Notes a migration, the minimum it asks for, and the number of shards if it is not fixed yet.
    async fn record(&self, migration: &Migration) -> Result<(), Failed> {
        let note = self.schema.render(
            "INSERT INTO {s}.durable_schema_migrations (version, name, checksum, applied_at)
             VALUES ($1, $2, $3, clock_timestamp())",
        );
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] = [
            (&migration.version, Type::INT4),
            (&migration.name, Type::TEXT),
            (&migration.checksum(), Type::TEXT),
        ];
        let noted = self.client.execute_typed(&note, &values).await;
        noted.map_err(|error| failed(&error, migration))?;
        let stored = stored_minimum(self.client, self.schema).await?;
        let minimum = migrations::min_compatible(OLDEST_COMPATIBLE, stored, [migration]);
        let keep = self.schema.render(
            "INSERT INTO {s}.durable_meta (key, value) VALUES ($1, $2)
             ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        );
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] = [
            (&migrations::MIN_COMPATIBLE_KEY, Type::TEXT),
            (&minimum.to_string(), Type::TEXT),
        ];
        let kept = self.client.execute_typed(&keep, &values).await;
        kept.map_err(|error| failed(&error, migration))?;
        let fix = self.schema.render(
            "INSERT INTO {s}.durable_meta (key, value) VALUES ('shards', $1) ON CONFLICT DO NOTHING",
        );
        let shards = self.shards.count().to_string();
        let fixed = self
            .client
            .execute_typed(&fix, &[(&shards, Type::TEXT)])
            .await;
        fixed.map_err(|error| failed(&error, migration))?;
        Ok(())
    }

    /// Indexes built beside writers. The table's lock that the build takes stops no reader and no
    /// writer, and a build that waits for an old transaction lets everything else pass.
    async fn run_concurrently(&self, migration: &Migration) -> Result<(), Failed> {
        let guard = self.guard().await?;
        if first_pending(&self.status().await?) != Some(migration.version) {
            return Ok(());
        }
        if !self.pooled {
            let patient = "SET statement_timeout = 0; SET lock_timeout = 0";
            let set = self.client.batch_execute(patient).await;
            set.map_err(|error| failed(&error, migration))?;
        }
        for statement in migration.statements() {
            if let Some(index) = created_index(&statement) {
                match self.index_is_valid(index, migration).await? {
                    Some(true) => continue,
                    Some(false) => {
                        // An earlier build of it was interrupted.
                        let drop = format!("DROP INDEX CONCURRENTLY IF EXISTS {{s}}.{index}");
                        self.execute(&drop, migration).await?;
                    }
                    None => {}
                }
            }
            self.execute(&statement, migration).await?;
        }
        let recorded = self.in_transaction(async || self.record(migration).await);
        recorded.await?;
        drop(guard);
        Ok(())
    }

    /// Keeps other processes from building the same index, for as long as the connection lives.
    /// Asked without waiting, and on an idle connection of its own: a statement that waits holds a
    /// snapshot, and the build waits for every older snapshot.
    async fn guard(&self) -> Result<Client, Failed> {
        let guard = direct(self.route, self.connect_timeout).await?;
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED;
                     SET LOCAL idle_in_transaction_session_timeout = 0";
        guard.batch_execute(begin).await.map_err(store_error)?;
        // By the simple protocol: the portal of an extended query would keep its snapshot until the
        // transaction ends. A schema's name has no character that ends a text.
        let take = format!(
            "SELECT pg_try_advisory_xact_lock(hashtextextended('durable migrate {}', 0))",
            self.schema.name()
        );
        let answers = guard.simple_query(&take).await.map_err(store_error)?;
        let taken = answers.iter().any(
            |answer| matches!(answer, SimpleQueryMessage::Row(row) if row.get(0) == Some("t")),
        );
        if taken {
            Ok(guard)
        } else {
            Err(Failed::Locked("another process builds indexes".to_owned()))
        }
    }

    /// Whether an index is complete; absent if there is none of that name.
    async fn index_is_valid(
        &self,
        index: &str,
        migration: &Migration,
    ) -> Result<Option<bool>, Failed> {
        let rows = self
            .client
            .query_typed(
                "SELECT found.indisvalid FROM pg_index AS found
                 JOIN pg_class AS index ON index.oid = found.indexrelid
                 JOIN pg_namespace AS space ON space.oid = index.relnamespace
                 WHERE space.nspname = $1 AND index.relname = $2",
                &[(&self.schema.name(), Type::TEXT), (&index, Type::TEXT)],
            )
            .await
            .map_err(|error| failed(&error, migration))?;
        Ok(rows.first().map(|row| row.get(0)))
    }
}

/// The name of the index that a statement creates.
fn created_index(statement: &str) -> Option<&str> {
    let mut words = statement.split_whitespace().peekable();
    (words.next()? == "CREATE").then_some(())?;
    words.next_if_eq(&"UNIQUE");
    (words.next()? == "INDEX").then_some(())?;
    words.next_if_eq(&"CONCURRENTLY");
    if words.next_if_eq(&"IF").is_some() {
        words.nth(1);
    }
    words.next()
}

fn is_pending(migration: &MigrationStatus) -> bool {
    migration.state == MigrationState::Pending
}

fn first_pending(status: &[MigrationStatus]) -> Option<i32> {
    status.iter().find(|m| is_pending(m)).map(|m| m.version)
}

fn pause(attempts: u32) -> Duration {
    let doubled = 1_u32.checked_shl(attempts - 1).unwrap_or(u32::MAX);
    PAUSE_MIN.saturating_mul(doubled).min(PAUSE_MAX)
}

fn is_locked(error: &tokio_postgres::Error) -> bool {
    matches!(
        error.code(),
        Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_DEADLOCK_DETECTED)
    )
}

fn unlocked(error: tokio_postgres::Error) -> Failed {
    if is_locked(&error) {
        Failed::Locked(store_error(error).to_string())
    } else {
        Failed::Final(store_error(error))
    }
}

fn failed(error: &tokio_postgres::Error, migration: &Migration) -> Failed {
    let why = error
        .as_db_error()
        .map_or_else(|| error.to_string(), ToString::to_string);
    if is_locked(error) {
        return Failed::Locked(why);
    }
    let (version, name) = (migration.version, migration.name);
    let undone = if migration.is_concurrent() {
        "the next attempt removes what is left of it"
    } else {
        "was rolled back"
    };
    Failed::Final(StoreError::Schema(format!(
        "migration {version} ({name}) failed, {undone}: {why}"
    )))
}

#[cfg(test)]
mod tests {
    use super::super::MIGRATIONS;
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        assert_eq!(pause(1), PAUSE_MIN);
        assert_eq!(pause(2), PAUSE_MIN * 2);
        assert_eq!(pause(LOCK_ATTEMPTS_MAX), PAUSE_MAX);
    }

    #[test]
    fn name_of_a_created_index_is_read_from_its_statement() {
        for statement in [
            "CREATE INDEX durable_x ON {s}.t (a)",
            "CREATE UNIQUE INDEX CONCURRENTLY durable_x ON {s}.t (a)",
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS durable_x\n    ON {s}.t (a)",
        ] {
            assert_eq!(created_index(statement), Some("durable_x"), "{statement}");
        }
        assert_eq!(created_index("DROP INDEX CONCURRENTLY durable_x"), None);
    }

    /// Migrations up to here were released before the rule.
    const FREE: i32 = 16;

    #[test]
    fn index_on_a_table_of_an_earlier_migration_is_built_beside_writers() {
        for migration in MIGRATIONS.iter().filter(|own| own.version > FREE) {
            for statement in migration.statements() {
                let concurrent = statement.contains("INDEX CONCURRENTLY");
                assert_eq!(
                    concurrent,
                    migration.is_concurrent(),
                    "V{:03}: a file marked `-- durable: concurrently` has nothing but CREATE and DROP \
                     INDEX CONCURRENTLY, and no other file has one: {statement}",
                    migration.version
                );
                let Some(index) = created_index(&statement).filter(|_| !concurrent) else {
                    continue;
                };
                let table = statement
                    .split_once(" ON ")
                    .and_then(|(_, rest)| rest.split_whitespace().next())
                    .unwrap_or_default();
                assert!(
                    migration.sql.contains(&format!("CREATE TABLE {table} (")),
                    "V{:03}: index {index} on {table} stops its writers: build it concurrently",
                    migration.version
                );
            }
        }
    }
}
