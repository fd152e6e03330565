//! Offers over a stream: runs that are about to be started, to an engine that hosts them.

use durable_proto::v1::{StoreAnswer, StoreOffer};
use everruns_durable::hosting::Hosting;
use everruns_durable::remote::Offering;
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::Answer;
use crate::App;
use crate::auth::WatchedPass;
use crate::grpc::status;

/// One engine's stream.
struct Place {
    hosting: Hosting,
    offering: Offering,
    answers: Streaming<StoreAnswer>,
    draining: CancellationToken,
    pass: WatchedPass,
    over: bool,
}

/// Passes offers and answers on, until the engine goes or the server is about to.
pub(super) fn exchange(
    app: &App,
    pass: WatchedPass,
    answers: Streaming<StoreAnswer>,
) -> Result<Answer<StoreOffer>, Status> {
    let no_engine = || Status::unavailable("this server has no engine, and offers nothing");
    let place = Place {
        hosting: app.client().hosting().ok_or_else(no_engine)?,
        offering: Offering::default(),
        answers,
        draining: app.draining().clone(),
        pass,
        over: false,
    };
    let offers = stream::unfold(place, |mut place| async {
        let offer = place.next().await?;
        Some((offer, place))
    });
    Ok(offers.boxed())
}

impl Place {
    /// The next thing to say to the engine; none when it is over.
    async fn next(&mut self) -> Option<Result<StoreOffer, Status>> {
        while !self.over {
            tokio::select! {
                () = self.draining.cancelled() => return None,
                denied = self.pass.lost() => {
                    self.over = true;
                    return Some(Err(status::denied(&denied)));
                }
                said = self.offering.next() => {
                    let body = said?.into();
                    return Some(Ok(StoreOffer { body }));
                }
                answer = self.answers.message() => {
                    let body = answer.ok()??.body;
                    let principal = self.pass.principal();
                    let may_host = |name: &str| principal.require_type(name).is_ok();
                    if let Err(mistake) = self.offering.hear(&body, &self.hosting, may_host) {
                        self.over = true;
                        return Some(Err(Status::invalid_argument(mistake.to_string())));
                    }
                }
            }
        }
        None
    }
}
