//! Runs that are about to be started here, offered to engines in other processes that host their code: the first turn then goes along with
//! the start, in one commit.
//!
//! ```text
//!   Client::start ──Offer──► Offers ══ a connection ══► Desk ──► Turner
//!        │ commits start and turn ◄──────FirstTurn──────────────────┘
//!        └──────────────outcome────────────────────────────────────►
//! ```
//!
//! An offer is a try, as [`crate::engine`] makes it for what it hosts itself: one that is dropped was declined, and the run is started on its
//! own. What connects the two ends is anybody's; both ends have the same types.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};

use crate::codec::payloads::{HoldsPayloads, Visit};
use crate::persistence::model::{HostedType, StartRun, TurnCommit, TurnOutcome};

/// Offers that an engine has not answered. More starts at once than these go the usual way, in sets.
const UNANSWERED_MAX: usize = 4;

/// A run that somebody wants to start. Dropped, it is declined.
#[derive(Debug)]
pub struct Offer {
    start: StartRun,
    taking: Taking,
}

/// The right to take an offer. Dropped, the offer is declined.
#[derive(Debug)]
pub struct Taking {
    taken: oneshot::Sender<FirstTurn>,
    /// Of whoever made the offer.
    _unanswered: Option<Unanswered>,
}

/// The first turn of a run that was offered; whoever made the offer commits it.
#[derive(Debug)]
pub struct FirstTurn {
    turn: TurnCommit,
    told: oneshot::Sender<TurnOutcome>,
}

impl Offer {
    /// An offer, and where its first turn comes to. An error there: it was declined.
    #[must_use]
    pub fn of(start: StartRun) -> (Self, oneshot::Receiver<FirstTurn>) {
        Self::counted(start, None)
    }

    fn counted(
        start: StartRun,
        unanswered: Option<Unanswered>,
    ) -> (Self, oneshot::Receiver<FirstTurn>) {
        let (taken, first_turn) = oneshot::channel();
        let taking = Taking {
            taken,
            _unanswered: unanswered,
        };
        (Self { start, taking }, first_turn)
    }

    /// The run, and the right to take it.
    #[must_use]
    pub fn into_parts(self) -> (StartRun, Taking) {
        (self.start, self.taking)
    }
}

impl HoldsPayloads for Offer {
    fn each_payload<'a>(&'a mut self, visit: Visit<'_, 'a>) {
        self.start.each_payload(visit);
    }
}

impl Taking {
    /// Takes the offer with this turn, and answers what became of it. None: nobody waits for it any more, or it is not known. The run may
    /// be there all the same: the turn can then be committed like any other, and its id makes that safe.
    pub async fn take(self, turn: TurnCommit) -> Option<TurnOutcome> {
        let (told, outcome) = oneshot::channel();
        self.taken.send(FirstTurn { turn, told }).ok()?;
        outcome.await.ok()
    }
}

impl FirstTurn {
    /// The turn, and where to tell what became of it.
    #[must_use]
    pub fn into_parts(self) -> (TurnCommit, oneshot::Sender<TurnOutcome>) {
        (self.turn, self.told)
    }
}

/// An engine's offers.
#[derive(Debug)]
pub struct Offers {
    receiver: mpsc::Receiver<Offer>,
}

impl Offers {
    /// Offers, and where to put them; closed when they are dropped.
    #[must_use]
    pub fn channel() -> (mpsc::Sender<Offer>, Self) {
        let (sender, receiver) = mpsc::channel(UNANSWERED_MAX);
        (sender, Self { receiver })
    }

    /// The next one. None: there will be no more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Offer> {
        self.receiver.recv().await
    }
}

/// The engines in other processes that first turns can be asked of.
#[derive(Debug, Default)]
pub(crate) struct Engines {
    engines: RwLock<Vec<Arc<Connected>>>,
    offers: AtomicU64,
}

