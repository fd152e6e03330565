//! What an operator's call changed, said in audit rows. The same for every store, so that a row is the same everywhere.
//!
//! A call that was refused, or that found everything done already, changed nothing and leaves no row.

use std::sync::atomic::{AtomicU32, Ordering};

use durable_core::{Payload, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::limits::{AUDIT_TEXT_BYTES_MAX, clip};
use super::model::{
    AuditKind, AuditNotes, AuditRecord, AuditTarget, DeadLetterDecision, DeadLetterState,
    DecisionOutcome, DlqFilter, Next, ScheduleRecord, SendOutcome, SendSignal, SendUpdate,
    StartOutcome, StartRun, TerminateOutcome, TerminateRun, TurnCommit, TurnOutcome, WorkerStatus,
    cut,
};
use super::{StoreResult, check};

/// Whose changes are noted, and how many rows that has left so far.
#[derive(Debug)]
pub(crate) struct Noting {
    notes: AuditNotes,
    rows: AtomicU32,
}

impl Noting {
    /// Takes notes that fit.
    pub(crate) fn new(notes: AuditNotes) -> StoreResult<Self> {
        match &notes {
            AuditNotes::One(note) => check::note(note)?,
            AuditNotes::Each(each) => each.iter().flatten().try_for_each(check::note)?,
        }
        Ok(Self {
            notes,
            rows: AtomicU32::new(0),
        })
    }

    /// Numbers for the rows of a call with so many items; answers the first. Taken once a call: one that is planned again leaves the
    /// same rows.
    pub(crate) fn reserve(&self, items: usize) -> u32 {
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        self.rows.fetch_add(items, Ordering::Relaxed)
    }

    /// The row of what an item changed, in a call whose first number this is.
    pub(crate) fn row(
        &self,
        first: u32,
        item: usize,
        change: Change,
        now: Timestamp,
    ) -> Option<AuditRecord> {
        let place = u32::try_from(item).unwrap_or(u32::MAX);
        let (note, number) = match &self.notes {
            AuditNotes::One(note) => (note, first.wrapping_add(place)),
            AuditNotes::Each(each) => {
                let note = each.get(item)?.as_ref()?;
                (note, note.row | ROWS_BESIDE_OTHERS)
            }
        };
        let at = note.now.map_or(now, cut);
        Some(AuditRecord {
            id: AuditRecord::id_of(at, note.request_id, number),
            at,
            request_id: note.request_id,
            actor: note.actor.clone(),
            role: note.role.clone(),
            action: note.action.clone(),
            idempotency_key: note.idempotency_key.clone(),
            target: change.target,
            detail: change.detail,
        })
    }
}

/// Numbers of rows that were noted beside others' begin here, so that a request that does both uses no number twice.
const ROWS_BESIDE_OTHERS: u32 = 1 << 31;

/// What an item changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    target: AuditTarget,
    detail: Payload,
}

impl Change {
    fn of(kind: AuditKind, id: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            target: AuditTarget { kind, id },
            detail: Payload::ABSENT,
        }
    }

    fn run(run_id: Uuid) -> Self {
        Self::of(AuditKind::Run, run_id.to_string())
    }

    fn detail(mut self, detail: &Value) -> Self {
        self.detail = Payload::from_value(detail).unwrap_or(Payload::ABSENT);
        self
    }
}

/// What a start did beside what its outcome says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beside {
    /// Its signals or updates reached a run, and at least one of them was new there.
    pub(crate) heard: bool,
    /// The run that was ended for it, by its reuse policy.
    pub(crate) replaced: Option<Uuid>,
}

/// A start.
pub(crate) fn started(start: &StartRun, outcome: &StartOutcome, beside: Beside) -> Option<Change> {
    let (run_id, created) = match outcome {
        StartOutcome::Started { run_id } => (*run_id, true),
        StartOutcome::Existing { run_id } if beside.heard => (*run_id, false),
        StartOutcome::Existing { .. } | StartOutcome::Rejected(_) => return None,
    };
    let mut detail = json!({ "workflow_type": start.workflow_type, "created": created });
    // The same run may be started again in the same call, which then joins it.
    if let Some(replaced) = beside.replaced.filter(|_| created) {
        detail["replaced"] = json!(replaced);
    }
    Some(Change::run(run_id).detail(&detail))
}

