//! Offers across the wire: [`Offering`] is the server's end, [`take`] the engine's.
//!
//! ```text
//!   Offers ─► Offering ══ Said::Offer ══► take ─► Offers of the engine
//!             Offering ◄══ Answer::Turn, Declined ══ take
//!             Offering ══ Said::Outcome, Void ══► take
//! ```
//!
//! A stream that breaks declines what was not taken, and leaves open what became of the rest: engines know how to find out.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use durable_proto::v1::{StoreAnswer, StoreOffer};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, StreamExt as _};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use super::line::Line;
use super::wire::{Mistake, read, write};
use crate::hosting::{FirstTurn, Hosting, Offer, Offers, Taking};
use crate::persistence::backoff::Backoff;
use crate::persistence::model::{HostedType, StartRun, TurnCommit, TurnOutcome};

/// Largest document. What is larger goes the usual way, which is cut into parts.
const OFFER_BYTES_MAX: usize = 1 << 20;

/// What the server says.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    /// Somebody wants to start this run.
    Offer { number: u64, start: Box<StartRun> },
    /// The turn was committed, or refused.
    Outcome { number: u64, outcome: TurnOutcome },
    /// Nobody waits for the turn any more, or it is not known what became of it.
    Void { number: u64 },
}

/// What the engine says.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// First of all: what it hosts.
    Hosting(BTreeSet<HostedType>),
    /// The first turn of a run that was offered.
    Turn { number: u64, turn: Box<TurnCommit> },
    /// Not now.
    Declined { number: u64 },
}

/// The server's end of one engine's stream. Made before the engine has said what it hosts; it is offered nothing until then.
#[derive(Default)]
pub struct Offering {
    offers: Option<Offers>,
    last: u64,
    unanswered: HashMap<u64, Taking>,
    taken: FuturesUnordered<BoxFuture<'static, (u64, Option<TurnOutcome>)>>,
}

impl Offering {
    /// Takes in what the engine says. `may_host` says which workflow types its token reaches: of others it is offered none.
    ///
    /// # Errors
    /// [`Mistake`] where it makes no sense.
    pub fn hear(
        &mut self,
        answer: &[u8],
        hosting: &Hosting,
        may_host: impl Fn(&str) -> bool,
    ) -> Result<(), Mistake> {
        match read("an answer to an offer", answer)? {
            Answer::Hosting(_) if self.offers.is_some() => {
                return Err(Mistake::new(
                    "an answer to an offer",
                    "what it hosts was said before",
                ));
            }
            Answer::Hosting(mut types) => {
                types.retain(|hosted| may_host(&hosted.workflow_type));
                self.offers = hosting.connect_engine(types);
            }
            // One that is not known was answered before.
            Answer::Declined { number } => drop(self.unanswered.remove(&number)),
            Answer::Turn { number, turn } => {
                if let Some(taking) = self.unanswered.remove(&number) {
                    let settled = async move { (number, taking.take(*turn).await) };
                    self.taken.push(Box::pin(settled));
                }
            }
        }
        Ok(())
    }

    /// What is to be said next. None: the server's engine has stopped. Cancel-safe.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let said = tokio::select! {
                Some((number, outcome)) = self.taken.next() => match outcome {
                    Some(outcome) => Said::Outcome { number, outcome },
                    None => Said::Void { number },
                },
                offer = next_of(&mut self.offers) => {
                    let (start, taking) = offer?.into_parts();
                    self.last += 1;
                    self.unanswered.insert(self.last, taking);
                    Said::Offer { number: self.last, start: Box::new(start) }
                }
            };
            match (&said, document(&said)) {
                (_, Some(document)) => return Some(document),
                (Said::Offer { number, .. }, None) => drop(self.unanswered.remove(number)),
                // What is not told is found out.
                (Said::Outcome { number, .. } | Said::Void { number }, None) => {
                    return document(&Said::Void { number: *number });
                }
            }
        }
    }
}

