//! The stores under test: each fresh, empty and a test's own.

use std::sync::Arc;

use everruns_durable::persistence::memory::MemoryStore;
use everruns_durable::persistence::sql::SqlStore;
use everruns_durable::persistence::sqlite::{Sqlite, SqliteOptions};
use everruns_durable::persistence::{Shards, WorkflowEventStore};

/// A kind of store, and how it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flavour {
    /// Which store.
    pub kind: Kind,
    /// How many shards.
    pub shards: u16,
}

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In memory.
    Memory,
    /// A SQLite file.
    Sqlite,
    /// PostgreSQL, directly.
    Postgres,
    /// PostgreSQL through pgbouncer in transaction mode.
    Pooled,
}

/// A store of a test's own; what it occupies goes when this is dropped.
pub struct StoreUnderTest {
    /// The store.
    pub store: Arc<dyn WorkflowEventStore>,
    /// Where its file is.
    #[allow(dead_code, reason = "it goes when this is dropped")]
    folder: Option<tempfile::TempDir>,
}

impl Flavour {
    /// Its name in reports, such as `sqlite/4`.
    #[must_use]
    pub fn name(self) -> String {
        let kind = match self.kind {
            Kind::Memory => "memory",
            Kind::Sqlite => "sqlite",
            Kind::Postgres => "postgres",
            Kind::Pooled => "pgbouncer",
        };
        if self.shards == 1 {
            kind.to_owned()
        } else {
            format!("{kind}/{}", self.shards)
        }
    }

    /// Opens a fresh, empty store.
    ///
    /// # Errors
    /// When it cannot be set up.
    pub async fn open(self) -> anyhow::Result<StoreUnderTest> {
        match self.kind {
            Kind::Memory => {
                let store = MemoryStore::with_shards(Shards::new(self.shards));
                Ok(StoreUnderTest {
                    store: Arc::new(store),
                    folder: None,
                })
            }
            Kind::Sqlite => {
                let folder = tempfile::tempdir()?;
                let options = SqliteOptions {
                    shards: Shards::new(self.shards),
                    ..SqliteOptions::default()
                };
                let database = Sqlite::open(folder.path().join("test.db"), options)?;
                let store = Arc::new(SqlStore::new(database));
                Ok(StoreUnderTest {
                    store,
                    folder: Some(folder),
                })
            }
            other => anyhow::bail!("{other:?} is not built yet"),
        }
    }
}
