//! `http`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use everruns_durable::core::strict::Strict;
use everruns_durable::prelude::{
    Activity, ActivityContext, ActivityError, ActivityResult, Payload, async_trait,
};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Method, Request, Response, Url};
use serde::{Deserialize, Serialize};

use super::hosts::HostAllowList;
use super::invalid_input;
use crate::value::Value;

/// Time for a call that says nothing else.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for a call.
const TIMEOUT_MS_MAX: u64 = 10 * 60 * 1000;
/// Most of an answer's body that is kept.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Error of a call that did not come through, or whose answer says that it may later.
const HTTP_ERROR: &str = "HttpError";

/// Most of an answer's body, and of its headers, in a failure.
const FAILURE_BYTES_MAX: usize = 4 * 1024;

/// Headers that say where a request goes and how it is framed. The allow-list is about the host of the
/// url: another `Host` would lead past it, to a neighbour behind the same address.
const OF_THE_CONNECTION: [&str; 9] = [
    "host",
    ":authority",
    "connection",
    "keep-alive",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
];

/// `http` {method, url, headers?, body?, timeout_ms?}: calls a host on the allow-list and answers {status, headers, body}.
///
/// Sends the activity's `Idempotency-Key`, the same one on every attempt. Follows no redirects and uses no proxy. An answer of 5xx,
/// 408 or 429 is a failure of type `HttpError`, to be tried again; any other is an answer.
#[derive(Debug)]
pub struct Http {
    hosts: Arc<HostAllowList>,
    /// Made at the first call.
    client: OnceLock<Result<Client, String>>,
}

/// Input of [`Http`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    method: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// A string is sent as it is, anything else as JSON.
    #[serde(default)]
    body: Option<Value>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

impl Http {
    /// Calls these hosts and no others.
    #[must_use]
    pub fn new(hosts: HostAllowList) -> Self {
        Self {
            hosts: Arc::new(hosts),
            client: OnceLock::new(),
        }
    }

    fn client(&self) -> Result<&Client, ActivityError> {
        let made = self.client.get_or_init(|| {
            // Somebody else in this process may have chosen one; then that is used.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let guarded = Guarded {
                hosts: Arc::clone(&self.hosts),
            };
            Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .dns_resolver(Arc::new(guarded))
                .build()
                .map_err(|error| error.to_string())
        });
        let failed = |error: &String| ActivityError::new(HTTP_ERROR, error.clone());
        made.as_ref().map_err(failed)
    }

    fn request(&self, ctx: &ActivityContext, call: &Call) -> Result<Request, ActivityError> {
        let url = Url::parse(&call.url)
            .map_err(|error| invalid_input(format!("url {:?}: {error}", call.url)))?;
        self.admit(&url)?;
        let method = Method::from_bytes(call.method.to_ascii_uppercase().as_bytes())
            .map_err(|_| invalid_input(format!("{:?} is no method", call.method)))?;
        let wait = call
            .timeout_ms
            .map(|ms| Duration::from_millis(ms.min(TIMEOUT_MS_MAX)));
        let mut request = self
            .client()?
            .request(method, url)
            .timeout(wait.unwrap_or(TIMEOUT));
        let own_key = call
            .headers
            .keys()
            .any(|name| name.eq_ignore_ascii_case("idempotency-key"));
        if !own_key {
            request = request.header("Idempotency-Key", ctx.idempotency_key());
        }
        for (name, value) in &call.headers {
            if let Some(own) = OF_THE_CONNECTION
                .iter()
                .find(|own| name.trim().eq_ignore_ascii_case(own))
            {
                return Err(invalid_input(format!(
                    "the header {own} is made from the url and the body, and cannot be set"
                )));
            }
            request = request.header(name, value);
        }
        request = match &call.body {
            None | Some(Value::Null) => request,
            Some(Value::String(text)) => request.body(text.clone()),
            Some(json) => request.json(json),
        };
        request
            .build()
            .map_err(|error| invalid_input(chain(&error)))
    }

    fn admit(&self, url: &Url) -> Result<(), ActivityError> {
        if !["http", "https"].contains(&url.scheme()) {
            return Err(invalid_input(format!(
                "{:?} is no HTTP address",
                url.scheme()
            )));
        }
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        if self.hosts.admits(host, port) {
            return Ok(());
        }
        let message = format!(
            "{host}:{port} may not be called; this worker's allow-list has: {}",
            self.hosts
        );
        Err(ActivityError::new("HostNotAllowed", message).non_retryable())
    }
}

