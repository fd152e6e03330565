//! What the requests of one connection are doing, so that a connection which only holds its place can be
//! told from one that is used.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The requests of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next_id: u64,
    /// Requests that are not answered to the end.
    under_way: usize,
    /// When the last of them came or ended.
    changed: Instant,
    /// Answers whose last piece is not taken by the connection yet, and since when.
    unread: HashMap<u64, Instant>,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// No request is under way, for too long.
    Idle,
    /// The client does not read an answer, for too long.
    Unread,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        let state = State {
            next_id: 0,
            under_way: 0,
            changed: Instant::now(),
            unread: HashMap::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    /// A request comes; it is over when the answer is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Begun {
        let mut state = self.state.lock();
        state.next_id += 1;
        state.under_way += 1;
        state.changed = Instant::now();
        Begun {
            id: state.next_id,
            activity: Arc::clone(self),
        }
    }

    /// Whether the connection only holds its place.
    pub(crate) fn lapse(&self, idle: Duration, unread: Duration) -> Option<Lapse> {
        let state = self.state.lock();
        if state.unread.values().any(|since| since.elapsed() >= unread) {
            return Some(Lapse::Unread);
        }
        let is_idle = state.under_way == 0 && state.changed.elapsed() >= idle;
        is_idle.then_some(Lapse::Idle)
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Begun {
    id: u64,
    activity: Arc<Activity>,
}

impl Begun {
    /// The answer, which ends the request once it is sent.
    pub(crate) fn answered(self, response: axum::response::Response) -> axum::response::Response {
        response.map(|body| Body::new(Watched { body, begun: self }))
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        state.under_way -= 1;
        state.changed = Instant::now();
        state.unread.remove(&self.id);
    }
}

/// A body whose pieces are seen to be taken.
struct Watched {
    body: Body,
    begun: Begun,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        let mut state = this.begun.activity.state.lock();
        match &polled {
            // Asked for more once this is on its way: not before the client reads.
            Poll::Ready(Some(_)) => state.unread.insert(this.begun.id, Instant::now()),
            Poll::Ready(None) | Poll::Pending => state.unread.remove(&this.begun.id),
        };
        drop(state);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _, stream};

    use super::*;

    const IDLE: Duration = Duration::from_secs(300);
    const UNREAD: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_connection_lapses_without_requests_and_not_with_one() {
        let activity = Activity::new();
        tokio::time::advance(IDLE).await;
        assert_eq!(activity.lapse(IDLE, UNREAD), Some(Lapse::Idle));
        let begun = activity.begin();
        tokio::time::advance(IDLE).await;
        assert_eq!(activity.lapse(IDLE, UNREAD), None);
        drop(begun);
        assert_eq!(activity.lapse(IDLE, UNREAD), None);
        tokio::time::advance(IDLE).await;
        assert_eq!(activity.lapse(IDLE, UNREAD), Some(Lapse::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_lapses_when_an_answer_is_not_read() {
        let activity = Activity::new();
        let pieces = stream::iter(["a", "b"].map(Ok::<_, std::io::Error>));
        let body = Body::from_stream(pieces.chain(stream::pending()));
        let answer = activity
            .begin()
            .answered(axum::response::Response::new(body));
        let mut read = answer.into_body().into_data_stream();
        assert!(read.next().await.is_some());
        tokio::time::advance(UNREAD).await;
        assert_eq!(activity.lapse(IDLE, UNREAD), Some(Lapse::Unread));
        assert!(read.next().await.is_some());
        // All that there is was taken; that no more comes is not the client's fault.
        assert!(read.next().now_or_never().is_none());
        tokio::time::advance(UNREAD).await;
        assert_eq!(activity.lapse(IDLE, UNREAD), None);
    }
}
