//! TLS to PostgreSQL, by libpq's settings and with their meaning.
//!
//! ```text
//!   URL, PGSSL*, ~/.postgresql ──► Settings ──► Connector ──► the driver's connections: pools, migrations, bell
//! ```

#[cfg(feature = "postgres-tls")]
mod binding;
#[cfg(feature = "postgres-tls")]
mod connector;
#[cfg(not(feature = "postgres-tls"))]
mod plain;
mod settings;
#[cfg(feature = "postgres-tls")]
mod verify;

#[cfg(feature = "postgres-tls")]
pub(super) use connector::Connector;
#[cfg(not(feature = "postgres-tls"))]
pub(super) use plain::Connector;
pub(super) use settings::{Given, Settings};