#[async_trait]
impl Activity for Http {
    const TYPE: &'static str = "http";
    type Input = Strict<Call>;
    type Output = Value;

    async fn execute(
        &self,
        ctx: &ActivityContext,
        Strict(call): Strict<Call>,
    ) -> ActivityResult<Value> {
        let request = self.request(ctx, &call)?;
        let client = self.client()?;
        tokio::select! {
            biased;
            () = ctx.cancelled() => {
                Err(ActivityError::new("Cancelled", "the call was cancelled").non_retryable())
            }
            answered = answer(client, request) => answered,
        }
    }
}

async fn answer(client: &Client, request: Request) -> ActivityResult<Value> {
    let failed = |error: reqwest::Error| ActivityError::new(HTTP_ERROR, chain(&error));
    let mut response = client.execute(request).await.map_err(failed)?;
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        body.extend_from_slice(&piece);
        if body.len() > BODY_BYTES_MAX {
            let message = format!("the answer's body is larger than {BODY_BYTES_MAX} bytes");
            return Err(ActivityError::new(HTTP_ERROR, message).non_retryable());
        }
    }
    let status = response.status();
    if status.is_server_error() || [408, 429].contains(&status.as_u16()) {
        let details = Payload::from_value(&told_shortly(&response, &body)).unwrap_or_default();
        let message = format!("answered {status}");
        return Err(ActivityError::new(HTTP_ERROR, message).with_details(details));
    }
    Ok(told(&response, &body))
}

/// The answer in a failure, which is kept for each attempt: as an answer is, but with the first
/// [`FAILURE_BYTES_MAX`] of a long body, as text,
/// and without headers that are longer than that together.
fn told_shortly(response: &Response, body: &[u8]) -> Value {
    let headers = response.headers().iter();
    let headers: usize = headers
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if body.len() <= FAILURE_BYTES_MAX && headers <= FAILURE_BYTES_MAX {
        return told(response, body);
    }
    let kept = &body[..body.len().min(FAILURE_BYTES_MAX)];
    Value::object([
        ("status", u64::from(response.status().as_u16()).into()),
        (
            "body",
            Value::String(String::from_utf8_lossy(kept).into_owned()),
        ),
        ("body_bytes", (body.len() as u64).into()),
    ])
}

fn told(response: &Response, body: &[u8]) -> Value {
    let mut headers: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in response.headers() {
        let value = String::from_utf8_lossy(value.as_bytes());
        let all = headers.entry(name.as_str()).or_default();
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(&value);
    }
    let is_json = headers
        .get("content-type")
        .is_some_and(|kind| kind.to_ascii_lowercase().contains("json"));
    // Through a payload, so that what is too deep stays text.
    let json = Payload::from_json_text(body.to_vec())
        .ok()
        .filter(|_| is_json);
    let json = json.and_then(|payload| payload.to_value().ok());
    let body = json.unwrap_or_else(|| Value::String(String::from_utf8_lossy(body).into_owned()));
    let headers = headers.into_iter();
    let headers = headers.map(|(name, value)| (name.to_owned(), value.into()));
    Value::object([
        ("status", u64::from(response.status().as_u16()).into()),
        ("headers", Value::Object(headers.collect())),
        ("body", body),
    ])
}

/// Resolves names, and keeps the addresses that may be called: what a name led to when it was looked at is what is called.
struct Guarded {
    hosts: Arc<HostAllowList>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = Arc::clone(&self.hosts);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let admitted: Vec<SocketAddr> = found
                .filter(|address| hosts.admits_address(address.ip()))
                .collect();
            if admitted.is_empty() {
                let message = format!("{} leads to no address that may be called", name.as_str());
                return Err(message.into());
            }
            let addresses: Addrs = Box::new(admitted.into_iter());
            Ok(addresses)
        })
    }
}

/// The error with its causes: the first alone says only that something failed.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}
