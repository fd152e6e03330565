//! One URL opens any store.

use std::sync::Arc;

use super::memory::MemoryStore;
use super::{Shards, StoreError, StoreResult, WorkflowEventStore};
use crate::codec::{CodecStore, PayloadCodec};

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Shards of a database that is created by this; one that exists keeps its own.
    pub shards: Shards,
    /// Whether pending migrations are run first; otherwise a schema that is not up to date is an error.
    pub migrate: bool,
    /// What encodes payloads before they are stored, and decodes them; see [`crate::codec`].
    pub codec: Option<Arc<dyn PayloadCodec>>,
}

impl OpenOptions {
    /// The same with a codec.
    #[must_use]
    pub fn with_codec(mut self, codec: impl PayloadCodec) -> Self {
        self.codec = Some(Arc::new(codec));
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            shards: Shards::default(),
            migrate: true,
            codec: None,
        }
    }
}

/// Where a URL points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `memory:`.
    Memory,
    /// `sqlite:PATH`.
    Sqlite(String),
    /// `postgres://…` or `postgresql://…`, whole.
    Postgres(String),
}

impl StoreUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`StoreError::Open`], which says what is understood.
    pub fn parse(url: &str) -> StoreResult<Self> {
        match url.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("sqlite", path)) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                if path.is_empty() {
                    return Err(StoreError::open(
                        "sqlite: lacks a path; write sqlite:durable.db or sqlite:/var/lib/durable.db",
                    ));
                }
                Ok(Self::Sqlite(path.to_owned()))
            }
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Self::Postgres(url.to_owned()))
            }
            // The rest of the URL is not repeated: it may hold a password.
            Some((scheme, _)) => Err(StoreError::open(format!(
                "{scheme}: is not a store this build knows; use memory:, sqlite:PATH or postgres://USER@HOST/DATABASE"
            ))),
            None => Err(StoreError::open(
                "the URL has no scheme; use memory:, sqlite:PATH or postgres://USER@HOST/DATABASE",
            )),
        }
    }
}

/// Opens the store that a URL names: `memory:`, `sqlite:PATH` or `postgres://USER@HOST/DATABASE`.
///
/// # Errors
/// [`StoreError::Open`] when the URL is not understood, the server cannot be reached or the file cannot be used;
/// [`StoreError::Schema`] when the database is newer than this build, or behind it and `migrate` is off.
pub async fn open(url: &str, options: OpenOptions) -> StoreResult<Arc<dyn WorkflowEventStore>> {
    let codec = options.codec.clone();
    let store = open_plain(url, options).await?;
    Ok(match codec {
        Some(codec) => Arc::new(CodecStore::new(store, codec)),
        None => store,
    })
}

async fn open_plain(url: &str, options: OpenOptions) -> StoreResult<Arc<dyn WorkflowEventStore>> {
    match StoreUrl::parse(url)? {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::with_shards(options.shards))),
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(path) => {
            use super::sqlite::{Sqlite, SqliteOptions};
            let OpenOptions {
                shards, migrate, ..
            } = options;
            let options = SqliteOptions {
                shards,
                migrate,
                ..SqliteOptions::default()
            };
            let database = Sqlite::open(path, options)?;
            Ok(Arc::new(super::sql::SqlStore::new(database)))
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => {
            use super::postgres::{Postgres, PostgresOptions};
            let OpenOptions {
                shards, migrate, ..
            } = options;
            let options = PostgresOptions {
                shards,
                migrate,
                ..PostgresOptions::default()
            };
            let database = Postgres::open(&url, options).await?;
            Ok(Arc::new(super::sql::SqlStore::new(database)))
        }
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        other => Err(StoreError::open(format!(
            "this build was made without {other:?}; enable the feature of that name"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_understood_or_explained() {
        assert_eq!(StoreUrl::parse("memory:").unwrap(), StoreUrl::Memory);
        assert_eq!(
            StoreUrl::parse("sqlite:a.db").unwrap(),
            StoreUrl::Sqlite("a.db".into())
        );
        assert_eq!(
            StoreUrl::parse("sqlite:///a.db").unwrap(),
            StoreUrl::Sqlite("/a.db".into())
        );
        let url = "postgres://u:p@h/d";
        assert_eq!(
            StoreUrl::parse(url).unwrap(),
            StoreUrl::Postgres(url.into())
        );
        for bad in [
            "",
            "durable.db",
            "mysql://u:secret@h/d",
            "sqlite:",
            "postgres:x",
            "memory:x",
        ] {
            let error = StoreUrl::parse(bad).unwrap_err().to_string();
            assert!(error.contains("sqlite:"), "{bad}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
