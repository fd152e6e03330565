//! Whether a turn is accepted. Pure: it looks and writes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use durable_core::Timestamp;
use uuid::Uuid;

use super::clock::later;
use super::state::RunState;
use crate::persistence::model::{Next, Rejection, TurnCommit, WorkflowStatus};
use crate::persistence::{Bug, planted};

/// Whether the run takes the turn; the first thing that is in the way decides.
pub(super) fn accept(run: &RunState, turn: &TurnCommit, now: Timestamp) -> Result<(), Rejection> {
    place_is_right(run, turn)?;
    facts_are_right(run, turn)?;
    leases_hold(run, turn)?;
    timers_are_due(run, turn, now)?;
    ids_are_free(run, turn)?;
    reset_is_inside(run, turn)
}

fn place_is_right(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    let run = run.run();
    let revives = matches!(turn.next, Next::Reset { .. }) && run.status == WorkflowStatus::Failed;
    if run.status.is_terminal() && !revives {
        return Err(Rejection::RunFinished { status: run.status });
    }
    if run.epoch != turn.expected_epoch {
        return Err(Rejection::Epoch { found: run.epoch });
    }
    if run.sequence != turn.expected_sequence && !planted(Bug::SequenceUnchecked) {
        return Err(Rejection::Sequence {
            found: run.sequence,
        });
    }
    Ok(())
}

fn facts_are_right(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    let (consumed, arrivals) = (run.run().consumed, run.run().arrivals);
    if !(consumed..=arrivals).contains(&turn.facts_through) {
        return Err(Rejection::Facts { consumed, arrivals });
    }
    let needs_all = !matches!(turn.next, Next::Wait | Next::Reset { .. });
    if needs_all && turn.facts_through != arrivals && !planted(Bug::EndsOverUnseenFacts) {
        return Err(Rejection::UnseenFacts { arrivals });
    }
    Ok(())
}

fn leases_hold(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    let mut seen = BTreeSet::new();
    for finished in &turn.finished_tasks {
        let lease = &finished.lease;
        let holds = lease.run_id == turn.run_id
            && run
                .tasks()
                .get(&lease.task_id)
                .is_some_and(|task| task.is_leased_as(lease));
        if !(holds && seen.insert(lease.task_id)) {
            return Err(Rejection::LeaseLost {
                task_id: lease.task_id,
            });
        }
    }
    Ok(())
}

fn timers_are_due(run: &RunState, turn: &TurnCommit, now: Timestamp) -> Result<(), Rejection> {
    let horizon = timer_horizon(now);
    let mut seen = BTreeSet::new();
    for timer_id in &turn.fired_timers {
        let timer = run.timers().get(timer_id);
        let due = timer.is_some_and(|timer| timer.fire_at <= horizon);
        if !(due && seen.insert(timer_id)) {
            return Err(Rejection::TimerNotDue {
                timer_id: timer_id.clone(),
            });
        }
    }
    Ok(())
}

/// Up to when timers are due.
pub(super) fn timer_horizon(now: Timestamp) -> Timestamp {
    if planted(Bug::TimerFiresEarly) {
        return later(now, Duration::from_secs(1));
    }
    now
}

/// New ids are compared with what the turn leaves in the queue.
fn ids_are_free(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    if drops_queue(&turn.next) {
        return Ok(());
    }
    let in_use = |what, id: String| Err(Rejection::IdInUse { what, id });
    let leaving: BTreeSet<Uuid> = turn
        .finished_tasks
        .iter()
        .map(|finished| finished.lease.task_id)
        .chain(
            turn.cancelled_activities
                .iter()
                .filter_map(|id| run.task_of(id)),
        )
        .collect();
    for task in &turn.tasks {
        if run.tasks().contains_key(&task.task_id) && !leaving.contains(&task.task_id) {
            return in_use("task", task.task_id.to_string());
        }
        let queued = run.task_of(&task.activity_id);
        if queued.is_some_and(|id| !leaving.contains(&id)) {
            return in_use("activity", task.activity_id.clone());
        }
    }
    let forgotten: BTreeSet<&String> = turn
        .fired_timers
        .iter()
        .chain(&turn.cancelled_timers)
        .collect();
    for timer in &turn.timers {
        let id = &timer.timer_id;
        if run.timers().contains_key(id) && !forgotten.contains(id) {
            return in_use("timer", id.clone());
        }
    }
    Ok(())
}

fn reset_is_inside(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    let Next::Reset { to_sequence } = turn.next else {
        return Ok(());
    };
    let run = run.run();
    if run.history_start < to_sequence && to_sequence <= run.sequence {
        return Ok(());
    }
    Err(Rejection::ResetOutside {
        to_sequence,
        first: run.history_start + 1,
        last: run.sequence,
    })
}

/// Whether all tasks and timers of the run leave with the turn.
pub(super) fn drops_queue(next: &Next) -> bool {
    match next {
        Next::Wait => false,
        Next::Reset { .. } => !planted(Bug::ResetKeepsEpoch),
        Next::Complete { .. }
        | Next::Fail { .. }
        | Next::Cancel { .. }
        | Next::ContinueAsNew { .. } => true,
    }
}
