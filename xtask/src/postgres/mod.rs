//! PostgreSQL and PgBouncer for tests: found or installed, private, thrown away.

mod account;
mod binaries;
mod cluster;
mod home;
mod install;
mod pooler;
mod port;
mod stale;

use std::{env, process::Command};

use anyhow::bail;

use crate::workspace::Workspace;
use cluster::Cluster;
use home::Instance;
use pooler::Pooler;

/// The variable that tells tests where the PostgreSQL server is.
pub(crate) const POSTGRES_URL: &str = "DURABLE_TEST_POSTGRES_URL";
/// The variable that tells tests where the pooler in front of it is.
pub(crate) const PGBOUNCER_URL: &str = "DURABLE_TEST_PGBOUNCER_URL";

/// What a crash of the machine may cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing is flushed: right for tests, which only ever kill processes.
    Volatile,
    /// Every commit is flushed: right for benchmarks.
    Flushed,
}

/// A PostgreSQL server and a pooler in front of it, for as long as this value lives.
pub(crate) struct Servers {
    postgres_url: String,
    pgbouncer_url: String,
    /// None when the caller's environment names servers that are not ours to stop.
    private: Option<Private>,
}

/// Dropped in this order: the pooler, its server, then their files.
struct Private {
    pooler: Pooler,
    cluster: Cluster,
    instance: Instance,
}

impl Servers {
    /// Takes the servers that the environment names, or starts private ones.
    pub(crate) fn open(workspace: &Workspace, durability: Durability) -> anyhow::Result<Self> {
        match (named(POSTGRES_URL), named(PGBOUNCER_URL)) {
            (Some(postgres_url), Some(pgbouncer_url)) => {
                println!("postgres: using the servers named by {POSTGRES_URL} and {PGBOUNCER_URL}");
                Ok(Self {
                    postgres_url,
                    pgbouncer_url,
                    private: None,
                })
            }
            (None, None) => Self::start(workspace, durability),
            _ => bail!(
                "set both {POSTGRES_URL} and {PGBOUNCER_URL}, or neither to get private servers"
            ),
        }
    }

    fn start(workspace: &Workspace, durability: Durability) -> anyhow::Result<Self> {
        let binaries = install::find_or_install()?;
        let account = account::Account::for_servers()?;
        let instance = Instance::create(workspace.target(), &account)?;
        let cluster = Cluster::start(&binaries, &account, instance.path(), durability)?;
        let pooler = Pooler::start(&binaries, &account, instance.path(), cluster.port())?;
        println!(
            "postgres: {} on port {}, pgbouncer on port {}, files in {}",
            binaries.version,
            cluster.port(),
            pooler.port(),
            instance.path().display()
        );
        Ok(Self {
            postgres_url: url(cluster.port()),
            pgbouncer_url: url(pooler.port()),
            private: Some(Private {
                pooler,
                cluster,
                instance,
            }),
        })
    }

    /// Tells a command where the servers are.
    pub(crate) fn export(&self, command: &mut Command) {
        command
            .env(POSTGRES_URL, &self.postgres_url)
            .env(PGBOUNCER_URL, &self.pgbouncer_url);
    }

    /// Tells libpq programs too, so that a bare `psql` connects to the private server.
    pub(crate) fn export_for_libpq(&self, command: &mut Command) -> anyhow::Result<()> {
        let Some(private) = &self.private else {
            return Ok(());
        };
        let mut path = vec![private.cluster.bin().to_owned()];
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        command
            .env("PATH", env::join_paths(path)?)
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", private.cluster.port().to_string())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres");
        Ok(())
    }

    /// Leaves the private servers running; the next command that starts some removes them.
    pub(crate) fn keep(self) {
        let Some(private) = self.private else { return };
        let files = private.instance.keep();
        let pooler = private.pooler.keep();
        let cluster = private.cluster.keep();
        println!("postgres: kept running until the next `cargo xtask` that starts one");
        println!("  {POSTGRES_URL}={} (process {cluster})", self.postgres_url);
        println!(
            "  {PGBOUNCER_URL}={} (process {pooler})",
            self.pgbouncer_url
        );
        println!("  logs in {}", files.display());
    }
}

fn named(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|url| !url.is_empty())
}

fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}
