//! Turns.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::model::{Next, TurnCommit, TurnOutcome};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::start::keys_of;
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};

/// Commits turns of one shard.
#[derive(Debug)]
pub(crate) struct CommitTurns {
    pub(crate) turns: Vec<TurnCommit>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for CommitTurns {
    type Answer = Vec<TurnOutcome>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let loaded = tx.load(self.first_look()).await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let second = self.second_look(&work);
        if second != Load::default() {
            let more = tx.load(second).await?;
            work.add(more);
        }
        let outcomes = self.turns.iter().map(|turn| work.turn(turn)).collect();
        Ok((outcomes, work.finish()))
    }
}

impl CommitTurns {
    fn first_look(&self) -> Load {
        let mut load = Load::default();
        for turn in &self.turns {
            let run_id = turn.run_id;
            load.runs.push(run_id);
            if let Some(start) = &turn.start {
                keys_of(start, &mut load);
            }
            load.leased.extend(
                turn.finished_tasks
                    .iter()
                    .map(|f| (run_id, f.lease.task_id)),
            );
            let given_up = turn.cancelled_activities.iter();
            load.activities
                .extend(given_up.map(|id| (run_id, id.clone())));
            let new_timers = turn.timers.iter().map(|timer| &timer.timer_id);
            let timers = turn.fired_timers.iter().chain(new_timers);
            load.timers.extend(timers.map(|id| (run_id, id.clone())));
            let letters = turn.requeued_letters.iter();
            load.letters.extend(letters.map(|id| (run_id, *id)));
            if turn.leaves_rest_unread() {
                load.unread_of.push((run_id, turn.facts_through));
            }
            if turn.sets_attributes() {
                load.attributes_of.push(run_id);
            }
            if let Next::ContinueAsNew { carried, .. } = &turn.next {
                load.signals
                    .extend(carried.iter().map(|signal| (run_id, signal.signal_id)));
            }
        }
        load
    }

    /// Rarely needed: whether ids are in use can only matter where other tasks stay in the queue, and where the new
    /// tasks stand is only asked again when the turn was committed before.
    fn second_look(&self, work: &Work) -> Load {
        let mut load = Load::default();
        for turn in self.turns.iter().filter(|turn| !turn.tasks.is_empty()) {
            let Some(run) = work.run(turn.run_id) else {
                continue;
            };
            if run.last_turn == Some(turn.turn_id) {
                load.tasks
                    .extend(turn.tasks.iter().map(|new| (turn.run_id, new.task_id)));
                continue;
            }
            let finished = i32::try_from(turn.finished_tasks.len()).unwrap_or(i32::MAX);
            if run.task_count > finished && !matches!(turn.next, Next::Reset { .. }) {
                load.queued_of.push(turn.run_id);
            }
        }
        load
    }
}
