//! Hears what other processes ring for.

use std::sync::Arc;

use crate::engine::Node;

/// Passes rings of other processes on to the loops of this one, for ever.
pub(crate) async fn listen(node: Arc<Node>) {
    let Some(bell) = node.hub.bell().cloned() else {
        return;
    };
    loop {
        node.hub.heard(bell.listen().await);
    }
}
