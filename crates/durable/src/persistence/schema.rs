//! Migrations of whichever database a URL names.

use super::migrations::MigrationStatus;
use super::open::StoreUrl;
use super::{StoreError, StoreResult};

#[cfg(feature = "postgres")]
use super::postgres::{self, PostgresOptions};
#[cfg(feature = "sqlite")]
use super::sqlite;

/// Runs what is pending, safe at every start and by many at once; answers where every migration stands then.
///
/// # Errors
/// Those of opening the store, and [`StoreError::Schema`] for a database this build must not touch.
pub async fn up(url: &str) -> StoreResult<Vec<MigrationStatus>> {
    match StoreUrl::parse(url)? {
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(path) => sqlite::migrate::up(path.as_ref()),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => postgres::migrate_up(&url, &PostgresOptions::default()).await,
        other => Err(no_schema(&other)),
    }
}

/// Where every migration stands. Changes nothing.
///
/// # Errors
/// Those of opening the store.
pub async fn status(url: &str) -> StoreResult<Vec<MigrationStatus>> {
    match StoreUrl::parse(url)? {
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(path) => sqlite::migrate::status(path.as_ref()),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => {
            postgres::migration_status(&url, &PostgresOptions::default()).await
        }
        other => Err(no_schema(&other)),
    }
}

/// The statements of all migrations, for people who run them by hand. Opens nothing.
///
/// # Errors
/// Those of a URL that is not understood.
pub fn print(url: &str) -> StoreResult<String> {
    match StoreUrl::parse(url)? {
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(_) => Ok(sqlite::migrate::print()),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => postgres::print_of_url(&url),
        other => Err(no_schema(&other)),
    }
}

fn no_schema(url: &StoreUrl) -> StoreError {
    match url {
        StoreUrl::Memory => StoreError::open("memory: has no schema to migrate"),
        _ => StoreError::open("this build was made without that store; enable its feature"),
    }
}
