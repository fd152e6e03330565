//! Makes connections with TLS, by rustls.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as Stream;

use super::binding::end_point;
use super::settings::{Identity, Mode, Roots, Settings};
use super::verify::{Check, Trusted, Verifier};
use crate::persistence::StoreError;

/// Makes connections with TLS.
#[derive(Clone)]
pub(in super::super) struct Connector(Arc<ClientConfig>);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// [`StoreError::Open`] for a file that cannot be used, with its name.
    pub(in super::super) fn new(settings: &Settings) -> Result<Self, StoreError> {
        // This one and not the process's: another part of it may have chosen none.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier {
            check: check(settings, &provider)?,
            provider: Arc::clone(&provider),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("TLS", &error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &settings.identity {
            None => config.with_no_client_auth(),
            Some(Identity { cert, key }) => {
                check_private(key)?;
                let read =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
                config
                    .with_client_auth_cert(certificates(cert)?, read)
                    .map_err(|error| unusable(cert, &error))?
            }
        };
        // What PostgreSQL 17 asks for, and older ones leave alone.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

fn check(settings: &Settings, provider: &Arc<CryptoProvider>) -> Result<Check, StoreError> {
    let Some(roots) = &settings.roots else {
        return Ok(Check::Nothing);
    };
    let roots = match roots {
        Roots::File(file) => certificates(file)?,
        Roots::System => rustls_native_certs::load_native_certs().certs,
    };
    let mut store = RootCertStore::empty();
    // The system's may hold odd ones, which are of no use and do no harm.
    let (taken, _) = store.add_parsable_certificates(roots.iter().cloned());
    if taken == 0 {
        return Err(StoreError::open(
            "sslrootcert holds no certificate of an authority that can be used",
        ));
    }
    let by_chain =
        WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
            .build()
            .map_err(|error| unusable("sslrootcert", &error))?;
    let trusted = Trusted { by_chain, roots };
    Ok(if settings.mode == Mode::VerifyFull {
        Check::AuthorityAndName(trusted)
    } else {
        Check::Authority(trusted)
    })
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(unusable(file, &"it holds no certificate (PEM)")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(file, &error)),
    }
}

/// As libpq has it: a key that others may read is none.
#[cfg(unix)]
fn check_private(key: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::MetadataExt as _;
    let about = std::fs::metadata(key).map_err(|error| unusable(key, &error))?;
    // One that root owns may be read by a group.
    let others = if about.uid() == 0 { 0o037 } else { 0o077 };
    if about.mode() & others != 0 {
        let problem = "others may read the key; run chmod 600 on it";
        return Err(unusable(key, &problem));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

fn unusable(what: impl AsRef<Path>, why: &dyn fmt::Display) -> StoreError {
    StoreError::open(format!(
        "{} cannot be used for TLS: {why}",
        what.as_ref().display()
    ))
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = io::Error;

    /// The host is empty for a Unix socket, over which the server speaks no TLS.
    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake {
            connector: TlsConnector::from(Arc::clone(&self.0)),
            host: ServerName::try_from(host.to_owned()).ok(),
        })
    }
}

/// One connection to be.
pub(in super::super) struct Handshake {
    connector: TlsConnector,
    host: Option<ServerName<'static>>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let host = self.host.ok_or_else(|| {
                io::Error::other("the host's name is none that a certificate can have")
            })?;
            let stream = self.connector.connect(host, socket).await?;
            Ok(Encrypted(Box::new(stream)))
        })
    }
}

/// A connection with TLS.
pub(in super::super) struct Encrypted(Box<Stream<Socket>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        certificate
            .and_then(|certificate| end_point(certificate))
            .map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
