//! Runs are started.

use std::time::Duration;

use uuid::Uuid;

use super::end::terminated;
use super::work::Work;
use crate::persistence::model::{
    KeyKind, ParentLink, ReusePolicy, RunRecord, StartOutcome, StartRejection, StartRun,
    StoredStart, WorkflowStatus,
};
use crate::persistence::sql::rows::Load;
use crate::persistence::{Bug, planted};

/// The keys that decide about a start; loaded before the runs they point to.
pub(crate) fn keys_of(start: &StartRun, load: &mut Load) {
    if let Some(key) = &start.idempotency_key {
        load.keys.push((KeyKind::Idempotency, key.clone()));
    }
    if let Some(id) = &start.business_id {
        load.keys.push((KeyKind::Business, id.clone()));
    }
    load.keys
        .push((KeyKind::Tombstone, start.run_id.to_string()));
}

/// What a start needs besides: the runs that have its keys, and what of its signals and updates they have already.
pub(crate) fn runs_of(start: &StartRun, work: &Work, load: &mut Load) {
    let mut runs = vec![start.run_id];
    let of_key = |kind: KeyKind, key: &Option<String>| {
        let key = key.clone()?;
        work.loaded
            .keys
            .get(&(kind, key))
            .map(|record| record.run_id)
    };
    runs.extend(of_key(KeyKind::Idempotency, &start.idempotency_key));
    let last = of_key(KeyKind::Business, &start.business_id);
    runs.extend(last);
    if start.reuse_policy == ReusePolicy::TerminateIfRunning {
        load.unread_of.extend(last.map(|run_id| (run_id, i64::MIN)));
    }
    for run_id in &runs {
        load.signals
            .extend(start.signals.iter().map(|s| (*run_id, s.signal_id)));
        load.updates
            .extend(start.updates.iter().map(|u| (*run_id, u.update_id.clone())));
    }
    load.runs.extend(runs);
}

impl Work {
    /// Starts a run, finds it started, or refuses.
    pub(crate) fn start(&mut self, start: &StartRun, parent: Option<ParentLink>) -> StartOutcome {
        if let Some(existing) = self.existing_run(start) {
            // What it brings was meant for a run of its own type.
            let run = self.run(existing);
            if run.is_none_or(|run| run.workflow_type != start.workflow_type) {
                return StartOutcome::Rejected(StartRejection::KeyConflict { run_id: existing });
            }
            return self.join_existing(existing, start);
        }
        if self
            .loaded
            .keys
            .contains_key(&(KeyKind::Tombstone, start.run_id.to_string()))
        {
            return StartOutcome::Rejected(StartRejection::Deleted {
                run_id: start.run_id,
            });
        }
        if let Some(last) = start
            .business_id
            .as_deref()
            .and_then(|id| self.run_of_key(KeyKind::Business, id))
        {
            let status = self
                .run(last)
                .map_or(WorkflowStatus::Pending, |run| run.status);
            if brings_facts(start) && !status.is_terminal() {
                return self.join_existing(last, start);
            }
            let refused = match start.reuse_policy {
                ReusePolicy::RejectDuplicate => true,
                ReusePolicy::AllowDuplicateFailedOnly => status != WorkflowStatus::Failed,
                ReusePolicy::AllowDuplicate | ReusePolicy::TerminateIfRunning => false,
            };
            if refused {
                let why = StartRejection::DuplicateBusinessId {
                    run_id: last,
                    status,
                };
                return StartOutcome::Rejected(why);
            }
            if start.reuse_policy == ReusePolicy::TerminateIfRunning && !status.is_terminal() {
                let reason = "replaced by a new run with the same workflow id";
                self.end_by_store(last, terminated(reason));
                self.changes.replaced.insert(start.run_id, last);
            }
        }
        self.create_run(start, parent);
        StartOutcome::Started {
            run_id: start.run_id,
        }
    }

    fn existing_run(&self, start: &StartRun) -> Option<Uuid> {
        let by_key = start
            .idempotency_key
            .as_deref()
            .filter(|_| !planted(Bug::KeyIgnored))
            .and_then(|key| self.run_of_key(KeyKind::Idempotency, key));
        by_key.or_else(|| self.run(start.run_id).map(|run| run.id))
    }

    fn join_existing(&mut self, run_id: Uuid, start: &StartRun) -> StartOutcome {
        let run = self.run(run_id).expect("an existing run is loaded");
        let (status, fingerprint) = (run.status, run.fingerprint);
        if !brings_facts(start) {
            return if fingerprint == start.fingerprint() {
                StartOutcome::Existing { run_id }
            } else {
                StartOutcome::Rejected(StartRejection::KeyConflict { run_id })
            };
        }
        if status.is_terminal() {
            return StartOutcome::Rejected(StartRejection::RunFinished { run_id, status });
        }
        self.deliver_initial(run_id, start);
        StartOutcome::Existing { run_id }
    }

    fn deliver_initial(&mut self, run_id: Uuid, start: &StartRun) {
        for signal in &start.signals {
            if !self
                .loaded
                .signals
                .contains_key(&(run_id, signal.signal_id))
            {
                self.deliver_signal(run_id, signal);
            }
        }
        for update in &start.updates {
            if !self
                .loaded
                .updates
                .contains_key(&(run_id, update.update_id.clone()))
            {
                self.deliver_update(run_id, update);
            }
        }
    }

    fn create_run(&mut self, start: &StartRun, parent: Option<ParentLink>) {
        let run_id = start.run_id;
        if let Some(key) = &start.idempotency_key {
            self.put_key(KeyKind::Idempotency, key, run_id);
        }
        if let Some(id) = &start.business_id {
            self.put_key(KeyKind::Business, id, run_id);
        }
        self.insert_run(RunRecord::new(start, parent, self.now));
        if !start.attributes.is_empty() {
            let names = start.attributes.keys().cloned().collect();
            self.loaded.attributes.insert(run_id, names);
        }
        self.changes
            .set_attributes(run_id, start.attributes.clone());
        self.deliver_initial(run_id, start);
    }
}

fn brings_facts(start: &StartRun) -> bool {
    !(start.signals.is_empty() && start.updates.is_empty())
}

/// A child's start as a message carries it.
pub(crate) fn stored_start(start: &StartRun) -> StoredStart {
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    StoredStart {
        run_id: start.run_id,
        workflow_type: start.workflow_type.clone(),
        version: start.version.clone(),
        input: start.input.clone(),
        business_id: start.business_id.clone(),
        reuse_policy: start.reuse_policy,
        attributes: start.attributes.clone(),
        memo: start.memo.clone(),
        execution_timeout_ms: start.execution_timeout.map(millis),
        run_timeout_ms: start.run_timeout.map(millis),
        trace: start.trace.clone(),
        sealed_fingerprint: start.sealed_fingerprint,
    }
}

/// The start that a message carries.
pub(crate) fn restored_start(stored: &StoredStart) -> StartRun {
    StartRun {
        version: stored.version.clone(),
        business_id: stored.business_id.clone(),
        reuse_policy: stored.reuse_policy,
        attributes: stored.attributes.clone(),
        memo: stored.memo.clone(),
        execution_timeout: stored.execution_timeout_ms.map(Duration::from_millis),
        run_timeout: stored.run_timeout_ms.map(Duration::from_millis),
        trace: stored.trace.clone(),
        sealed_fingerprint: stored.sealed_fingerprint,
        ..StartRun::new(
            stored.run_id,
            stored.workflow_type.clone(),
            stored.input.clone(),
        )
    }
}
