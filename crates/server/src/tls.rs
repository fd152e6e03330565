//! TLS for a door: rustls with ring.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that is not what it should be.
    #[error("{} is no {what} in PEM: {source}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Why not.
        source: rustls::pki_types::pem::Error,
    },
    /// A file without a certificate.
    #[error("{} holds no certificate", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A certificate, key or authority that cannot be used.
    #[error("the TLS files cannot be used: {0}")]
    Unusable(String),
}

/// Reads a certificate chain and its key; with an authority, clients must have a certificate of its making.
pub(crate) fn acceptor(
    cert: &Path,
    key: &Path,
    client_ca: Option<&Path>,
) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unusable = |error: &dyn std::error::Error| TlsError::Unusable(error.to_string());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| unusable(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| unusable(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Pem {
        path: key.to_owned(),
        what: "private key",
        source,
    })?;
    let mut config = builder
        .with_single_cert(certificates(cert)?, key)
        .map_err(|error| unusable(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |source| TlsError::Pem {
        path: path.to_owned(),
        what: "certificate",
        source,
    };
    let found = CertificateDer::pem_file_iter(path).map_err(wrong)?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(TlsError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(found)
}
