//! The stores under test: each fresh, empty and a test's own.

use std::sync::Arc;

use everruns_durable::codec::CodecStore;
use everruns_durable::persistence::memory::MemoryStore;
use everruns_durable::persistence::sql::SqlStore;
use everruns_durable::persistence::sqlite::{Sqlite, SqliteOptions};
use everruns_durable::persistence::{Shards, WorkflowEventStore};

use crate::postgres::TestDatabase;
use crate::scrambler::Scrambler;

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
    /// In memory, behind a codec.
    Coded,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Sqlite,
        Self::Postgres,
        Self::Pooled,
        Self::Coded,
    ];

    /// Its name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Pooled => "pgbouncer",
            Self::Coded => "coded",
        }
    }

    /// Reads the name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A store of a test's own.
pub struct StoreUnderTest {
    /// The store.
    pub store: Arc<dyn WorkflowEventStore>,
    place: Place,
}

/// What the store occupies.
enum Place {
    Nothing,
    /// Goes when this is dropped.
    Folder {
        _folder: tempfile::TempDir,
    },
    /// Goes by [`StoreUnderTest::close`].
    Database(TestDatabase),
}

impl StoreUnderTest {
    /// Gives back what the store occupies. A test that fails leaves it behind, for whoever looks why; the test command's
    /// server is thrown away as a whole.
    pub async fn close(self) {
        drop(self.store);
        if let Place::Database(database) = self.place {
            database.remove().await;
        }
    }
}

impl Flavour {
    /// Its name in reports, such as `sqlite/4`.
    #[must_use]
    pub fn name(self) -> String {
        let kind = self.kind.name();
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
        let shards = Shards::new(self.shards);
        match self.kind {
            Kind::Memory => {
                let store = Arc::new(MemoryStore::with_shards(shards));
                Ok(StoreUnderTest {
                    store,
                    place: Place::Nothing,
                })
            }
            Kind::Coded => {
                let memory = Arc::new(MemoryStore::with_shards(shards));
                let store = CodecStore::new(memory, Arc::new(Scrambler::default()));
                Ok(StoreUnderTest {
                    store: Arc::new(store),
                    place: Place::Nothing,
                })
            }
            Kind::Sqlite => {
                let folder = scratch_folder()?;
                let options = SqliteOptions {
                    shards,
                    ..SqliteOptions::default()
                };
                let database = Sqlite::open(folder.path().join("test.db"), options)?;
                let store = Arc::new(SqlStore::new(database));
                Ok(StoreUnderTest {
                    store,
                    place: Place::Folder { _folder: folder },
                })
            }
            Kind::Postgres | Kind::Pooled => {
                let database = TestDatabase::create(shards).await?;
                let store = database.open(self.kind == Kind::Pooled).await?;
                Ok(StoreUnderTest {
                    store,
                    place: Place::Database(database),
                })
            }
        }
    }
}

/// A folder in memory where there is one: these suites are about what is stored, not about disks; the tests that kill
/// processes use real files.
fn scratch_folder() -> std::io::Result<tempfile::TempDir> {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    }
}
