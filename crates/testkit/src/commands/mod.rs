//! One command per file.

pub(crate) mod audit;
pub(crate) mod conformance;
pub(crate) mod differential;
pub(crate) mod faults;
pub(crate) mod prove;
pub(crate) mod sim;
pub(crate) mod upgrade;
pub(crate) mod worker;

use anyhow::bail;
use durable_testkit::flavour::Kind;

/// The store of a name, as the reports write it.
fn kind(name: &str) -> anyhow::Result<Kind> {
    Ok(match name {
        "memory" => Kind::Memory,
        "sqlite" => Kind::Sqlite,
        "postgres" => Kind::Postgres,
        "pgbouncer" => Kind::Pooled,
        other => {
            bail!("no store is called {other:?}; there are memory, sqlite, postgres and pgbouncer")
        }
    })
}
