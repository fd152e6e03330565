//! A build without TLS.

use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{NoTls, Socket, tls::MakeTlsConnect};

use super::settings::{Mode, Settings};
use crate::persistence::StoreError;

/// Makes connections without TLS.
#[derive(Debug, Clone)]
pub(in super::super) struct Connector(NoTls);

impl Connector {
    /// # Errors
    /// [`StoreError::Open`] when TLS is asked for.
    pub(in super::super) fn new(settings: &Settings) -> Result<Self, StoreError> {
        if settings.mode > Mode::Prefer {
            return Err(StoreError::open(
                "the URL or PGSSLMODE asks for TLS, and this build was made without it: enable the feature postgres-tls",
            ));
        }
        Ok(Self(NoTls))
    }
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = NoTlsStream;
    type TlsConnect = NoTls;
    type Error = tokio_postgres::tls::NoTlsError;

    fn make_tls_connect(&mut self, host: &str) -> Result<NoTls, Self::Error> {
        MakeTlsConnect::<Socket>::make_tls_connect(&mut self.0, host)
    }
}
