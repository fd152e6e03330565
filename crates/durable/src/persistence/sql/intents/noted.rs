//! Any write of an operator's, with the audit rows of what it changed in the same transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use durable_core::Timestamp;
use uuid::Uuid;

use super::commit_turns::CommitTurns;
use super::dead_letters::DecideDeadLetter;
use super::schedules::SwapSchedule;
use super::sends::{SendSignals, SendUpdates};
use super::starts::StartRuns;
use super::terminate::TerminateRuns;
use crate::persistence::StoreResult;
use crate::persistence::audit::{self, Beside, Change, Noting};
use crate::persistence::model::{
    DecisionOutcome, SendOutcome, StartOutcome, StartRun, TerminateOutcome, TurnOutcome,
};
use crate::persistence::sql::rows::Changes;
use crate::persistence::sql::tx::{Intent, Patience, Tx};

/// A write that says what it changed.
pub(crate) trait Noticeable: Intent {
    /// How many items it has.
    fn items(&self) -> usize;

    /// What which item changed.
    fn changed(&self, answer: &Self::Answer, changes: &Changes) -> Vec<(usize, Change)>;
}

/// A write whose changes are noted.
#[derive(Debug)]
pub(crate) struct Noted<I> {
    intent: I,
    noting: Arc<Noting>,
    /// Number of the row of the call's first item.
    first: u32,
    /// Places of the items in the call; none: they are all there is.
    places: Option<Vec<usize>>,
}

impl<I: Noticeable> Noted<I> {
    /// All of a call.
    pub(crate) fn new(intent: I, noting: Arc<Noting>) -> Self {
        let first = noting.reserve(intent.items());
        Self {
            intent,
            noting,
            first,
            places: None,
        }
    }

    /// Those of a call's items that have these places in it; the numbers were reserved for all of them at once.
    pub(crate) fn part(intent: I, noting: Arc<Noting>, first: u32, places: Vec<usize>) -> Self {
        Self {
            intent,
            noting,
            first,
            places: Some(places),
        }
    }

    fn place(&self, item: usize) -> usize {
        let places = self.places.as_ref();
        let place = places.and_then(|places| places.get(item));
        place.copied().unwrap_or(item)
    }
}

impl<I: Noticeable> Intent for Noted<I> {
    type Answer = I::Answer;

    fn at(&self) -> Option<Timestamp> {
        self.intent.at()
    }

    fn patience(&self) -> Patience {
        self.intent.patience()
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let (answer, mut changes) = self.intent.plan(tx).await?;
        let changed = self.intent.changed(&answer, &changes);
        if !changed.is_empty() {
            let now = tx.now().await?;
            let row = |(item, change)| {
                let place = self.place(item);
                self.noting.row(self.first, place, change, now)
            };
            changes.insert_audit = changed.into_iter().filter_map(row).collect();
        }
        Ok((answer, changes))
    }
}

/// Items with their answers, of which some changed something.
fn of_each<I, A>(
    items: &[I],
    answers: &[A],
    mut changed: impl FnMut(&I, &A) -> Option<Change>,
) -> Vec<(usize, Change)> {
    let each = items.iter().zip(answers).enumerate();
    each.filter_map(|(place, (item, answer))| Some((place, changed(item, answer)?)))
        .collect()
}

impl Noticeable for StartRuns {
    fn items(&self) -> usize {
        self.starts.len()
    }

    fn changed(&self, outcomes: &Vec<StartOutcome>, changes: &Changes) -> Vec<(usize, Change)> {
        let mut news = News::of(changes);
        of_each(&self.starts, outcomes, |start, outcome| {
            let beside = Beside {
                heard: news.take(start, outcome),
                replaced: changes.replaced.get(&start.run_id).copied(),
            };
            audit::started(start, outcome, beside)
        })
    }
}

/// Signals and updates that reached runs in this call.
struct News {
    signals: BTreeSet<(Uuid, Uuid)>,
    updates: BTreeSet<(Uuid, String)>,
}

impl News {
    fn of(changes: &Changes) -> Self {
        let signals = changes.put_signals.iter();
        let updates = changes.insert_updates.iter();
        Self {
            signals: signals.map(|s| (s.run_id, s.signal_id)).collect(),
            updates: updates.map(|u| (u.run_id, u.update_id.clone())).collect(),
        }
    }

    /// Whether any of them came with this start. The same start again in the same call brought nothing.
    fn take(&mut self, start: &StartRun, outcome: &StartOutcome) -> bool {
        let (StartOutcome::Started { run_id } | StartOutcome::Existing { run_id }) = outcome else {
            return false;
        };
        let before = self.signals.len() + self.updates.len();
        for signal in &start.signals {
            self.signals.remove(&(*run_id, signal.signal_id));
        }
        for update in &start.updates {
            self.updates.remove(&(*run_id, update.update_id.clone()));
        }
        self.signals.len() + self.updates.len() < before
    }
}

impl Noticeable for SendSignals {
    fn items(&self) -> usize {
        self.signals.len()
    }

    fn changed(&self, outcomes: &Vec<SendOutcome>, _: &Changes) -> Vec<(usize, Change)> {
        of_each(&self.signals, outcomes, audit::signalled)
    }
}

impl Noticeable for SendUpdates {
    fn items(&self) -> usize {
        self.updates.len()
    }

    fn changed(&self, outcomes: &Vec<SendOutcome>, _: &Changes) -> Vec<(usize, Change)> {
        of_each(&self.updates, outcomes, audit::updated)
    }
}

impl Noticeable for TerminateRuns {
    fn items(&self) -> usize {
        self.runs.len()
    }

    fn changed(&self, outcomes: &Vec<TerminateOutcome>, _: &Changes) -> Vec<(usize, Change)> {
        of_each(&self.runs, outcomes, audit::terminated)
    }
}

impl Noticeable for CommitTurns {
    fn items(&self) -> usize {
        self.turns.len()
    }

    fn changed(&self, outcomes: &Vec<TurnOutcome>, _: &Changes) -> Vec<(usize, Change)> {
        of_each(&self.turns, outcomes, audit::committed)
    }
}

impl Noticeable for DecideDeadLetter {
    fn items(&self) -> usize {
        1
    }

    fn changed(&self, outcome: &DecisionOutcome, _: &Changes) -> Vec<(usize, Change)> {
        let change = audit::decided(self.run_id, self.id, &self.decision, outcome);
        change.map(|change| (0, change)).into_iter().collect()
    }
}

impl Noticeable for SwapSchedule {
    fn items(&self) -> usize {
        1
    }

    fn changed(&self, swapped: &bool, _: &Changes) -> Vec<(usize, Change)> {
        let change = swapped.then(|| audit::schedule_put(&self.schedule));
        change.map(|change| (0, change)).into_iter().collect()
    }
}
