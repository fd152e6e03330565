//! The server's HTTP API, as the commands use it.

mod events;
mod problem;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use everruns_durable::remote::TlsTrouble;
use reqwest::{Certificate, Identity, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;

pub(crate) use events::Events;

use crate::exact::Exact;
use crate::exit::{Exit, Failure, Result, chain};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take, beyond what the request itself asks to wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// What to do for a server that asks who is there.
const IDENTITY: &str = "show one that it takes: --client-cert with --client-key, or DURABLE_CLIENT_CERT with DURABLE_CLIENT_KEY";

/// Which server, and as whom.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerFlags {
    /// The server's URL. The token comes from DURABLE_TOKEN, or the file that DURABLE_TOKEN_FILE names.
    #[arg(
        long,
        global = true,
        env = "DURABLE_SERVER",
        default_value = "http://127.0.0.1:7400",
        value_name = "URL",
        help_heading = "Server"
    )]
    server: String,
    /// Trust this authority's certificates (PEM) too.
    #[arg(
        long,
        global = true,
        env = "DURABLE_CA",
        value_name = "FILE",
        help_heading = "Server"
    )]
    ca: Option<PathBuf>,
    /// Show this certificate chain (PEM), to a server that asks for one.
    #[arg(
        long,
        global = true,
        env = "DURABLE_CLIENT_CERT",
        value_name = "FILE",
        help_heading = "Server"
    )]
    client_cert: Option<PathBuf>,
    /// The certificate's key (PEM).
    #[arg(
        long,
        global = true,
        env = "DURABLE_CLIENT_KEY",
        value_name = "FILE",
        help_heading = "Server"
    )]
    client_key: Option<PathBuf>,
}

impl ServerFlags {
    /// What to show to a server that asks for a certificate.
    fn identity(&self) -> Result<Option<Identity>> {
        let (cert, key) = match (&self.client_cert, &self.client_key) {
            (None, None) => return Ok(None),
            (Some(cert), Some(key)) => (cert, key),
            _ => {
                return Err(Failure::usage(
                    "--client-cert and --client-key belong together: give both",
                ));
            }
        };
        let unusable = |flag: &str, path: &Path, error: &dyn std::fmt::Display| {
            Failure::usage(format!("{flag} {}: {error}", path.display()))
        };
        let read = |flag: &str, path: &Path| {
            std::fs::read(path).map_err(|error| unusable(flag, path, &error))
        };
        let pem = [read("--client-cert", cert)?, read("--client-key", key)?].join(&b'\n');
        let identity = Identity::from_pem(&pem);
        identity
            .map(Some)
            .map_err(|error| unusable("--client-cert", cert, &chain(&error)))
    }

    /// The authority to trust beside those that the system trusts.
    pub(crate) fn ca(&self) -> Option<&Path> {
        self.ca.as_deref()
    }
}

/// A client of the server.
pub(crate) struct Api {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
    /// Whether a certificate is shown to servers that ask for one.
    has_identity: bool,
}

impl Api {
    /// Connects lazily: the first request finds out whether the server is there.
    pub(crate) fn new(flags: &ServerFlags) -> Result<Self> {
        let base: Url = flags.server.parse().map_err(|error| {
            Failure::usage(format!("--server {:?} is no URL: {error}", flags.server))
                .hint("it looks like http://127.0.0.1:7400")
        })?;
        if base.cannot_be_a_base() || !matches!(base.scheme(), "http" | "https") {
            return Err(Failure::usage(format!(
                "--server {:?} is no http or https URL",
                flags.server
            )));
        }
        // Whoever installed another provider first is fine with us.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT);
        if let Some(path) = &flags.ca {
            let unusable = |error: &dyn std::fmt::Display| {
                Failure::usage(format!("--ca {}: {error}", path.display()))
            };
            let pem = std::fs::read(path).map_err(|error| unusable(&error))?;
            for authority in Certificate::from_pem_bundle(&pem).map_err(|error| unusable(&error))? {
                builder = builder.add_root_certificate(authority);
            }
        }
        let identity = flags.identity()?;
        let has_identity = identity.is_some();
        if let Some(identity) = identity {
            builder = builder.identity(identity);
        }
        let http = builder
            .build()
            .map_err(|error| Failure::new(Exit::Failure, chain(&error)))?;
        Ok(Self {
            http,
            base,
            token: token()?,
            has_identity,
        })
    }

    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Exact> {
        let request = self.request(Method::GET, path).query(query);
        body(self.send(request.timeout(ANSWER_TIMEOUT)).await?).await
    }

    /// The same, as it came.
    pub(crate) async fn get_text(&self, path: &[&str]) -> Result<String> {
        let request = self.request(Method::GET, path).timeout(ANSWER_TIMEOUT);
        let response = self.send(request).await?;
        response
            .text()
            .await
            .map_err(|error| self.unreachable(&error))
    }

    /// Waits for as long as the server may, and a little longer. Answers whether the server says that it is done.
    pub(crate) async fn get_within(&self, path: &[&str], wait: Duration) -> Result<(bool, Exact)> {
        let request = self.request(Method::GET, path).query(&[waiting(wait)]);
        let response = self.send(request.timeout(wait + ANSWER_TIMEOUT)).await?;
        Ok((
            response.status() != StatusCode::ACCEPTED,
            body(response).await?,
        ))
    }

