//! Decides a turn: what has happened goes in, what is to be committed comes out. Pure, but for the workflow's own code.

use std::panic::{AssertUnwindSafe, catch_unwind};

use durable_core::{
    AttemptRecord, Fact, Failure, Payload, ProgramState, Turn, TurnError, WorkflowEvent,
    WorkflowSignal, error_types,
};

use super::turner::panic_text;
use crate::persistence::model::{self, FinishedTask, NewStepLog, TaskEnd, TaskOutcome};
use crate::persistence::{Bug, planted};
use crate::worker::Finished;

/// What a turn has to take.
pub(crate) struct Given<'a> {
    /// Input of a run (or iteration) that has not begun.
    pub(crate) begin: Option<Payload>,
    /// Facts from the inbox, by arrival.
    pub(crate) facts: &'a [model::Fact],
    /// Activities that ended in this process.
    pub(crate) finished: &'a [Finished],
    /// Who ran those.
    pub(crate) worker_id: &'a str,
}

/// What a turn comes to.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) turn: Turn,
    pub(crate) finished_tasks: Vec<FinishedTask>,
    pub(crate) step_logs: Vec<NewStepLog>,
    /// Facts of the inbox that were taken, from the first: those behind the fact at which the
    /// program ended are not.
    pub(crate) facts_taken: usize,
    /// Signals that a run which goes on as new took and has not read.
    pub(crate) carried: Vec<WorkflowSignal>,
    /// Updates that were refused: answered, and not on record.
    pub(crate) refused: Vec<(String, Failure)>,
}

/// Hands everything to the program, in order.
///
/// # Errors
/// [`TurnError`]: the program cannot go on with its history; nothing of the turn may be committed.
pub(crate) fn decide(
    program: &mut ProgramState,
    turn: Turn,
    given: &Given<'_>,
) -> Result<Decision, TurnError> {
    let mut decision = Decision {
        turn,
        ..Decision::default()
    };
    if let Some(input) = &given.begin {
        let input = input.clone();
        take(program, &mut decision, &Fact::Started { input })?;
    }
    for fact in given.facts {
        if !program.history().is_running() {
            // It ended, or goes on as new: what follows is for the store to keep.
            break;
        }
        take_from_inbox(program, &mut decision, fact)?;
        decision.facts_taken += 1;
    }
    for finished in given.finished {
        take_finished(program, &mut decision, finished, given.worker_id)?;
    }
    Ok(decision)
}

/// The outcome of a local activity, in the turn that waited for it.
///
/// # Errors
/// As [`decide`].
pub(crate) fn take_local(
    program: &mut ProgramState,
    decision: &mut Decision,
    fact: &Fact,
) -> Result<(), TurnError> {
    if program.history().is_running() && !program.history().is_late(fact) {
        take(program, decision, fact)?;
    }
    Ok(())
}

/// The end of a turn, when the program has answered everything.
///
/// # Errors
/// As [`decide`].
pub(crate) fn conclude(
    program: &mut ProgramState,
    decision: &mut Decision,
) -> Result<(), TurnError> {
    if program.history().is_running() {
        program.settle(&mut decision.turn)?;
    }
    if let Some((_, WorkflowEvent::WorkflowContinuedAsNew { .. })) = decision.turn.events.last() {
        let mut carried = program.take_unread();
        if planted(Bug::CarriedSignalsDropped) {
            carried.clear();
        }
        decision.carried = carried;
    }
    Ok(())
}

fn take_from_inbox(
    program: &mut ProgramState,
    decision: &mut Decision,
    arrived: &model::Fact,
) -> Result<(), TurnError> {
    let Some(fact) = fact_of(&arrived.event) else {
        return Ok(());
    };
    if program.history().is_late(&fact) || is_of_a_forgotten_child(program, &fact) {
        return Ok(());
    }
    if let Fact::UpdateAccepted {
        update_id,
        name,
        input,
    } = &fact
        && let Some(why) = refusal(program, name, input)
    {
        decision.refused.push((update_id.clone(), why));
        return Ok(());
    }
    if let Some(activity_id) = activity_of(&fact) {
        let activity_id = activity_id.to_owned();
        note_attempts(program, decision, &activity_id, &arrived.attempts)?;
        if let Some(last) = &arrived.last_attempt {
            let started = WorkflowEvent::ActivityStarted {
                activity_id,
                attempt: last.attempt,
                worker_id: last.worker_id.clone(),
                started_at: Some(last.started_at),
            };
            program.record(started, &mut decision.turn)?;
        }
    }
    take(program, decision, &fact)
}

/// What an arrival tells the run. An activity that says it was cancelled without being asked, as a worker in another language may, has failed:
/// the run waits for it. (Of one that the run has given up nothing is told: that is late.)
fn fact_of(event: &WorkflowEvent) -> Option<Fact> {
    match event {
        WorkflowEvent::ActivityCancelled {
            activity_id,
            reason,
        } => Some(Fact::ActivityFailed {
            activity_id: activity_id.clone(),
            error: Failure::new(error_types::CANCELLED, reason.clone()).non_retryable(),
        }),
        event => Fact::from_event(event),
    }
}

