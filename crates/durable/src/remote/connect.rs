//! Where a server is, and how it knows us.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::{Error, Result};

/// How to connect to a server: [`Engine::connect`](crate::Engine::connect) and [`Client::connect`](crate::Client::connect) take one, or
/// just the URL.
///
/// What is not said here comes from the environment: the token from `WORKER_GRPC_AUTH_TOKEN`, or the file that `WORKER_GRPC_AUTH_TOKEN_FILE`
/// names; the certificates, as paths of PEM files, from `WORKER_GRPC_TLS_CA_CERT` (whom to trust), `WORKER_GRPC_TLS_CERT` and
/// `WORKER_GRPC_TLS_KEY` (who we are).
#[derive(Clone)]
pub struct Connect {
    url: String,
    token: Option<String>,
    ca: Option<Vec<u8>>,
    identity: Option<Identity>,
    patience: Duration,
}

/// A certificate and its key, both PEM: who a client is (mTLS).
#[derive(Clone)]
pub struct Identity {
    /// The certificate, with those above it.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// How long a start waits for a server that is not there yet.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection on which nothing comes is asked for a sign so often, and given up when none comes for as long.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

impl Connect {
    /// The server's gRPC address: `http://127.0.0.1:7401`, or `https://…`.
    pub fn to(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            ca: None,
            identity: None,
            patience: PATIENCE,
        }
    }

    /// The bearer token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Trusts servers with a certificate of this authority (PEM), instead of those that the system trusts.
    #[must_use]
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Shows this certificate to the server.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// For how long a start tries to reach a server that is not there yet; 5 s unless said.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Whether a server that asks for a certificate would be shown none.
    pub(super) fn shows_no_certificate(&self) -> bool {
        self.url.starts_with("https://") && self.identity.is_none()
    }

