//! The store contract, carried out by a server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::bell::Belfry;
use super::calls::Door;
use super::connect::Connect;
use super::line::Line;
use super::tls::TlsTrouble;
use crate::persistence::{Shards, StoreError, StoreResult};
use crate::{Error, Result};

/// A server's store. Cheap to clone.
#[derive(Clone)]
pub struct RemoteStore {
    pub(super) line: Line,
    pub(super) belfry: Arc<Belfry>,
    pub(super) welcome: Welcome,
}

/// What a server says about its store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Welcome {
    pub(super) shards: Shards,
    pub(super) encodes_payloads: bool,
}

/// First pause before another attempt to connect; doubles up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl RemoteStore {
    /// Connects; waits a few seconds for a server that is not there yet ([`Connect::patience`]). To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::is_invalid`] for a URL, token or certificate that cannot be used; the store's where the server is not reached, does not let us
    /// in ([`StoreError::Denied`]) or is of another release ([`StoreError::Schema`]).
    pub async fn connect(connect: impl Into<Connect>) -> Result<Self> {
        let connect = connect.into();
        let connect = connect.in_environment(|name| std::env::var(name).ok())?;
        let mut line = Line::to(&connect)?;
        let deadline = Instant::now() + connect.patience_of();
        let mut pause = PAUSE_FIRST;
        let welcome = loop {
            let error = match line.introduce().await {
                Ok(welcome) => break welcome,
                Err(error) => error,
            };
            if !error.is_retryable() {
                return Err(error.into());
            }
            if Instant::now() + pause > deadline {
                return Err(unreached(&connect, error));
            }
            debug!(%error, "the server is not there yet");
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        };
        let shards = u16::try_from(welcome.shards).unwrap_or(u16::MAX);
        Ok(Self {
            line,
            belfry: Arc::default(),
            welcome: Welcome {
                shards: Shards::new(shards),
                encodes_payloads: welcome.encodes_payloads,
            },
        })
    }
}

impl RemoteStore {
    /// For those who host code: refuses a token that may not, which would be refused again with every claim.
    ///
    /// # Errors
    /// [`StoreError::Denied`].
    pub(crate) fn require_work(&self) -> StoreResult<()> {
        if self.line.is_open(Door::Work) {
            return Ok(());
        }
        Err(StoreError::Denied(
            "the token may not run workflows and activities; it takes one of the role worker or admin".to_owned(),
        ))
    }
}

/// What to do about it.
const fn mend(trouble: &TlsTrouble) -> &'static str {
    match trouble {
        TlsTrouble::Untrusted { .. } => {
            "name its authority: `Connect::ca_certificate`, --grpc-tls-ca or WORKER_GRPC_TLS_CA_CERT"
        }
        TlsTrouble::CertificateWanted | TlsTrouble::CertificateRefused { .. } => {
            "show one that it takes: `Connect::identity`, --grpc-tls-cert with --grpc-tls-key, or WORKER_GRPC_TLS_CERT with WORKER_GRPC_TLS_KEY"
        }
        TlsTrouble::Other { .. } => {
            "is this its gRPC address (7401, not the HTTP one), and does it speak TLS (https) or not (http)?"
        }
    }
}

fn unreached(connect: &Connect, error: StoreError) -> Error {
    // What stands before an @ may be a password.
    let url = connect.url();
    let shown = url.rsplit_once('@').map_or(url, |(_, host)| host);
    let message = match TlsTrouble::of(&error) {
        Some(trouble) => format!(
            "the server at {shown} is there, but {trouble}; {}",
            mend(&trouble)
        ),
        None => {
            // Its alert is lost where the connection was used before it came.
            let certificate = if connect.shows_no_certificate() {
                " A server that wants to see a client certificate hangs up, too: --grpc-tls-cert with --grpc-tls-key."
            } else {
                ""
            };
            format!(
                "no server answers at {shown} within {:?}; is it running, and is this its gRPC address (7401, not the HTTP one)?{certificate}",
                connect.patience_of()
            )
        }
    };
    Error::from(StoreError::Open {
        message,
        source: Some(error.into()),
    })
}
