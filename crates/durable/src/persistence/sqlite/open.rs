//! Opening a database, and closing it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use durable_core::Timestamp;
use rusqlite::Connection;

use super::db::Db;
use super::lock::ProcessLock;
use super::readers::{ENGINE_READS_MAX, OPERATORS_READS_MAX, Readers};
use super::sql::{meta as sql, transaction};
use super::void::void_leases;
use super::writer::Writer;
use super::{connect, migrate};
use crate::persistence::clock::StoreClock;
use crate::persistence::trays::Trays;
use crate::persistence::{Shards, StoreResult};

/// How to open a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteOptions {
    /// How many shards; only counts when the database is created.
    pub shards: Shards,
    /// Whether to run the migrations it lacks; otherwise such a database is refused.
    pub migrate: bool,
    /// When the leases of the former process end; absent in production, where that is now.
    pub now: Option<Timestamp>,
    /// Longest that one operator's read (a list, a count) may take, and wait for its place.
    pub operator_timeout: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            shards: Shards::default(),
            migrate: true,
            now: None,
            operator_timeout: Duration::from_secs(5),
        }
    }
}

/// An open SQLite database. Clones share it; the last one closes it, after what is queued has been written.
#[derive(Clone)]
pub struct Sqlite {
    pub(super) inner: Arc<Inner>,
}

/// The order of the fields is the order in which they are dropped: the lock outlives all connections.
pub(super) struct Inner {
    /// None: a database in memory, which only the writer's connection can see.
    pub(super) readers: Option<Arc<Readers>>,
    /// The same for operators' reads: lists, counts and the like, which have a time limit.
    pub(super) operators: Option<Arc<Readers>>,
    pub(super) writer: Writer,
    pub(super) clock: Arc<StoreClock>,
    pub(super) shards: Shards,
    pub(super) listeners: Arc<Trays>,
    _lock: Option<ProcessLock>,
}

impl Sqlite {
    /// Opens a database file, creating it if there is none, and ends the leases of the process that had it before.
    ///
    /// Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// [`crate::persistence::StoreError::Open`] when the file or its folder cannot be written, is no database, or is in
    /// use; [`crate::persistence::StoreError::Schema`] when its schema is newer than this build, or older and
    /// [`SqliteOptions::migrate`] is off.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> StoreResult<Self> {
        connect::check_version()?;
        let path = connect::check_path(path.as_ref())?;
        let lock = ProcessLock::take(&path)?;
        let conn = connect::open_writer(&path)?;
        let engine = Readers::new(path.clone(), ENGINE_READS_MAX, None);
        let limit = Some(options.operator_timeout);
        let operators = Readers::new(path, OPERATORS_READS_MAX, limit);
        let readers = [engine, operators].map(Arc::new);
        Self::start(conn, options, Some(readers), Some(lock))
    }

    /// Opens an empty database that is never on a disk. Reads wait for writes there.
    ///
    /// # Errors
    /// [`crate::persistence::StoreError::Open`] when there is no memory or no thread for it.
    pub fn open_in_memory(options: SqliteOptions) -> StoreResult<Self> {
        connect::check_version()?;
        let conn = Connection::open_in_memory()?;
        connect::set_up_writer(&conn)?;
        Self::start(conn, options, None, None)
    }

    /// Transactions committed since it was opened: fewer than writes, where writes came together.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.inner.writer.commits()
    }

    fn start(
        mut conn: Connection,
        options: SqliteOptions,
        readers: Option<[Arc<Readers>; 2]>,
        lock: Option<ProcessLock>,
    ) -> StoreResult<Self> {
        if options.migrate {
            migrate::bring_up(&mut conn)?;
        } else {
            migrate::require_all(&conn)?;
        }
        let clock = StoreClock::default();
        let shards = settle(&conn, options.shards, clock.resolve(options.now))?;
        let (readers, operators) = readers
            .map(|[engine, operators]| (engine, operators))
            .unzip();
        let inner = Inner {
            readers,
            operators,
            writer: Writer::start(conn)?,
            clock: Arc::new(clock),
            shards,
            listeners: Arc::default(),
            _lock: lock,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }
}

/// Fixes the number of shards if nobody has, and ends what the former process held; in one transaction.
fn settle(conn: &Connection, wanted: Shards, now: Timestamp) -> StoreResult<Shards> {
    conn.execute_batch(transaction::BEGIN_WRITE)?;
    conn.execute(sql::FIX_SHARDS, [wanted.count().to_string()])?;
    let unplaced = Db {
        conn,
        shards: wanted,
    };
    let count = unplaced.one(sql::SHARDS, [], |row| row.int())?;
    let shards = Shards::new(count);
    void_leases(Db { conn, shards }, now)?;
    conn.execute_batch(transaction::COMMIT)?;
    Ok(shards)
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite")
            .field("shards", &self.inner.shards)
            .field("commits", &self.commits())
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The writer's connection should be the last one: it folds the log back into the file.
        for readers in self.readers.iter().chain(&self.operators) {
            readers.close();
        }
    }
}