async fn next_of(offers: &mut Option<Offers>) -> Option<Offer> {
    match offers {
        Some(offers) => offers.next().await,
        None => std::future::pending().await,
    }
}

/// The document, if it is not too large for one message.
fn document(said: &impl Serialize) -> Option<Vec<u8>> {
    let document = write(said).ok()?;
    (document.len() <= OFFER_BYTES_MAX).then_some(document)
}

/// The engine's end: offers of a server, for as long as somebody takes them. To be called within a tokio runtime.
pub(super) fn take(line: Line, types: BTreeSet<HostedType>) -> Offers {
    let (sender, offers) = Offers::channel();
    tokio::spawn(async move {
        let mut backoff = Backoff::new();
        let types = Arc::new(types);
        while !sender.is_closed() {
            let mut end = End::new(&sender);
            let trouble = tokio::select! {
                trouble = end.attend(&line, &types) => trouble,
                () = sender.closed() => return,
            };
            tracing::debug!(%trouble, "the server's offers are out of reach; trying again");
            if end.heard {
                backoff.reset();
            }
            backoff.pause().await;
        }
    });
    offers
}

/// One stream's life at the engine's end.
struct End<'a> {
    sender: &'a mpsc::Sender<Offer>,
    offered: FuturesUnordered<BoxFuture<'static, (u64, Option<FirstTurn>)>>,
    taken: HashMap<u64, oneshot::Sender<TurnOutcome>>,
    heard: bool,
}

impl<'a> End<'a> {
    fn new(sender: &'a mpsc::Sender<Offer>) -> Self {
        Self {
            sender,
            offered: FuturesUnordered::new(),
            taken: HashMap::new(),
            heard: false,
        }
    }

    async fn attend(&mut self, line: &Line, types: &BTreeSet<HostedType>) -> Status {
        let (say, mut said) = mpsc::unbounded_channel();
        let answers = stream::poll_fn(move |context| said.poll_recv(context));
        let tell = |document: Option<Vec<u8>>| {
            let body = document.unwrap_or_default().into();
            // Fails only when the stream is over, which is seen below.
            drop(say.send(StoreAnswer { body }));
        };
        tell(document(&Answer::Hosting(types.clone())));
        let mut heard = match line.offers(answers).await {
            Ok(heard) => heard,
            Err(status) => return status,
        };
        loop {
            tokio::select! {
                offer = heard.message() => match offer {
                    Ok(Some(StoreOffer { body })) => match read("an offer", &body) {
                        Ok(said) => self.hear(said),
                        Err(mistake) => return Status::invalid_argument(mistake.to_string()),
                    },
                    Ok(None) => return Status::unavailable("the server ended the stream"),
                    Err(status) => return status,
                },
                Some((number, first_turn)) = self.offered.next() => {
                    tell(self.answer(number, first_turn));
                }
            }
        }
    }

    /// The answer to an offer. A turn that is too large for a message is declined, and its outcome is not waited for: it is taken again when
    /// the run has been started.
    fn answer(&mut self, number: u64, first_turn: Option<FirstTurn>) -> Option<Vec<u8>> {
        if let Some(first_turn) = first_turn {
            let (turn, told) = first_turn.into_parts();
            let turn = Box::new(turn);
            if let Some(document) = document(&Answer::Turn { number, turn }) {
                self.taken.insert(number, told);
                return Some(document);
            }
        }
        document(&Answer::Declined { number })
    }

    fn hear(&mut self, said: Said) {
        self.heard = true;
        match said {
            Said::Offer { number, start } => {
                let (offer, first_turn) = Offer::of(*start);
                // One for which there is no place is dropped, and so declined.
                drop(self.sender.try_send(offer));
                let answer = async move { (number, first_turn.await.ok()) };
                self.offered.push(Box::pin(answer));
            }
            Said::Outcome { number, outcome } => {
                if let Some(told) = self.taken.remove(&number) {
                    drop(told.send(outcome));
                }
            }
            Said::Void { number } => drop(self.taken.remove(&number)),
        }
    }
}
