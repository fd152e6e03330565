//! A server that asks for no token serves this machine, and not the web pages that are open on it.
//!
//! A browser sends requests to `127.0.0.1` for any page, and a name of the page's own can be made to
//! lead there. So without tokens only requests are answered whose `Host` is loopback and that no page
//! of another origin has sent.

use axum::extract::Request;
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::problem::{Code, Problem};

/// Refuses a request that comes from elsewhere.
pub(super) async fn require(request: Request, next: Next) -> Response {
    match foreign(request.uri(), request.headers()) {
        None => next.run(request).await,
        Some(what) => {
            let detail = format!("this server asks for no token, and {what}");
            Problem::new(Code::Forbidden, detail)
                .hint("call it as 127.0.0.1 or localhost, or start it with tokens")
                .into_response()
        }
    }
}

/// What of a request says that it is foreign.
fn foreign(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| {
        headers.get(name).map(|value: &axum::http::HeaderValue| {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        })
    };
    // HTTP/2 names the host in the URI.
    let host = uri.authority().map(ToString::to_string);
    if let Some(host) = host.or_else(|| text("host"))
        && !is_loopback(&host)
    {
        return Some(format!("was called as {host:?}, which is not loopback"));
    }
    if let Some(origin) = text("origin") {
        let host = origin.split_once("://").map(|(_, host)| host);
        if !host.is_some_and(is_loopback) {
            return Some(format!("answers no page of {origin:?}"));
        }
    }
    match text("sec-fetch-site").as_deref() {
        None | Some("same-origin" | "same-site" | "none") => None,
        Some(site) => Some(format!("answers no {site} request of a browser")),
    }
}

/// Whether a host, with or without its port, is this machine by its loopback address.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let address: Result<std::net::IpAddr, _> = bare.unwrap_or(name).parse();
    address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn asked(headers: &[(&'static str, &'static str)]) -> Option<String> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        foreign(&Uri::from_static("/livez"), &headers.collect())
    }

    #[test]
    fn only_loopback_hosts_and_their_pages_are_answered() {
        for own in [
            "127.0.0.1:7400",
            "localhost",
            "LOCALHOST:1",
            "[::1]:7400",
            "127.1.2.3",
        ] {
            assert_eq!(asked(&[("host", own)]), None, "{own}");
        }
        for other in [
            "example.com",
            "localhost.example.com:7400",
            "192.0.2.1",
            "",
            "0.0.0.0:1",
        ] {
            assert!(asked(&[("host", other)]).is_some(), "{other}");
        }
        let with = |name, value| asked(&[("host", "localhost:7400"), (name, value)]);
        assert_eq!(with("origin", "http://localhost:3000"), None);
        assert_eq!(with("sec-fetch-site", "same-origin"), None);
        for origin in [
            "https://example.com",
            "null",
            "http://localhost.example.com",
        ] {
            assert!(with("origin", origin).is_some(), "{origin}");
        }
        assert!(with("sec-fetch-site", "cross-site").is_some());
    }
}
