//! A look at a database: is it set up so that nothing is lost, and does it keep up? Changes nothing.

use serde::Serialize;

use super::StoreResult;
use super::open::StoreUrl;

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `fsync` or `clock`.
    pub check: String,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found, and what to do where that is not as it should be.
    pub text: String,
}

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Works, and wants attention.
    Warn,
    /// Data or service is at risk.
    Bad,
}

impl Finding {
    /// What a look found.
    pub fn new(check: impl Into<String>, verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            verdict,
            text: text.into(),
        }
    }
}

/// Looks at the database that a URL names: its version, the settings that durability rests on, its clock against this machine's,
/// dead rows and free pages, transactions that hold the clean-up back.
///
/// # Errors
/// Those of reaching it. A SQLite file may be in use meanwhile.
pub async fn checkup(url: &str) -> StoreResult<Vec<Finding>> {
    match StoreUrl::parse(url)? {
        StoreUrl::Memory => Ok(vec![Finding::new(
            "store",
            Verdict::Warn,
            "memory: keeps nothing when its process ends",
        )]),
        #[cfg(feature = "sqlite")]
        StoreUrl::Sqlite(path) => super::sqlite::checkup(path.as_ref()),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(url) => super::postgres::checkup(&url).await,
        #[cfg(not(all(feature = "sqlite", feature = "postgres")))]
        _ => Err(super::StoreError::open(
            "this build was made without that store; enable its feature",
        )),
    }
}
