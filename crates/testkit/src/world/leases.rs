//! What claims about turns, tasks and leases share.

use std::time::Duration;

use durable_core::{Payload, Timestamp, WorkflowEvent};
use everruns_durable::persistence::model::{
    HistoryEvent, LeaseExtension, LeaseState, NewTimer, Next, PurgeRuns, RollupRecord, StartRun,
    TaskLease, TaskRelease, TurnCommit,
};
use uuid::Uuid;

use super::{LEASE, WORKFLOW, World, boom, json, one};

impl World {
    /// New ids, from the smallest, of runs that all live in one shard.
    pub fn ids_in_one_shard(&self, count: usize) -> Vec<Uuid> {
        let shards = self.store.shards();
        let mut ids = vec![self.id()];
        while ids.len() < count {
            let id = self.id();
            if shards.of_run(id) == shards.of_run(ids[0]) {
                ids.push(id);
            }
        }
        ids
    }

    /// Starts runs that all live in one shard; their ids, from the smallest.
    pub async fn start_in_one_shard(&self, count: usize) -> Vec<Uuid> {
        let ids = self.ids_in_one_shard(count);
        for id in &ids {
            self.start_one(StartRun::new(*id, WORKFLOW, json("{}")))
                .await;
        }
        ids
    }

    /// All events of a run as stored, earlier iterations and epochs included.
    pub async fn stored_events(&self, run_id: Uuid) -> Vec<HistoryEvent> {
        let history = self.store.load_history(run_id, 0).await;
        history
            .expect("load_history")
            .expect("the run exists")
            .events
    }

    /// Totals of all hours.
    pub async fn totals(&self) -> Vec<RollupRecord> {
        let from = Timestamp::from_second(0).expect("an instant");
        self.store.rollups(from).await.expect("rollups")
    }

    /// Extends a lease by [`LEASE`], with a heartbeat or without.
    pub async fn extend(&self, lease: &TaskLease, heartbeat: Option<Payload>) -> LeaseState {
        let extension = LeaseExtension {
            lease: lease.clone(),
            extend: LEASE,
            heartbeat,
        };
        one(self.store.extend_leases(vec![extension], self.now()).await)
    }

    /// Gives a task back unrun. False: the lease was lost.
    pub async fn release(&self, lease: &TaskLease) -> bool {
        self.give_back(TaskRelease::now(lease.clone())).await
    }

    /// Parks a task for so long. False: the lease was lost.
    pub async fn park(&self, lease: &TaskLease, time: Duration) -> bool {
        self.give_back(TaskRelease::parked(lease.clone(), time))
            .await
    }

    async fn give_back(&self, release: TaskRelease) -> bool {
        one(self.store.release_tasks(vec![release], self.now()).await)
    }

    /// The same turn made to end the run, or to continue it as new.
    #[must_use]
    pub fn ending(mut turn: TurnCommit, next: Next) -> TurnCommit {
        turn.events.push(match &next {
            Next::Complete { result } => WorkflowEvent::WorkflowCompleted {
                result: result.clone(),
            },
            Next::Fail { error } => WorkflowEvent::WorkflowFailed {
                error: error.clone().into(),
            },
            Next::Cancel { reason } => WorkflowEvent::WorkflowCancelled {
                reason: reason.clone(),
            },
            Next::ContinueAsNew { input, .. } => WorkflowEvent::WorkflowContinuedAsNew {
                iteration: 1,
                input: input.clone(),
            },
            Next::Wait | Next::Reset { .. } => panic!("{next:?} does not end a run"),
        });
        turn.next = next;
        turn
    }

    /// The same turn made to reset the run.
    #[must_use]
    pub fn resetting(mut turn: TurnCommit, to_sequence: i64) -> TurnCommit {
        let reset = WorkflowEvent::WorkflowReset {
            to_sequence,
            epoch: turn.expected_epoch + 1,
            reason: "a test wants it".into(),
        };
        turn.events.insert(0, reset);
        turn.next = Next::Reset { to_sequence };
        turn
    }

    /// Fails the run by a turn.
    pub async fn fail_run(&self, run_id: Uuid) {
        let next = Next::Fail { error: boom() };
        let turn = self.turn(run_id).await;
        self.committed(Self::ending(turn, next)).await;
    }

    /// Cancels the run by a turn.
    pub async fn cancel_run(&self, run_id: Uuid) {
        let next = Next::Cancel {
            reason: "asked to".into(),
        };
        let turn = self.turn(run_id).await;
        self.committed(Self::ending(turn, next)).await;
    }

    /// Resets the run by a turn that takes every fact that waits.
    pub async fn reset(&self, run_id: Uuid, to_sequence: i64) {
        let turn = self.turn(run_id).await;
        self.committed(Self::resetting(turn, to_sequence)).await;
    }

    /// A timer to set.
    #[must_use]
    pub fn timer(timer_id: &str, after: Duration) -> NewTimer {
        NewTimer {
            timer_id: timer_id.into(),
            after,
        }
    }

    /// Deletes every run that has ended by now. Time moves on by a second.
    pub async fn purge(&self) -> u64 {
        self.advance(Duration::from_secs(1));
        let purge = PurgeRuns {
            finished_before: self.instant(),
            max: 1000,
            first_shard: 0,
            now: self.now(),
        };
        self.store.purge_runs(purge).await.expect("purge_runs")
    }
}
