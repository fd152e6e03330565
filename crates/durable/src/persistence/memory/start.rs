//! Starting runs: which one a start means, and what a new one looks like.

use durable_core::{Payload, Timestamp};
use uuid::Uuid;

use super::state::State;
use crate::persistence::model::after;
use crate::persistence::model::{
    KeyKind, KeyRecord, Owner, OwnerRequest, ParentLink, ReusePolicy, RunRecord, StartOutcome,
    StartRejection, StartRun, WorkflowStatus,
};
use crate::persistence::{Bug, planted};

/// What a start means.
enum Decision {
    /// A run that exists.
    Existing(Uuid),
    /// A new run, after this one was terminated.
    Start { terminating: Option<Uuid> },
    /// Nothing.
    Refuse(StartRejection),
}

impl State {
    pub(super) fn start_run(
        &mut self,
        start: StartRun,
        parent: Option<ParentLink>,
        now: Timestamp,
    ) -> StartOutcome {
        match self.decide_start(&start) {
            Decision::Refuse(why) => StartOutcome::Rejected(why),
            Decision::Existing(run_id) => self.join_run(run_id, start, now),
            Decision::Start { terminating } => {
                if let Some(last) = terminating {
                    let reason = "replaced by a new run with the same workflow id";
                    self.terminate(last, reason, now);
                    self.replaced = Some(last);
                }
                StartOutcome::Started {
                    run_id: self.create_run(start, parent, now),
                }
            }
        }
    }

    fn decide_start(&self, start: &StartRun) -> Decision {
        let by_key = start
            .idempotency_key
            .as_deref()
            .filter(|_| !planted(Bug::KeyIgnored))
            .and_then(|key| self.run_with_key(KeyKind::Idempotency, key));
        let run_id = start.run_id;
        let by_id = || self.find(run_id).map(|_| run_id);
        if let Some(existing) = by_key.or_else(by_id) {
            // What it brings was meant for a run of its own type.
            if self.at(existing).run().workflow_type != start.workflow_type {
                return Decision::Refuse(StartRejection::KeyConflict { run_id: existing });
            }
            return Decision::Existing(existing);
        }
        if self.has_tombstone(run_id) {
            return Decision::Refuse(StartRejection::Deleted { run_id });
        }
        let last = start
            .business_id
            .as_deref()
            .and_then(|id| self.run_with_key(KeyKind::Business, id));
        match last {
            Some(last) => self.decide_reuse(start, last),
            None => Decision::Start { terminating: None },
        }
    }

    /// The business id was used before, last by the run `last`.
    fn decide_reuse(&self, start: &StartRun, last: Uuid) -> Decision {
        let status = self.at(last).run().status;
        if brings_news(start) && !status.is_terminal() {
            return Decision::Existing(last);
        }
        let refuse = match start.reuse_policy {
            ReusePolicy::RejectDuplicate => true,
            ReusePolicy::AllowDuplicateFailedOnly => status != WorkflowStatus::Failed,
            ReusePolicy::AllowDuplicate | ReusePolicy::TerminateIfRunning => false,
        };
        if refuse {
            return Decision::Refuse(StartRejection::DuplicateBusinessId {
                run_id: last,
                status,
            });
        }
        let terminate =
            start.reuse_policy == ReusePolicy::TerminateIfRunning && !status.is_terminal();
        Decision::Start {
            terminating: terminate.then_some(last),
        }
    }

    /// A start that means a run that exists: its signals and updates go there.
    fn join_run(&mut self, run_id: Uuid, start: StartRun, now: Timestamp) -> StartOutcome {
        let run = self.at(run_id).run();
        let status = run.status;
        if brings_news(&start) {
            if status.is_terminal() {
                return StartOutcome::Rejected(StartRejection::RunFinished { run_id, status });
            }
            self.deliver_new(run_id, start.signals, start.updates, now);
        } else if run.fingerprint != start.fingerprint() {
            return StartOutcome::Rejected(StartRejection::KeyConflict { run_id });
        }
        StartOutcome::Existing { run_id }
    }

    fn create_run(&mut self, start: StartRun, parent: Option<ParentLink>, now: Timestamp) -> Uuid {
        let run_id = start.run_id;
        if let Some(key) = &start.idempotency_key {
            self.put_key(KeyKind::Idempotency, key.clone(), run_id, now);
        }
        if let Some(id) = &start.business_id {
            self.put_key(KeyKind::Business, id.clone(), run_id, now);
        }
        self.put_run(RunRecord {
            id: run_id,
            fingerprint: start.fingerprint(),
            workflow_type: start.workflow_type,
            version: start.version,
            business_id: start.business_id,
            idempotency_key: start.idempotency_key,
            status: WorkflowStatus::Pending,
            input: start.input,
            result: Payload::ABSENT,
            error: None,
            memo: start.memo,
            trace: start.trace,
            parent,
            has_children: false,
            sequence: 0,
            history_start: 0,
            iteration: 0,
            epoch: 0,
            arrivals: 0,
            consumed: 0,
            last_turn: None,
            ready_at: Some(now),
            owner: start.owner.map(|request| owner(request, now)),
            blocked: None,
            execution_deadline: start.execution_timeout.map(|timeout| after(now, timeout)),
            run_deadline: start.run_timeout.map(|timeout| after(now, timeout)),
            run_timeout: start.run_timeout,
            created_at: now,
            updated_at: now,
            started_at: None,
            completed_at: None,
        });
        self.at_mut(run_id).attributes = start.attributes;
        self.deliver_new(run_id, start.signals, start.updates, now);
        run_id
    }

    pub(super) fn put_key(&mut self, kind: KeyKind, key: String, run_id: Uuid, now: Timestamp) {
        let record = KeyRecord {
            kind,
            key: key.clone(),
            run_id,
            created_at: now,
        };
        self.keys.insert((kind, key), record);
    }

    /// The run a key belongs to, if that was not purged.
    fn run_with_key(&self, kind: KeyKind, key: &str) -> Option<Uuid> {
        let record = self.keys.get(&(kind, key.to_owned()))?;
        self.find(record.run_id).map(|run| run.run().id)
    }

    pub(super) fn has_tombstone(&self, run_id: Uuid) -> bool {
        self.keys
            .contains_key(&(KeyKind::Tombstone, run_id.to_string()))
    }
}

/// Ownership from now on.
pub(super) fn owner(request: OwnerRequest, now: Timestamp) -> Owner {
    Owner {
        worker_id: request.worker_id,
        expires_at: after(now, request.lease),
    }
}

fn brings_news(start: &StartRun) -> bool {
    !(start.signals.is_empty() && start.updates.is_empty())
}
