//! Takes the first turns of runs that are about to be started in other processes.

use std::sync::Arc;

use crate::codec::payloads::HoldsPayloads as _;
use crate::engine::{Beginning, Node};

/// Puts offers on the desk, which declines those that it has no room for.
pub(crate) async fn take_offers(node: Arc<Node>) {
    let types = node.workflows.turned().into_iter().collect();
    let Some(mut offers) = node.store.offers(types) else {
        return;
    };
    while let Some(mut offer) = offers.next().await {
        // Whoever claims it says that no codec here can decode it.
        if offer.has_encoded() {
            continue;
        }
        node.hub.desk.begin(Beginning::offered(offer));
    }
}
