//! The doorbell over a stream.

use std::sync::Arc;

use durable_proto::v1::StoreRing;
use everruns_durable::persistence::{Bell, Ring};
use everruns_durable::remote::{read_ring, write_ring};
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::Answer;
use crate::App;
use crate::auth::WatchedPass;
use crate::grpc::status;

/// One caller's place at the bell of the server's store.
struct Place {
    bell: Arc<dyn Bell>,
    incoming: Streaming<StoreRing>,
    draining: CancellationToken,
    pass: WatchedPass,
    over: bool,
}

/// Passes rings on in both directions, until the caller goes or the server is about to.
pub(super) fn exchange(
    app: &App,
    pass: WatchedPass,
    incoming: Streaming<StoreRing>,
) -> Result<Answer<StoreRing>, Status> {
    let no_bell = || Status::unavailable("this server's store has no bell; poll");
    let place = Place {
        bell: app.store().bell().ok_or_else(no_bell)?,
        incoming,
        draining: app.draining().clone(),
        pass,
        over: false,
    };
    let rings = stream::unfold(place, |mut place| async {
        let ring = place.next().await?;
        Some((ring, place))
    });
    Ok(rings.boxed())
}

impl Place {
    /// The next ring for the caller; none when it is over.
    async fn next(&mut self) -> Option<Result<StoreRing, Status>> {
        while !self.over {
            tokio::select! {
                () = self.draining.cancelled() => return None,
                denied = self.pass.lost() => {
                    self.over = true;
                    return Some(Err(status::denied(&denied)));
                }
                ring = self.bell.listen() => {
                    let ring = self.within_reach(ring);
                    if !ring.is_empty() {
                        let body = write_ring(&ring).ok()?.into();
                        return Some(Ok(StoreRing { body }));
                    }
                }
                ring = self.incoming.message() => match read_ring(&ring.ok()??.body) {
                    Ok(ring) => self.bell.ring(ring),
                    Err(mistake) => return Some(Err(Status::invalid_argument(mistake.to_string()))),
                },
            }
        }
        None
    }

    fn within_reach(&self, mut ring: Ring) -> Ring {
        let principal = self.pass.principal();
        if !principal.is_unscoped() {
            ring.task_types.retain(|name| principal.may_use_queue(name));
        }
        ring
    }
}