#[derive(Debug)]
struct Connected {
    types: BTreeSet<HostedType>,
    offers: mpsc::Sender<Offer>,
    unanswered: AtomicUsize,
    /// Number of its last offer.
    last: AtomicU64,
}

/// Counted until it is dropped. An engine that hangs is asked no more once it has let enough of them lie.
#[derive(Debug)]
struct Unanswered(Arc<Connected>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engines {
    /// One more engine, until its offers are dropped.
    pub(super) fn connect(&self, types: BTreeSet<HostedType>) -> Offers {
        let (sender, offers) = Offers::channel();
        let mut engines = self.engines.write();
        engines.retain(|engine| !engine.offers.is_closed());
        engines.push(Arc::new(Connected {
            types,
            offers: sender,
            unanswered: AtomicUsize::new(0),
            last: AtomicU64::new(0),
        }));
        offers
    }

    /// Offers a run to the engine with the least to do. None: no engine hosts it and has time.
    pub(crate) fn offer(&self, start: &StartRun) -> Option<oneshot::Receiver<FirstTurn>> {
        let hosted = HostedType {
            workflow_type: start.workflow_type.clone(),
            version: start.version.clone(),
        };
        let engine = {
            let engines = self.engines.read();
            let able = engines
                .iter()
                .filter(|engine| engine.types.contains(&hosted) && !engine.offers.is_closed());
            let unanswered = |engine: &Connected| engine.unanswered.load(Ordering::Relaxed);
            let free = able.filter(|engine| unanswered(engine) < UNANSWERED_MAX);
            let order = |engine: &&Arc<Connected>| {
                (unanswered(engine), engine.last.load(Ordering::Relaxed))
            };
            Arc::clone(free.min_by_key(order)?)
        };
        let number = self.offers.fetch_add(1, Ordering::Relaxed) + 1;
        engine.last.store(number, Ordering::Relaxed);
        engine.unanswered.fetch_add(1, Ordering::Relaxed);
        let unanswered = Unanswered(Arc::clone(&engine));
        let (offer, first_turn) = Offer::counted(start.clone(), Some(unanswered));
        engine.offers.try_send(offer).ok()?;
        Some(first_turn)
    }
}

#[cfg(test)]
mod tests {
    use durable_core::Payload;
    use uuid::Uuid;

    use super::*;

    fn start() -> StartRun {
        StartRun::new(Uuid::from_u128(1), "trip", Payload::null())
    }

    fn hosting() -> BTreeSet<HostedType> {
        BTreeSet::from([HostedType {
            workflow_type: "trip".to_owned(),
            version: String::new(),
        }])
    }

    #[tokio::test]
    async fn engines_take_turns_and_one_that_hangs_is_left_alone() {
        let engines = Engines::default();
        assert!(engines.offer(&start()).is_none(), "nobody is there");
        let (mut one, mut other) = (engines.connect(hosting()), engines.connect(hosting()));
        for _ in 0..UNANSWERED_MAX {
            assert!(engines.offer(&start()).is_some());
            assert!(engines.offer(&start()).is_some());
        }
        assert!(engines.offer(&start()).is_none(), "none is free");
        for _ in 0..UNANSWERED_MAX {
            // Both have been offered as many. Declined, the engine is free again.
            drop(one.next().await);
            drop(other.next().await);
        }
        assert!(engines.offer(&start()).is_some());
    }

    #[tokio::test]
    async fn only_engines_that_are_there_and_host_the_type_are_asked() {
        let engines = Engines::default();
        let offers = engines.connect(hosting());
        let mut strange = start();
        strange.version = "2".to_owned();
        assert!(engines.offer(&strange).is_none());
        drop(offers);
        assert!(engines.offer(&start()).is_none());
    }

    #[tokio::test]
    async fn a_declined_offer_is_told() {
        let engines = Engines::default();
        let mut offers = engines.connect(hosting());
        let first_turn = engines.offer(&start()).expect("offered");
        drop(offers.next().await);
        assert!(first_turn.await.is_err());
    }
}
