//! Reading requests: whatever does not fit is a problem that says what and where.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use everruns_durable::core::payload::DEPTH_MAX;
use everruns_durable::core::strict::Strict;
use everruns_durable::core::{Payload, PayloadError};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::problem::{Code, Problem};

/// A body of JSON.
pub(super) struct Body<T>(pub(super) T);

/// A body of JSON that may be left out.
pub(super) struct OptionalBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (headers, bytes) = read(request, state).await?;
        if bytes.is_empty() {
            return Err(Problem::new(Code::InvalidBody, "the body is empty")
                .hint("send a JSON object; /openapi.json has its fields"));
        }
        require_json(&headers)?;
        parse(bytes).map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (headers, bytes) = read(request, state).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        require_json(&headers)?;
        let body: Option<T> = parse(bytes)?;
        Ok(Self(body.unwrap_or_default()))
    }
}

async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<(HeaderMap, Bytes), Problem> {
    let headers = request.headers().clone();
    let bytes = Bytes::from_request(request, state).await;
    let bytes = bytes.map_err(|rejection| unread(&rejection))?;
    Ok((headers, bytes))
}

fn unread(rejection: &BytesRejection) -> Problem {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Problem::new(Code::TooLarge, "the body is larger than this server takes")
            .hint("keep large data elsewhere and send where it is");
    }
    Problem::new(Code::InvalidBody, rejection.body_text())
}

fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = kind
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    if essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
    {
        return Ok(());
    }
    let detail = match kind {
        Some(kind) => format!("the body is said to be {kind:?}"),
        None => "nothing says what the body is".to_owned(),
    };
    Err(Problem::new(Code::UnsupportedMediaType, detail)
        .hint("send JSON with the header `Content-Type: application/json`"))
}

/// Grammar and depth are judged before any of it is looked into.
fn parse<T: DeserializeOwned>(bytes: Bytes) -> Result<T, Problem> {
    let text = Payload::from_json_text(bytes).map_err(|error| not_json(&error))?;
    match serde_json::from_slice(text.as_bytes()) {
        Ok(Strict(body)) => Ok(body),
        Err(error) => {
            Err(Problem::new(Code::InvalidBody, error.to_string())
                .hint("/openapi.json has the fields"))
        }
    }
}

fn not_json(error: &PayloadError) -> Problem {
    let problem = Problem::new(Code::InvalidJson, error.to_string());
    match error {
        PayloadError::TooDeep => problem.hint(format!("nest at most {DEPTH_MAX} levels")),
        _ => problem.hint("send JSON in UTF-8"),
    }
}

/// The parameters behind the `?`.
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let refuse = |detail: String| {
            Problem::new(Code::InvalidParameter, detail).hint("/openapi.json has the parameters")
        };
        if !is_utf8(parts.uri.query().unwrap_or_default()) {
            return Err(refuse("the parameters are not UTF-8".to_owned()));
        }
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => Err(refuse(rejection.body_text())),
        }
    }
}

/// Refuses parameters, for routes that take none: one that is ignored is a mistake that nobody hears of.
pub(super) async fn no_parameters(request: Request, next: Next) -> Response {
    match request.uri().query() {
        None | Some("") => next.run(request).await,
        Some(query) => {
            let detail = format!("this route takes no parameters, and was given {query:?}");
            Problem::new(Code::InvalidParameter, detail)
                .hint("/openapi.json has the parameters")
                .into_response()
        }
    }
}

/// Whether what the percent signs stand for is text. The decoder behind would replace what is not, and never say so.
fn is_utf8(query: &str) -> bool {
    let (mut bytes, mut rest) = (Vec::with_capacity(query.len()), query.as_bytes());
    while let Some((first, tail)) = rest.split_first() {
        let digit = |at: usize| {
            tail.get(at)
                .and_then(|digit| char::from(*digit).to_digit(16))
        };
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

/// The id of a run, in the path.
pub(super) struct RunId(pub(super) Uuid);

impl<S: Send + Sync> FromRequestParts<S> for RunId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Name(text) = Name::from_request_parts(parts, state).await?;
        parse_id(&text).map(Self)
    }
}

/// A name in the path.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(name) =
            path.map_err(|error| Problem::new(Code::InvalidParameter, error.body_text()))?;
        Ok(Self(name))
    }
}

/// The id of a run and a name within it, in the path.
pub(super) struct RunAndName(pub(super) Uuid, pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for RunAndName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((id, name)) =
            path.map_err(|error| Problem::new(Code::InvalidParameter, error.body_text()))?;
        Ok(Self(parse_id(&id)?, name))
    }
}

pub(super) fn parse_id(text: &str) -> Result<Uuid, Problem> {
    Uuid::try_parse(text).map_err(|_| {
        Problem::new(Code::InvalidParameter, format!("{text:?} is no id"))
            .hint("an id is a UUID; a run's is the `id` of its start's answer")
    })
}

/// The caller's own name for a request, so that sending it twice is doing it once.
pub(super) struct IdempotencyKey(pub(super) Option<String>);

const KEY_CHARS_MAX: usize = 512;

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        key_of(&parts.headers).map(Self)
    }
}

/// The idempotency key among the headers, if there is one that can be used.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let text = value.to_str().ok().map(str::trim);
    let fits = |text: &&str| {
        (1..=KEY_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match text.filter(fits) {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Problem::new(
            Code::InvalidParameter,
            "the Idempotency-Key header cannot be used",
        )
        .hint(format!(
            "send 1 to {KEY_CHARS_MAX} visible ASCII characters"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_seen_behind_percent_signs() {
        assert!(is_utf8("a=%C3%A4&b=%zz&c=%"));
        assert!(!is_utf8("a=%ff"));
        assert!(!is_utf8("a=%C3"));
    }
}
