//! What activities did in the world outside and what listeners heard, noted by themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use everruns_durable::activity::ActivityContext;
use everruns_durable::observability::listener::LifecycleEvent;
use everruns_durable::persistence::model::{ReapedTask, TurnCommit};
use parking_lot::Mutex;
use uuid::Uuid;

/// One execution of an activity: a claim of it that some node began to carry out.
#[derive(Debug, Clone)]
pub(super) struct Execution {
    pub(super) run_id: Uuid,
    pub(super) activity_id: String,
    pub(super) activity_type: String,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) node: String,
    pub(super) began_ms: u64,
    pub(super) ended_ms: Option<u64>,
    /// Whether it came to an answer of its own; else it was dropped where it stood.
    pub(super) answered: bool,
}

/// What a listener was told.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) node: String,
    pub(super) event: LifecycleEvent,
}

/// A task whose lease ran out.
struct TakenBack {
    run_id: Uuid,
    activity_type: String,
    at_ms: u64,
}

/// How long an answer may be on its way where calls fail: some tries, far less than a lease.
const ANSWER_MS_MAX: u64 = 500;

/// All executions of a seed, by serial number, and all that was heard, in order.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    executions: Arc<Mutex<Vec<Execution>>>,
    taken_back: Arc<Mutex<Vec<TakenBack>>>,
    heard: Arc<Mutex<Vec<Heard>>>,
    /// Turns that record nothing, by id: their run, and the number of its last event.
    empty_turns: Arc<Mutex<BTreeMap<Uuid, (Uuid, i64)>>>,
}

impl Ledger {
    pub(super) fn begin(&self, ctx: &ActivityContext, node: &str, at_ms: u64) -> usize {
        let mut executions = self.executions.lock();
        executions.push(Execution {
            run_id: ctx.workflow_id,
            activity_id: ctx.activity_id.clone(),
            activity_type: ctx.activity_type().to_owned(),
            attempt: ctx.attempt,
            max_attempts: ctx.max_attempts,
            node: node.to_owned(),
            began_ms: at_ms,
            ended_ms: None,
            answered: false,
        });
        executions.len() - 1
    }

    pub(super) fn end(&self, serial: usize, at_ms: u64, answered: bool) {
        if let Some(execution) = self.executions.lock().get_mut(serial) {
            execution.ended_ms = Some(at_ms);
            execution.answered = answered;
        }
    }

    /// Tasks were taken back from nodes that could not renew their leases.
    pub(super) fn taken_back(&self, tasks: &[ReapedTask], at_ms: u64) {
        let taken = tasks.iter().map(|task| TakenBack {
            run_id: task.run_id,
            activity_type: task.activity_type.clone(),
            at_ms,
        });
        self.taken_back.lock().extend(taken);
    }

    /// Whether its task was taken back while it ran, or while its answer was on the way to the store. An answer that was given and came to
    /// nothing is no excuse for another execution.
    pub(super) fn was_taken_back(&self, execution: &Execution) -> bool {
        let ended_ms = execution.ended_ms.unwrap_or(u64::MAX);
        let until_ms = ended_ms.saturating_add(ANSWER_MS_MAX);
        self.taken_back.lock().iter().any(|task| {
            (task.run_id, &task.activity_type) == (execution.run_id, &execution.activity_type)
                && (execution.began_ms..=until_ms).contains(&task.at_ms)
        })
    }

    pub(super) fn hear(&self, node: &str, event: LifecycleEvent) {
        let node = node.to_owned();
        self.heard.lock().push(Heard { node, event });
    }

    /// A turn is sent to the store, perhaps again.
    pub(super) fn turn_sent(&self, turn: &TurnCommit) {
        if turn.events.is_empty() {
            let place = (turn.run_id, turn.expected_sequence);
            self.empty_turns.lock().insert(turn.turn_id, place);
        }
    }

    /// Turns that recorded nothing behind this event of a run, or would have.
    pub(super) fn empty_turns_after(&self, run_id: Uuid, sequence: i64) -> usize {
        let turns = self.empty_turns.lock();
        let here = turns.values().filter(|place| **place == (run_id, sequence));
        here.count()
    }

    pub(super) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().clone()
    }

    pub(super) fn executions(&self) -> Vec<Execution> {
        self.executions.lock().clone()
    }
}
