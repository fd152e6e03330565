//! Hears what other processes ring for.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::engine::Node;

/// Passes rings of other processes on to the loops of this one, until it is told to stop.
pub(crate) async fn listen(node: Arc<Node>, stop: CancellationToken) {
    let Some(bell) = node.hub.bell().cloned() else {
        return;
    };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            ring = bell.listen() => node.hub.heard(ring),
        }
    }
}