    pub(super) const fn patience_of(&self) -> Duration {
        self.patience
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The same, with what the environment says where nothing was said.
    pub(super) fn in_environment(mut self, read: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let read = |name: &str| read(name).filter(|value| !value.is_empty());
        if self.token.is_none() {
            self.token = token(read)?;
        }
        let file = |name: &str| match read(name) {
            Some(path) => file(name, Path::new(&path)).map(Some),
            None => Ok(None),
        };
        if self.ca.is_none() {
            self.ca = file("WORKER_GRPC_TLS_CA_CERT")?;
        }
        if self.identity.is_none() {
            let certificate = file("WORKER_GRPC_TLS_CERT")?;
            let key = file("WORKER_GRPC_TLS_KEY")?;
            self.identity = match (certificate, key) {
                (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
                (None, None) => None,
                _ => {
                    return Err(Error::configuration(
                        "WORKER_GRPC_TLS_CERT and WORKER_GRPC_TLS_KEY belong together: set both or none",
                    ));
                }
            };
        }
        Ok(self)
    }

    /// Everything but the connection itself.
    pub(super) fn endpoint(&self) -> Result<Endpoint> {
        let wrong = |problem: String| {
            Error::configuration(format!(
                "{problem}; write http://HOST:7401 or https://HOST:7401"
            ))
        };
        let secure = match self.url.split_once("://") {
            Some(("http", _)) => false,
            Some(("https", _)) => true,
            // Not repeated: it may hold a password.
            Some((scheme, _)) => return Err(wrong(format!("{scheme}:// is no server's URL"))),
            None => return Err(wrong("the server's URL has no scheme".to_owned())),
        };
        let endpoint = Endpoint::from_shared(self.url.clone())
            .map_err(|error| wrong(format!("the server's URL cannot be read: {error}")))?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        if !secure {
            return Ok(endpoint);
        }
        let mut tls = match &self.ca {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some(Identity { certificate, key }) = &self.identity {
            tls = tls.identity(tonic::transport::Identity::from_pem(certificate, key));
        }
        endpoint.tls_config(tls).map_err(|error| {
            Error::configuration(format!("the TLS certificates cannot be used: {error}"))
        })
    }

    /// The header that shows the token.
    pub(super) fn authorization(&self) -> Result<Option<MetadataValue<Ascii>>> {
        let Some(token) = &self.token else {
            return Ok(None);
        };
        let header = format!("Bearer {token}").parse::<MetadataValue<Ascii>>();
        let mut header = header.map_err(|_| {
            Error::configuration(
                "the token holds characters that no header can: is it the right file?",
            )
        })?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

/// The token of the environment: the variable's, or its file's without the line's end that editors leave.
fn token(read: impl Fn(&str) -> Option<String>) -> Result<Option<String>> {
    const DIRECT: &str = "WORKER_GRPC_AUTH_TOKEN";
    const BY_FILE: &str = "WORKER_GRPC_AUTH_TOKEN_FILE";
    match (read(DIRECT), read(BY_FILE)) {
        (Some(_), Some(_)) => Err(Error::configuration(format!(
            "{DIRECT} and {BY_FILE} are both set; unset one of them"
        ))),
        (Some(token), None) => Ok(Some(token)),
        (None, Some(path)) => {
            let text = String::from_utf8(file(BY_FILE, Path::new(&path))?).map_err(|_| {
                Error::configuration(format!(
                    "{BY_FILE}: {path} is no text: is it the right file?"
                ))
            })?;
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
        (None, None) => Ok(None),
    }
}

fn file(variable: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        let path = path.display();
        Error::configuration(format!("{variable}: {path} cannot be read: {error}"))
    })
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without token and key.
        f.debug_struct("Connect")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl From<&str> for Connect {
    fn from(url: &str) -> Self {
        Self::to(url)
    }
}

impl From<String> for Connect {
    fn from(url: String) -> Self {
        Self::to(url)
    }
}

impl From<&String> for Connect {
    fn from(url: &String) -> Self {
        Self::to(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_none_is_explained_and_not_repeated() {
        for bad in [
            "localhost:7401",
            "postgres://u:secret@h/d",
            "http://",
            "http://a b",
        ] {
            let error = Connect::to(bad).endpoint().expect_err(bad);
            assert!(error.is_invalid(), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("http://HOST:7401") && !text.contains("secret"),
                "{text}"
            );
        }
        assert!(Connect::to("http://127.0.0.1:7401").endpoint().is_ok());
    }

    #[test]
    fn the_environment_holds_where_nothing_was_said() {
        let read = |name: &str| (name == "WORKER_GRPC_AUTH_TOKEN").then(|| "from there".to_owned());
        let header = |connect: Connect| {
            let connect = connect.in_environment(read).expect("whole");
            let header = connect.authorization().expect("a header").expect("a token");
            header.to_str().expect("text").to_owned()
        };
        assert_eq!(header(Connect::to("http://h")), "Bearer from there");
        assert_eq!(header(Connect::to("http://h").token("mine")), "Bearer mine");
        let shown = format!("{:?}", Connect::to("http://h").token("mine"));
        assert!(!shown.contains("mine"), "{shown}");
    }

    #[test]
    fn a_token_comes_from_a_file_but_not_from_two_places() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, "from a file\n").expect("written");
        let by_file = |name: &str| {
            (name == "WORKER_GRPC_AUTH_TOKEN_FILE").then(|| path.display().to_string())
        };
        let connect = Connect::to("http://h").in_environment(by_file);
        let header = connect.expect("whole").authorization().expect("a header");
        assert_eq!(header.expect("a token"), "Bearer from a file");
        let both = |name: &str| {
            name.starts_with("WORKER_GRPC_AUTH_TOKEN")
                .then(|| path.display().to_string())
        };
        let error = Connect::to("http://h").in_environment(both);
        let error = error.expect_err("refused").to_string();
        assert!(error.contains("both set"), "{error}");
        let own = Connect::to("http://h").token("mine").in_environment(both);
        assert!(own.is_ok(), "what is said counts, and nothing else is read");
    }

    #[test]
    fn half_an_identity_and_a_missing_file_are_refused_by_name() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let certificate_only =
            |name: &str| (name == "WORKER_GRPC_TLS_CERT").then(|| manifest.to_owned());
        let error = Connect::to("http://h").in_environment(certificate_only);
        let error = error.expect_err("refused").to_string();
        assert!(error.contains("WORKER_GRPC_TLS_KEY"), "{error}");
        let missing =
            |name: &str| (name == "WORKER_GRPC_TLS_CA_CERT").then(|| "/no/such".to_owned());
        let error = Connect::to("http://h").in_environment(missing);
        let error = error.expect_err("refused").to_string();
        assert!(
            error.contains("WORKER_GRPC_TLS_CA_CERT: /no/such"),
            "{error}"
        );
    }
}