/// Whether it is the end of a child whose start a reset has taken back: that one was stopped, and says so.
fn is_of_a_forgotten_child(program: &ProgramState, fact: &Fact) -> bool {
    let (Fact::ChildCompleted {
        workflow_id,
        child_id,
        ..
    }
    | Fact::ChildFailed {
        workflow_id,
        child_id,
        ..
    }) = fact
    else {
        return false;
    };
    program.identity().epoch > 0 && !program.history().has_pending_child(child_id, *workflow_id)
}

/// Why an update is not taken, if it is not; it leaves no trace in the history. A validator that panics refuses too: the run is as
/// it was, and goes on.
fn refusal(program: &ProgramState, name: &str, input: &Payload) -> Option<Failure> {
    if planted(Bug::UpdateNotValidated) {
        return None;
    }
    let program = program.program();
    let asked = catch_unwind(AssertUnwindSafe(|| program.validate_update(name, input)));
    asked
        .unwrap_or_else(|panic| {
            let message = format!(
                "the validator of update {name:?} panicked: {}",
                panic_text(&*panic)
            );
            Err(Failure::new(error_types::UPDATE_FAILED, message).non_retryable())
        })
        .err()
}

fn take_finished(
    program: &mut ProgramState,
    decision: &mut Decision,
    finished: &Finished,
    worker_id: &str,
) -> Result<(), TurnError> {
    let task = &finished.task;
    let activity_id = &task.activity_id;
    let history = program.history();
    let late = !history.has_pending_activity(activity_id) && !planted(Bug::LateResultAccepted);
    if !history.is_running() || late {
        return Ok(());
    }
    let Some((fact, end)) = fact_of_end(finished) else {
        return Ok(());
    };
    note_attempts(program, decision, activity_id, &task.attempts)?;
    let started = WorkflowEvent::ActivityStarted {
        activity_id: activity_id.clone(),
        attempt: task.lease.attempt,
        worker_id: worker_id.to_owned(),
        started_at: Some(task.started_at),
    };
    program.record(started, &mut decision.turn)?;
    take(program, decision, &fact)?;
    decision.finished_tasks.push(FinishedTask {
        lease: task.lease.clone(),
        end,
    });
    decision
        .step_logs
        .extend(finished.step_logs.iter().cloned());
    Ok(())
}

/// What the end of an activity here tells its run.
pub(super) fn fact_of_end(finished: &Finished) -> Option<(Fact, TaskEnd)> {
    let activity_id = finished.task.activity_id.clone();
    match &finished.outcome {
        TaskOutcome::Completed { result } => {
            let fact = Fact::ActivityCompleted {
                activity_id,
                result: result.clone(),
            };
            Some((fact, TaskEnd::Completed))
        }
        TaskOutcome::Failed { failure } => {
            let fact = Fact::ActivityFailed {
                activity_id,
                error: failure.clone(),
            };
            Some((fact, TaskEnd::Failed(failure.clone())))
        }
        // Goes by the inbox; see `Finished::may_join_a_turn`.
        TaskOutcome::Cancelled { .. } => None,
    }
}

/// Failed attempts are written together with the end of the activity: alone, each would cost a commit.
fn note_attempts(
    program: &mut ProgramState,
    decision: &mut Decision,
    activity_id: &str,
    attempts: &[AttemptRecord],
) -> Result<(), TurnError> {
    for attempt in attempts {
        let started = WorkflowEvent::ActivityStarted {
            activity_id: activity_id.to_owned(),
            attempt: attempt.attempt,
            worker_id: attempt.worker_id.clone(),
            started_at: attempt.started_at,
        };
        program.record(started, &mut decision.turn)?;
        let failed = WorkflowEvent::ActivityFailed {
            activity_id: activity_id.to_owned(),
            error: attempt.failure.clone(),
            will_retry: true,
        };
        program.record(failed, &mut decision.turn)?;
    }
    Ok(())
}

/// A payload that does not fit the code fails the run, with that on record; anything else is for an operator.
fn take(program: &mut ProgramState, decision: &mut Decision, fact: &Fact) -> Result<(), TurnError> {
    match program.take(fact, &mut decision.turn) {
        Err(TurnError::Program(error)) if error.fails_the_run() => {
            let error = error.to_workflow_error();
            let failed = WorkflowEvent::WorkflowFailed { error };
            Ok(program.record(failed, &mut decision.turn)?)
        }
        other => other,
    }
}

fn activity_of(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::ActivityCompleted { activity_id, .. }
        | Fact::ActivityFailed { activity_id, .. }
        | Fact::ActivityTimedOut { activity_id, .. } => Some(activity_id),
        _ => None,
    }
}
