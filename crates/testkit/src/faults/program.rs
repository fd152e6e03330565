//! The workflows of the workload: what a turn writes, as a function of the history and the facts that wait.

use std::collections::BTreeSet;
use std::time::Duration;

use durable_core::{ActivityOptions, Payload, RetryPolicy, WorkflowEvent, child_run_id};
use everruns_durable::persistence::model::{
    ClaimedTurn, ClosePolicy, HistoryEvent, LeaseRequest, NewChild, NewTask, NewTimer, Next,
    OwnerRequest, StartRun, TurnCommit,
};
use uuid::Uuid;

use crate::differential::events_of;

/// Workflow type of the runs that clients start.
pub(super) const PARENT: &str = "parent";
/// Workflow type of their children, which complete at once.
pub(super) const CHILD: &str = "child";
/// Activity type.
pub(super) const ACTIVITY: &str = "work";
/// Signals each parent waits for.
pub(super) const SIGNALS: usize = 2;
/// The activities of a parent: two in line, one beside them that fails for good.
pub(super) const ACTIVITIES: [&str; 3] = ["first", "second", "doomed"];
const TIMER: &str = "alarm";
const TIMER_AFTER: Duration = Duration::from_secs(2);

/// The turn of a run: takes all facts, asks for what is to be done first, ends when nothing is open.
pub(super) fn turn(
    claimed: &ClaimedTurn,
    history: &[HistoryEvent],
    turn_id: Uuid,
    worker: &str,
    mut new_id: impl FnMut() -> Uuid,
) -> TurnCommit {
    let run = &claimed.run;
    let mut turn = TurnCommit::new(run, turn_id);
    turn.facts_through = claimed
        .facts
        .last()
        .map_or(run.consumed, |fact| fact.arrival);
    if history.is_empty() {
        turn.events.push(WorkflowEvent::WorkflowStarted {
            input: run.input.clone(),
        });
        if run.workflow_type == PARENT {
            ask(&mut turn, run.id, &mut new_id);
        }
    }
    turn.events.extend(claimed.facts.iter().flat_map(events_of));
    let seen = history.iter().map(|event| &event.event);
    if run.workflow_type == CHILD || is_done(seen.chain(&turn.events)) {
        let result = Payload::null();
        turn.events.push(WorkflowEvent::WorkflowCompleted {
            result: result.clone(),
        });
        turn.next = Next::Complete { result };
    }
    let lease = Duration::from_secs(5);
    turn.lease = Some(LeaseRequest {
        worker_id: worker.to_owned(),
        lease,
    });
    turn.owner = Some(OwnerRequest {
        worker_id: worker.to_owned(),
        lease,
    });
    turn
}

/// Activities, a timer and a child.
fn ask(turn: &mut TurnCommit, run: Uuid, new_id: &mut impl FnMut() -> Uuid) {
    for activity_id in ACTIVITIES {
        let options = options(activity_id);
        turn.events.push(WorkflowEvent::ActivityScheduled {
            activity_id: activity_id.into(),
            activity_type: ACTIVITY.into(),
            input: Payload::null(),
            options: Box::new(options.clone()),
        });
        turn.tasks.push(NewTask {
            task_id: new_id(),
            activity_id: activity_id.into(),
            activity_type: ACTIVITY.into(),
            input: Payload::null(),
            options,
            delay: None,
            lease: false,
            trace: None,
        });
    }
    turn.events.push(WorkflowEvent::TimerStarted {
        timer_id: TIMER.into(),
        duration_ms: u64::try_from(TIMER_AFTER.as_millis()).expect("two seconds"),
    });
    turn.timers.push(NewTimer {
        timer_id: TIMER.into(),
        after: TIMER_AFTER,
    });
    let child = child_run_id(run, 0, 0, CHILD);
    turn.events.push(WorkflowEvent::ChildWorkflowStarted {
        workflow_id: child,
        workflow_type: CHILD.into(),
        child_id: CHILD.into(),
        input: Payload::null(),
    });
    turn.children.push(NewChild {
        child_id: CHILD.into(),
        close_policy: ClosePolicy::Abandon,
        start: StartRun::new(child, CHILD, Payload::null()),
    });
}

fn options(activity_id: &str) -> ActivityOptions {
    ActivityOptions {
        sequential: activity_id != "doomed",
        retry_policy: RetryPolicy {
            max_attempts: if activity_id == "doomed" { 1 } else { 3 },
            initial_interval: Duration::from_millis(100),
            ..RetryPolicy::default()
        },
        ..ActivityOptions::default()
    }
}

/// Whether everything that was asked for, and every signal, has come.
fn is_done<'a>(events: impl Iterator<Item = &'a WorkflowEvent>) -> bool {
    let mut activities = BTreeSet::new();
    let (mut signals, mut fired, mut child) = (0, false, false);
    for event in events {
        match event {
            WorkflowEvent::ActivityCompleted { activity_id, .. }
            | WorkflowEvent::ActivityTimedOut { activity_id, .. }
            | WorkflowEvent::ActivityFailed {
                activity_id,
                will_retry: false,
                ..
            } => {
                activities.insert(activity_id.as_str());
            }
            WorkflowEvent::SignalReceived { .. } => signals += 1,
            WorkflowEvent::TimerFired { .. } => fired = true,
            WorkflowEvent::ChildWorkflowCompleted { .. } => child = true,
            _ => {}
        }
    }
    activities.len() == ACTIVITIES.len() && signals >= SIGNALS && fired && child
}
