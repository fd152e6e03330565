//! What work costs PostgreSQL: statements, commits, bytes of its log.

use std::time::Duration;

use anyhow::Context as _;
use tokio_postgres::Client;

use crate::database::{Database, Kind};
use crate::raw;

/// A connection publishes what it has counted when it does something, at most once a second, or after ten seconds in which it does nothing.
const SETTLED_AFTER: Duration = Duration::from_secs(11);

const COMMITS: &str = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1";

const WAL: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";

/// What begins and ends a transaction is no statement of its own: commits are counted beside.
const STATEMENTS: &str = "SELECT COALESCE(sum(calls), 0)::bigint FROM pg_stat_statements
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1)
      AND query !~* '^\\s*(BEGIN|COMMIT|ROLLBACK|END|START TRANSACTION)'";

/// Reads the counts of one database through connections that they do not count.
pub(crate) struct Meter {
    beside: Client,
    /// Where `pg_stat_statements` can be asked; none: it is not there.
    statements: Option<Client>,
    name: String,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    commits: i64,
    wal_bytes: i64,
    statements: Option<i64>,
}

/// What happened between two moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Transactions, rolled back ones included.
    pub(crate) commits: f64,
    /// Bytes of the write-ahead log, of the whole cluster.
    pub(crate) wal_bytes: f64,
    /// Statements; none where `pg_stat_statements` is not loaded.
    pub(crate) statements: Option<f64>,
}

impl Meter {
    /// A meter of this database; none where it is not PostgreSQL.
    pub(crate) async fn of(database: &Database) -> anyhow::Result<Option<Self>> {
        if database.kind != Kind::Postgres {
            return Ok(None);
        }
        let beside = database
            .beside()
            .await?
            .context("PostgreSQL has a server")?;
        let inside = raw::connect(&database.url).await?;
        let name: String = inside
            .query_one("SELECT current_database()", &[])
            .await?
            .get(0);
        // Superusers only, and only where the server loads it: without it there is one figure less.
        let there = inside
            .batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            .await
            .is_ok()
            && inside.query_one(STATEMENTS, &[&name]).await.is_ok();
        Ok(Some(Self {
            beside,
            statements: there.then_some(inside),
            name,
        }))
    }

    /// Waits until all that has happened is counted, and reads.
    pub(crate) async fn read(&self) -> anyhow::Result<Reading> {
        tokio::time::sleep(SETTLED_AFTER).await;
        let commits = self.beside.query_one(COMMITS, &[&self.name]).await?.get(0);
        let wal_bytes = self.beside.query_one(WAL, &[]).await?.get(0);
        let statements = match &self.statements {
            Some(inside) => Some(inside.query_one(STATEMENTS, &[&self.name]).await?.get(0)),
            None => None,
        };
        Ok(Reading {
            commits,
            wal_bytes,
            statements,
        })
    }
}

impl Reading {
    /// What happened since an earlier one. The reading itself is one transaction of one statement, which are left out.
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn since(self, earlier: Self) -> Cost {
        let asked = i64::from(self.statements.is_some());
        let commits = (self.commits - earlier.commits - asked).max(0);
        let statements = self.statements.zip(earlier.statements);
        Cost {
            commits: commits as f64,
            wal_bytes: (self.wal_bytes - earlier.wal_bytes) as f64,
            statements: statements.map(|(now, then)| (now - then - 1).max(0) as f64),
        }
    }
}

impl Cost {
    /// As figures of one of so many.
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn per(self, what: &str, count: usize) -> Vec<(String, f64)> {
        let count = count as f64;
        let statements = self
            .statements
            .map(|n| (format!("statements_per_{what}"), n / count));
        let rest = [
            (format!("commits_per_{what}"), self.commits / count),
            (format!("wal_bytes_per_{what}"), self.wal_bytes / count),
        ];
        statements.into_iter().chain(rest).collect()
    }
}
