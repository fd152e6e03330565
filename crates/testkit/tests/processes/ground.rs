//! What a test stands on.

use durable_testkit::audit::audit;
use durable_testkit::postgres::TestDatabase;
use durable_testkit::process::{Effects, WorkerProcess, open_store};
use everruns_durable::Client;
use everruns_durable::persistence::Shards;
use tempfile::TempDir;

/// A worker that gives no sign for so long has lost its work to others: short, since the tests wait for it.
pub(crate) const SHORT_LEASE: [&str; 2] = ["--lease-ms", "1500"];

/// A database and a file for effects, both a test's own.
pub(crate) struct Ground {
    pub(crate) url: String,
    pub(crate) effects: Effects,
    database: Option<TestDatabase>,
    _folder: TempDir,
}

impl Ground {
    pub(crate) async fn postgres() -> anyhow::Result<Self> {
        let database = TestDatabase::create(Shards::new(1)).await?;
        let folder = tempfile::tempdir()?;
        Ok(Self {
            url: database.url()?,
            effects: Effects::at(folder.path().join("effects")),
            database: Some(database),
            _folder: folder,
        })
    }

    /// A file on a real disk: what is killed here must find again what it was told was stored.
    pub(crate) fn sqlite() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        Ok(Self {
            url: format!("sqlite:{}", folder.path().join("durable.db").display()),
            effects: Effects::at(folder.path().join("effects")),
            database: None,
            _folder: folder,
        })
    }

    /// A database with what a dump of an older build holds.
    pub(crate) async fn postgres_from(dump: &str) -> anyhow::Result<Self> {
        let database = TestDatabase::empty().await?;
        let url = database.url()?;
        let folder = tempfile::tempdir()?;
        let ground = Self {
            url,
            effects: Effects::at(folder.path().join("effects")),
            database: Some(database),
            _folder: folder,
        };
        ground.sql().await?.batch_execute(dump).await?;
        Ok(ground)
    }

    /// A connection past the store.
    pub(crate) async fn sql(&self) -> anyhow::Result<tokio_postgres::Client> {
        let (client, connection) =
            tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// A file with what a dump of an older build holds.
    pub(crate) fn sqlite_from(dump: &str) -> anyhow::Result<Self> {
        let ground = Self::sqlite()?;
        let path = ground.url.trim_start_matches("sqlite:");
        rusqlite::Connection::open(path)?.execute_batch(dump)?;
        Ok(ground)
    }

    pub(crate) async fn worker(&self, flags: &[&[&str]]) -> anyhow::Result<WorkerProcess> {
        let program = env!("CARGO_BIN_EXE_durable-testkit");
        WorkerProcess::start(program, &self.url, &self.effects, &flags.concat()).await
    }

    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::on(open_store(&self.url).await?))
    }

    /// Checks the invariants and gives back what the test occupied.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let report = audit(&*open_store(&self.url).await?, None).await?;
        assert!(report.is_clean(), "{report}");
        if let Some(database) = self.database {
            database.remove().await;
        }
        Ok(())
    }
}
