//! A database of a measurement's own, so that no job finds what another left behind, and nobody's data is touched.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use everruns_durable::persistence::StoreUrl;
use tokio_postgres::Client;

use crate::raw;

/// Which kind of store a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `memory:`.
    Memory,
    /// `sqlite:PATH`.
    Sqlite,
    /// `postgres://…`.
    Postgres,
}

impl Kind {
    /// Its name in figures.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Where databases are made.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    url: String,
    at: StoreUrl,
    in_place: bool,
}

/// A database of a measurement's own.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    /// What opens it.
    pub(crate) url: String,
    /// Its kind.
    pub(crate) kind: Kind,
    rubbish: Rubbish,
}

/// What has to be removed afterwards.
#[derive(Debug, Clone)]
enum Rubbish {
    Nothing,
    File(PathBuf),
    PgDatabase { server: String, name: String },
}

/// Numbers the databases of this process.
static MADE: AtomicU32 = AtomicU32::new(0);

impl Place {
    /// Reads the URL.
    pub(crate) fn new(url: &str, in_place: bool) -> anyhow::Result<Self> {
        Ok(Self {
            at: StoreUrl::parse(url)?,
            url: url.to_owned(),
            in_place,
        })
    }

    /// Which kind of store it is.
    pub(crate) const fn kind(&self) -> Kind {
        match self.at {
            StoreUrl::Memory => Kind::Memory,
            StoreUrl::Sqlite(_) => Kind::Sqlite,
            StoreUrl::Postgres(_) => Kind::Postgres,
        }
    }

    /// A new, empty database; with `--in-place` the named one as it is.
    pub(crate) async fn make(&self) -> anyhow::Result<Database> {
        let own = |url: String, rubbish| Database {
            url,
            kind: self.kind(),
            rubbish,
        };
        if self.in_place {
            return Ok(own(self.url.clone(), Rubbish::Nothing));
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("durable_bench_{}_{number}", std::process::id());
        match &self.at {
            StoreUrl::Memory => Ok(own(self.url.clone(), Rubbish::Nothing)),
            StoreUrl::Sqlite(path) => {
                let path = format!("{path}.{name}");
                Ok(own(format!("sqlite:{path}"), Rubbish::File(path.into())))
            }
            StoreUrl::Postgres(server) => {
                let admin = raw::connect(server).await?;
                // The name is ours: letters, digits, underscores.
                let create = format!("CREATE DATABASE {name}");
                admin.batch_execute(&create).await.context(
                    "no database of the benchmark's own could be made; use a role that may create databases, or --in-place",
                )?;
                let url = with_database(server, &name)?;
                let server = server.clone();
                Ok(own(url, Rubbish::PgDatabase { server, name }))
            }
        }
    }
}

impl Database {
    /// A connection that the measured database does not count as its own: to the server it is on, for its statistics.
    pub(crate) async fn beside(&self) -> anyhow::Result<Option<Client>> {
        match &self.rubbish {
            Rubbish::PgDatabase { server, .. } => Ok(Some(raw::connect(server).await?)),
            Rubbish::Nothing if self.kind == Kind::Postgres => {
                Ok(Some(raw::connect(&self.url).await?))
            }
            _ => Ok(None),
        }
    }

    /// Puts what was written in order, as it would be in a database where it has come together over time: otherwise the housekeeping that a
    /// million rows at once leave behind (autovacuum, a checkpoint) is measured with whatever comes next.
    pub(crate) async fn settle(&self) -> anyhow::Result<()> {
        if self.kind == Kind::Postgres {
            let client = raw::connect(&self.url).await?;
            for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
                let settled = client.batch_execute(statement).await;
                settled.with_context(|| format!("{statement} failed"))?;
            }
        }
        Ok(())
    }

    /// The path of a SQLite database.
    pub(crate) fn path(&self) -> Option<&str> {
        self.url.strip_prefix("sqlite:")
    }

    /// Removes it, whoever is still connected.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        match self.rubbish {
            Rubbish::Nothing => {}
            Rubbish::File(path) => {
                for end in ["", "-wal", "-shm", ".lock"] {
                    let mut file = path.clone().into_os_string();
                    file.push(end);
                    match std::fs::remove_file(file) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            return Err(error).context("a database file could not be removed");
                        }
                        _ => {}
                    }
                }
            }
            Rubbish::PgDatabase { server, name } => {
                let admin = raw::connect(&server).await?;
                let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                let dropped = admin.batch_execute(&drop).await;
                dropped.with_context(|| format!("database {name} could not be removed"))?;
            }
        }
        Ok(())
    }
}

/// The same server, another database.
fn with_database(url: &str, name: &str) -> anyhow::Result<String> {
    let (scheme, rest) = url.split_once("://").context("the URL has no host")?;
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, format!("?{query}")),
        None => (rest, String::new()),
    };
    let host = place.split('/').next().unwrap_or(place);
    Ok(format!("{scheme}://{host}/{name}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_replaced() {
        let cases = [
            (
                "postgres://u@h:1/old?sslmode=disable",
                "postgres://u@h:1/new?sslmode=disable",
            ),
            ("postgresql://u:p%2F@h/old", "postgresql://u:p%2F@h/new"),
            ("postgres://h", "postgres://h/new"),
        ];
        for (from, to) in cases {
            assert_eq!(with_database(from, "new").expect("a URL"), to);
        }
    }

    #[tokio::test]
    async fn a_file_is_beside_the_named_one_and_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("named.db").display());
        let place = Place::new(&url, false).expect("a URL");
        let (one, other) = (
            place.make().await.expect("made"),
            place.make().await.expect("made"),
        );
        assert_ne!(one.url, other.url);
        let path = one.path().expect("a path").to_owned();
        std::fs::write(&path, "x").expect("written");
        one.remove().await.expect("removed");
        assert!(!std::path::Path::new(&path).exists());
    }
}
