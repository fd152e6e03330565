//! Bodies that a request was refused without reading.
//!
//! A connection of HTTP/1.1 that is closed while its client still sends is reset, and the client loses
//! the answer that said why. So the rest of such a body is read and thrown away, within limits, while
//! the answer is on its way.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::Version;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt as _;
use hyper::body::{Frame, SizeHint};

/// Most bytes that are thrown away.
const BYTES_MAX: usize = 64 << 20;
/// Longest time that this may take.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Reads what is left of a body once the request is answered.
pub(super) async fn discard(request: Request, next: Next) -> Response {
    // A stream of HTTP/2 ends on its own; the connection and the answer stay.
    if request.version() > Version::HTTP_11 {
        return next.run(request).await;
    }
    let request = request.map(|body| Body::new(Discarded { body: Some(body) }));
    next.run(request).await
}

/// A body that is read to its end even if it is dropped before.
struct Discarded {
    body: Option<Body>,
}

impl HttpBody for Discarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Discarded {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !body.is_end_stream());
        let Some(body) = unread else { return };
        // Outside a runtime there is no connection left either.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            // However this ends: the connection is closed then, or goes on with the next request.
            let _ = tokio::time::timeout(TIME_MAX, throw_away(body)).await;
        });
    }
}

async fn throw_away(body: Body) {
    let mut pieces = body.into_data_stream();
    let mut left = BYTES_MAX;
    while let Some(Ok(piece)) = pieces.next().await {
        match left.checked_sub(piece.len()) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}
