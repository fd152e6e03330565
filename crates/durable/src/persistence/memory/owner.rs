//! Who takes a run's turns: claims, renewals, and runs that a build cannot turn.

use std::collections::BTreeSet;
use std::time::Duration;

use durable_core::Timestamp;
use uuid::Uuid;

use super::state::{RunState, State};
use crate::persistence::limits::{HISTORY_PAGE_BYTES_MAX, HISTORY_PAGE_EVENTS_MAX, fitting};
use crate::persistence::model::after;
use crate::persistence::model::{
    BlockRun, Blocked, ClaimTurns, ClaimedTurn, History, HostedType, Owner, RunRecord, WaitingTypes,
};
use crate::persistence::prefix::Prefix;

impl State {
    pub(super) fn claim_turns(&mut self, claim: &ClaimTurns, now: Timestamp) -> Vec<ClaimedTurn> {
        let hosted: BTreeSet<(&str, &str)> = claim.hosted.iter().map(type_and_version).collect();
        let mut claimed = Vec::new();
        let mut prefix = Prefix::default();
        for shard in self.shards.from(claim.first_shard) {
            // Half of what fits is enough: a shard gives as much again.
            if ClaimedTurn::may_have_left_some(&claimed) {
                break;
            }
            let free: Vec<(Uuid, u64)> = self
                .shard(shard)
                .ready
                .iter()
                .map(|(_, run_id)| self.at(*run_id).run())
                .filter(|run| hosted.contains(&(&*run.workflow_type, &*run.version)))
                .filter(|run| is_free(run, &claim.build, now))
                .take(claim.max - claimed.len())
                .map(|run| (run.id, run.turn_bytes()))
                .collect();
            let fitting = fitting(free.iter().map(|(_, bytes)| *bytes));
            for (run_id, _) in free.into_iter().take(fitting) {
                let owner = Owner {
                    worker_id: claim.worker_id.clone(),
                    expires_at: after(now, claim.lease),
                };
                self.edit_run(run_id, |run| run.owner = Some(owner));
                claimed.push(self.at(run_id).to_turn(&mut prefix));
            }
        }
        claimed
    }

    pub(super) fn waiting_types(&self) -> WaitingTypes {
        let mut waiting = WaitingTypes::default();
        for shard in self.shard_indexes() {
            let ready = shard.ready.iter().map(|(_, run_id)| self.at(*run_id).run());
            waiting.runs.extend(ready.map(|run| HostedType {
                workflow_type: run.workflow_type.clone(),
                version: run.version.clone(),
            }));
            let tasks = shard
                .claimable
                .iter()
                .filter(|(_, tasks)| !tasks.is_empty());
            waiting.tasks.extend(tasks.map(|(name, _)| name.clone()));
        }
        waiting
    }

    /// Events after a place, at most so many.
    pub(super) fn load_history(&self, run_id: Uuid, after: i64, limit: usize) -> Option<History> {
        let run = self.find(run_id)?;
        let from = run
            .events
            .partition_point(|event| event.sequence_num <= after);
        Some(History {
            run: run.run().clone(),
            events: run.events[from..].iter().take(limit).cloned().collect(),
        })
    }

    /// The first page of the events after a place.
    pub(super) fn history_page(&self, run_id: Uuid, after: i64) -> Option<History> {
        let mut history = self.load_history(run_id, after, HISTORY_PAGE_EVENTS_MAX)?;
        let mut bytes = 0;
        let page = history.events.iter().take_while(|event| {
            let belongs = bytes < HISTORY_PAGE_BYTES_MAX;
            let stored = event.event.encode();
            bytes += stored.data.len() + stored.payload.len();
            belongs
        });
        let events = page.count();
        history.events.truncate(events);
        Some(history)
    }

    pub(super) fn block_run(&mut self, block: BlockRun, now: Timestamp) -> bool {
        let blocks = self
            .find(block.run_id)
            .is_some_and(|run| !run.has_ended() && run.run().sequence == block.expected_sequence);
        if blocks {
            self.edit_run(block.run_id, |run| {
                run.blocked = Some(Blocked {
                    build: block.build,
                    reason: block.reason,
                });
                run.owner = None;
                run.updated_at = now;
            });
        }
        blocks
    }

    pub(super) fn renew_run(
        &mut self,
        worker_id: &str,
        run_id: Uuid,
        lease: Duration,
        now: Timestamp,
    ) -> bool {
        let owns = self.owns(worker_id, run_id);
        let renews = owns && self.at(run_id).run().ready_at.is_none();
        if renews {
            let owner = Owner {
                worker_id: worker_id.to_owned(),
                expires_at: after(now, lease),
            };
            self.edit_run(run_id, |run| run.owner = Some(owner));
        }
        renews
    }

    pub(super) fn release_run(&mut self, worker_id: &str, run_id: Uuid) {
        if self.owns(worker_id, run_id) {
            self.edit_run(run_id, |run| run.owner = None);
        }
    }

    fn owns(&self, worker_id: &str, run_id: Uuid) -> bool {
        self.find(run_id)
            .and_then(|run| run.run().owner.as_ref())
            .is_some_and(|owner| owner.worker_id == worker_id)
    }
}

impl RunState {
    /// The run with the first of the facts that wait for it.
    pub(super) fn to_turn(&self, prefix: &mut Prefix) -> ClaimedTurn {
        prefix.next_run();
        let mut facts = Vec::new();
        for fact in self.facts.values() {
            if !prefix.takes_more() {
                break;
            }
            prefix.count(fact);
            facts.push(fact.clone());
        }
        let last_waiting = self.facts.last_key_value().map(|(arrival, _)| *arrival);
        ClaimedTurn::new(self.run().clone(), facts, last_waiting)
    }
}

fn type_and_version(hosted: &HostedType) -> (&str, &str) {
    (&hosted.workflow_type, &hosted.version)
}

fn is_free(run: &RunRecord, build: &str, now: Timestamp) -> bool {
    let owned = run
        .owner
        .as_ref()
        .is_some_and(|owner| owner.expires_at > now);
    let blocked = run
        .blocked
        .as_ref()
        .is_some_and(|blocked| blocked.build == build);
    !owned && !blocked
}
