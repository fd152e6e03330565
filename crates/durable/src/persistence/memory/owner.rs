//! Who takes a run's turns: claims, renewals, and runs that a build cannot turn.

use std::collections::BTreeSet;
use std::time::Duration;

use durable_core::Timestamp;
use uuid::Uuid;

use super::state::{RunState, State};
use crate::persistence::model::after;
use crate::persistence::model::{
    BlockRun, Blocked, ClaimTurns, ClaimedTurn, History, HostedType, Owner, RunRecord, WaitingTypes,
};

impl State {
    pub(super) fn claim_turns(&mut self, claim: &ClaimTurns, now: Timestamp) -> Vec<ClaimedTurn> {
        let hosted: BTreeSet<(&str, &str)> = claim.hosted.iter().map(type_and_version).collect();
        let mut claimed = Vec::new();
        for shard in self.shards.from(claim.first_shard) {
            let free: Vec<Uuid> = self
                .shard(shard)
                .ready
                .iter()
                .map(|(_, run_id)| self.at(*run_id).run())
                .filter(|run| hosted.contains(&(&*run.workflow_type, &*run.version)))
                .filter(|run| is_free(run, &claim.build, now))
                .take(claim.max - claimed.len())
                .map(|run| run.id)
                .collect();
            for run_id in free {
                let owner = Owner {
                    worker_id: claim.worker_id.clone(),
                    expires_at: after(now, claim.lease),
                };
                self.edit_run(run_id, |run| run.owner = Some(owner));
                claimed.push(self.at(run_id).to_turn());
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
    /// The run with the facts that wait for it.
    pub(super) fn to_turn(&self) -> ClaimedTurn {
        ClaimedTurn {
            run: self.run().clone(),
            facts: self.facts.values().cloned().collect(),
        }
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
