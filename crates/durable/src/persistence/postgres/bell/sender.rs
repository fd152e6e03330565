//! The connection that rings.

use std::sync::Arc;
use std::time::Duration;

use super::line::{Call, Line, Trouble};
use super::{PgBell, payload};
use crate::persistence::backoff::Backoff;

/// Pause after a ring, in which the next one fills: notifications of a database are committed one after the other, and each of them
/// wakes every process.
const GAP: Duration = Duration::from_millis(2);

/// Sends what is rung, one after the other; what is rung meanwhile goes together. Connects when there is something to send.
pub(super) async fn keep_sending(bell: Arc<PgBell>, line: Line) {
    let mut call = None;
    let mut backoff = Backoff::new();
    loop {
        let ring = bell.outgoing.take().await;
        let text = payload::encode(bell.id, ring.clone());
        match send(&line, &mut call, &text).await {
            Ok(()) => {
                backoff.reset();
                tokio::time::sleep(GAP).await;
            }
            Err(error) => {
                tracing::debug!(%error, "the bell could not be rung; trying again");
                // It may have been heard; twice does no harm.
                bell.outgoing.put(ring);
                call = None;
                backoff.pause().await;
            }
        }
    }
}

async fn send(line: &Line, call: &mut Option<Call>, text: &str) -> Result<(), Trouble> {
    let open = match call.take() {
        Some(open) => open,
        None => line.open("ring").await?,
    };
    call.insert(open).notify(text).await
}