    pub(crate) async fn post(
        &self,
        path: &[&str],
        content: &(impl Serialize + Sync),
    ) -> Result<Exact> {
        self.post_once(path, None, content).await
    }

    /// Posts under a key: sent again, it is the same request.
    pub(crate) async fn post_once(
        &self,
        path: &[&str],
        key: Option<&str>,
        content: &(impl Serialize + Sync),
    ) -> Result<Exact> {
        let mut request = self.request(Method::POST, path).json(content);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        body(self.send(request.timeout(ANSWER_TIMEOUT)).await?).await
    }

    /// Posts, and waits for as long as the server may.
    pub(crate) async fn post_within(
        &self,
        path: &[&str],
        content: &(impl Serialize + Sync),
        wait: Duration,
    ) -> Result<Exact> {
        let request = self
            .request(Method::POST, path)
            .query(&[waiting(wait)])
            .json(content);
        body(self.send(request.timeout(wait + ANSWER_TIMEOUT)).await?).await
    }

    pub(crate) async fn delete(&self, path: &[&str]) -> Result<Exact> {
        let request = self.request(Method::DELETE, path);
        body(self.send(request.timeout(ANSWER_TIMEOUT)).await?).await
    }

    /// A stream of events, after the one with the id that was seen last.
    pub(crate) async fn events(&self, path: &[&str], last: Option<&str>) -> Result<Events> {
        let mut request = self
            .request(Method::GET, path)
            .header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Ok(Events::of(self.send(request).await?))
    }

    /// How far the server's clock is ahead of ours, in seconds, by the date of an answer; none where it gives none.
    pub(crate) async fn clock_ahead(&self) -> Result<Option<i64>> {
        let response = self
            .send(
                self.request(Method::GET, &["health"])
                    .timeout(ANSWER_TIMEOUT),
            )
            .await?;
        let date = response
            .headers()
            .get("date")
            .and_then(|date| date.to_str().ok());
        let theirs = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        Ok(
            theirs
                .map(|theirs| theirs.timestamp().as_second() - jiff::Timestamp::now().as_second()),
        )
    }

    /// The server's URL.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            // Each part is encoded by itself: a key may hold a slash.
            segments
                .pop_if_empty()
                .extend(["v1", "durable"])
                .extend(path);
        }
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(problem::read(response).await)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        // The URL is in our own sentence already.
        let what = if error.is_timeout() {
            "gave no answer in time"
        } else {
            "cannot be reached"
        };
        if let Some(trouble) = TlsTrouble::of(error) {
            let text = format!("{} is there, but {trouble}", self.base);
            return Failure::new(Exit::Unreachable, text).hint(match trouble {
                TlsTrouble::Untrusted { .. } => "name its authority with --ca or DURABLE_CA",
                TlsTrouble::CertificateWanted | TlsTrouble::CertificateRefused { .. } => IDENTITY,
                _ => {
                    "does it speak TLS (https) or not (http), and is this its HTTP address (7400)?"
                }
            });
        }
        let cause = std::error::Error::source(error)
            .map_or_else(String::new, |cause| format!(": {}", chain(cause)));
        let failure = Failure::new(Exit::Unreachable, format!("{} {what}{cause}", self.base));
        // Its alert is lost where the connection was used before it came.
        let hung_up = !(error.is_connect() || error.is_timeout());
        if hung_up && self.base.scheme() == "https" && !self.has_identity {
            return failure.hint(format!(
                "it hung up, as servers do that want to see a client certificate; {IDENTITY}"
            ));
        }
        failure
            .hint("start one with `durable dev`, or name another with --server or DURABLE_SERVER")
    }
}

/// A wait as a parameter. Milliseconds only where a second would be too long a step.
fn waiting(wait: Duration) -> (&'static str, String) {
    if wait.as_secs() >= 5 {
        ("wait", format!("{}s", wait.as_secs()))
    } else {
        ("wait", format!("{}ms", wait.as_millis()))
    }
}

async fn body(response: Response) -> Result<Exact> {
    let url = response.url().clone();
    let unreadable = |error: &dyn std::error::Error| {
        Failure::new(
            Exit::Failure,
            format!("the answer of {url} cannot be read: {}", chain(error)),
        )
    };
    let text = response.text().await.map_err(|error| unreadable(&error))?;
    if text.is_empty() {
        return Ok(Exact::null());
    }
    Exact::parse(&text).map_err(|error| unreadable(&error))
}

fn token() -> Result<Option<String>> {
    let set = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    match (set("DURABLE_TOKEN"), set("DURABLE_TOKEN_FILE")) {
        (Some(_), Some(_)) => Err(Failure::usage(
            "DURABLE_TOKEN and DURABLE_TOKEN_FILE are both set; unset one of them",
        )),
        (Some(token), None) => Ok(Some(token)),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| Failure::usage(format!("DURABLE_TOKEN_FILE {path}: {error}")))?;
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
        (None, None) => Ok(None),
    }
}