/// A signal.
pub(crate) fn signalled(send: &SendSignal, outcome: &SendOutcome) -> Option<Change> {
    let detail = json!({ "signal_type": send.signal.signal_type });
    accepted(outcome).then(|| Change::run(send.run_id).detail(&detail))
}

/// An update.
pub(crate) fn updated(send: &SendUpdate, outcome: &SendOutcome) -> Option<Change> {
    let detail = json!({ "update": send.update.name });
    accepted(outcome).then(|| Change::run(send.run_id).detail(&detail))
}

fn accepted(outcome: &SendOutcome) -> bool {
    matches!(outcome, SendOutcome::Accepted { .. })
}

/// The end of a run.
pub(crate) fn terminated(run: &TerminateRun, outcome: &TerminateOutcome) -> Option<Change> {
    let ended = matches!(outcome, TerminateOutcome::Terminated);
    let reason = clip(run.reason.clone(), AUDIT_TEXT_BYTES_MAX);
    let detail = json!({ "reason": reason });
    ended.then(|| Change::run(run.run_id).detail(&detail))
}

/// The deletion of a run. The call that goes on with it leaves no second row.
pub(crate) fn run_deleted(run_id: Uuid, newly: bool) -> Option<Change> {
    let detail = json!({ "deleted": true });
    newly.then(|| Change::run(run_id).detail(&detail))
}

/// A turn that an operator took for a run, such as a reset, or that brought its start along.
pub(crate) fn committed(turn: &TurnCommit, outcome: &TurnOutcome) -> Option<Change> {
    let written = matches!(outcome, TurnOutcome::Committed(committed) if !committed.repeated);
    if let Some(start) = turn.start.as_deref().filter(|_| written) {
        let run_id = start.run_id;
        return started(start, &StartOutcome::Started { run_id }, Beside::default());
    }
    let is_reset = matches!(turn.next, Next::Reset { .. });
    let detail = json!({ "from_sequence": turn.expected_sequence, "reset": is_reset });
    written.then(|| Change::run(turn.run_id).detail(&detail))
}

/// A decision about a dead letter.
pub(crate) fn decided(
    run_id: Uuid,
    id: Uuid,
    decision: &DeadLetterDecision,
    outcome: &DecisionOutcome,
) -> Option<Change> {
    let detail = json!({ "run_id": run_id, "state": decision.leads_to().as_str() });
    let done = matches!(outcome, DecisionOutcome::Done);
    done.then(|| Change::of(AuditKind::DeadLetter, id.to_string()).detail(&detail))
}

/// Dead letters that were deleted.
pub(crate) fn letters_purged(filter: &DlqFilter, count: u64) -> Option<Change> {
    let which = filter.activity_type.as_deref().unwrap_or("*");
    let detail = json!({
        "count": count,
        "id": filter.id,
        "run_id": filter.run_id,
        "state": filter.state.map(DeadLetterState::as_str),
        "dead_before": filter.dead_before,
    });
    (count > 0).then(|| Change::of(AuditKind::DeadLetters, which).detail(&detail))
}

/// A schedule that was written.
pub(crate) fn schedule_put(schedule: &ScheduleRecord) -> Change {
    let detail = json!({
        "workflow_type": schedule.workflow_type,
        "cron": clip(schedule.cron.clone(), AUDIT_TEXT_BYTES_MAX),
        "paused": schedule.paused,
    });
    Change::of(AuditKind::Schedule, &*schedule.id).detail(&detail)
}

/// A schedule that was deleted.
pub(crate) fn schedule_deleted(id: &str) -> Change {
    Change::of(AuditKind::Schedule, id).detail(&json!({ "deleted": true }))
}

/// A worker's status.
pub(crate) fn worker_status(worker_id: &str, status: WorkerStatus) -> Change {
    Change::of(AuditKind::Worker, worker_id).detail(&json!({ "status": status.as_str() }))
}

/// A worker that was forgotten.
pub(crate) fn worker_forgotten(worker_id: &str) -> Change {
    Change::of(AuditKind::Worker, worker_id).detail(&json!({ "forgotten": true }))
}

/// A breaker that was forgotten.
pub(crate) fn breaker_reset(key: &str) -> Change {
    Change::of(AuditKind::Breaker, key)
}
