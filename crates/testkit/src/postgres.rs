//! A database of a test's own, copied from a migrated template, on the server that the test command has started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use everruns_durable::persistence::postgres::{PoolConfig, Postgres, PostgresOptions};
use everruns_durable::persistence::sql::SqlStore;
use everruns_durable::persistence::{Shards, WorkflowEventStore};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

const SERVER: &str = "DURABLE_TEST_POSTGRES_URL";
const POOLER: &str = "DURABLE_TEST_PGBOUNCER_URL";

/// One template at a time is made, whichever thread asks first.
static TEMPLATES: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A database of a test's own.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
}

impl TestDatabase {
    /// Copies the migrated template; makes that first if there is none yet.
    ///
    /// # Errors
    /// When there is no server: tests that need one are run by `cargo xtask test`.
    pub async fn create(shards: Shards) -> anyhow::Result<Self> {
        let template = template(shards).await?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("durable_test_{}_{number}", std::process::id());
        execute_patiently(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await?;
        Ok(Self { name })
    }

    /// An empty database, for a test that loads a dump into it.
    ///
    /// # Errors
    /// When there is no server.
    pub async fn empty() -> anyhow::Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("durable_test_{}_{number}", std::process::id());
        execute_patiently(&format!("CREATE DATABASE {name}")).await?;
        Ok(Self { name })
    }

    /// URL of the database, past the pooler.
    ///
    /// # Errors
    /// When there is no server.
    pub fn url(&self) -> anyhow::Result<String> {
        with_database(SERVER, &self.name)
    }

    /// Opens it as a store, through the pooler or directly.
    ///
    /// # Errors
    /// When that fails.
    pub async fn open(&self, pooled: bool) -> anyhow::Result<Arc<dyn WorkflowEventStore>> {
        let url = if pooled {
            with_database(POOLER, &self.name)?
        } else {
            self.url()?
        };
        let direct_url = pooled.then(|| self.url()).transpose()?;
        let options = PostgresOptions {
            pooled,
            direct_url,
            pools: small_pools(),
            ..PostgresOptions::default()
        };
        Ok(Arc::new(SqlStore::new(
            Postgres::open(&url, options).await?,
        )))
    }

    /// Removes it; whoever is still connected is cut off.
    pub async fn remove(self) {
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // The server is thrown away anyway; what stays behind only takes room until then.
        let _ = execute(&statement).await;
    }
}

/// Opens a database as one of several processes: a few connections are enough.
///
/// # Errors
/// When that fails.
pub async fn open_url(url: &str) -> anyhow::Result<Arc<dyn WorkflowEventStore>> {
    let options = PostgresOptions {
        pools: small_pools(),
        ..PostgresOptions::default()
    };
    Ok(Arc::new(SqlStore::new(Postgres::open(url, options).await?)))
}

/// Tests run side by side, each with its own pools: a few connections each are enough.
fn small_pools() -> PoolConfig {
    PoolConfig {
        task_pool_size: 6,
        event_pool_size: 10,
        result_pool_size: 2,
        registry_pool_size: 4,
        ..PoolConfig::default()
    }
}

/// The migrated template for this number of shards and this process.
async fn template(shards: Shards) -> anyhow::Result<String> {
    let _guard = TEMPLATES.lock().await;
    let name = format!("durable_template_{}_{}", std::process::id(), shards.count());
    let client = connect().await?;
    let found = client
        .query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&name])
        .await?;
    if found.is_some() {
        return Ok(name);
    }
    let draft = format!("{name}_draft");
    client
        .batch_execute(&format!("CREATE DATABASE {draft}"))
        .await?;
    let options = PostgresOptions {
        shards,
        pools: small_pools(),
        ..PostgresOptions::default()
    };
    drop(Postgres::open(&with_database(SERVER, &draft)?, options).await?);
    // Renamed only when it is complete: another process never sees half a template.
    execute_patiently(&format!("ALTER DATABASE {draft} RENAME TO {name}")).await?;
    Ok(name)
}

/// Tries again while a connection that was just closed is still being noticed by the server.
async fn execute_patiently(statement: &str) -> anyhow::Result<()> {
    for _ in 0..200 {
        match execute(statement).await {
            Err(error) if is_in_use(&error) => tokio::time::sleep(Duration::from_millis(25)).await,
            result => return result,
        }
    }
    anyhow::bail!("{statement}: the database stays in use")
}

fn is_in_use(error: &anyhow::Error) -> bool {
    let cause = error
        .downcast_ref::<tokio_postgres::Error>()
        .and_then(tokio_postgres::Error::code);
    cause == Some(&SqlState::OBJECT_IN_USE)
}

async fn execute(statement: &str) -> anyhow::Result<()> {
    Ok(connect().await?.batch_execute(statement).await?)
}

async fn connect() -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(&variable(SERVER)?, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The server's URL with another database in it.
fn with_database(server: &str, name: &str) -> anyhow::Result<String> {
    let url = variable(server)?;
    let base = url
        .rsplit_once('/')
        .map(|(base, _)| base)
        .context("a URL with a database")?;
    Ok(format!("{base}/{name}"))
}

fn variable(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| {
        format!("{name} is not set: tests that need PostgreSQL are run by `cargo xtask test` (or `cargo xtask pg -- cargo test …`)")
    })
}
