//! The log as a checked state machine: what cannot follow is refused, and says why.

mod expected;

use durable_core::history::Subject;
use durable_core::{
    Failure, HistoryProblem as P, HistoryState, Payload, WorkflowError, WorkflowEvent as E,
};
use uuid::Uuid;

fn started() -> E {
    E::WorkflowStarted {
        input: Payload::null(),
    }
}

fn scheduled(id: &str) -> E {
    E::ActivityScheduled {
        activity_id: id.into(),
        activity_type: "work".into(),
        input: Payload::null(),
        options: Default::default(),
    }
}

fn completed(id: &str) -> E {
    E::ActivityCompleted {
        activity_id: id.into(),
        result: Payload::null(),
    }
}

fn failed(id: &str, will_retry: bool) -> E {
    E::ActivityFailed {
        activity_id: id.into(),
        error: Failure::new("E", "e"),
        will_retry,
    }
}

fn attempt(id: &str, attempt: u32) -> E {
    E::ActivityStarted {
        activity_id: id.into(),
        attempt,
        worker_id: "w".into(),
        started_at: None,
    }
}

fn child_started(id: &str, run: u128) -> E {
    E::ChildWorkflowStarted {
        workflow_id: Uuid::from_u128(run),
        workflow_type: "child".into(),
        child_id: id.into(),
        input: Payload::null(),
    }
}

fn child_completed(id: &str, run: u128) -> E {
    E::ChildWorkflowCompleted {
        workflow_id: Uuid::from_u128(run),
        child_id: id.into(),
        result: Payload::null(),
    }
}

fn ended() -> E {
    E::WorkflowCompleted {
        result: Payload::null(),
    }
}

fn reset(to_sequence: i64, epoch: u32) -> E {
    E::WorkflowReset {
        to_sequence,
        epoch,
        reason: "test".into(),
    }
}

/// State after a log numbered from 1, or why its first bad event is one.
fn accept(log: &[E]) -> Result<HistoryState, P> {
    let mut state = HistoryState::default();
    for (number, event) in (1..).zip(log) {
        state.accept(number, event).map_err(|error| {
            assert_eq!(number as usize, log.len(), "only the last event is bad");
            error.problem
        })?;
    }
    Ok(state)
}

fn named(make: fn(Subject, String) -> P, subject: Subject, id: &str) -> Result<HistoryState, P> {
    Err(make(subject, id.into()))
}

fn unknown(subject: Subject, id: String) -> P {
    P::Unknown { subject, id }
}

fn over(subject: Subject, id: String) -> P {
    P::AlreadyOver { subject, id }
}

fn duplicate(subject: Subject, id: String) -> P {
    P::Duplicate { subject, id }
}

#[test]
fn only_a_start_begins_a_history_and_only_once() {
    assert_eq!(accept(&[ended()]), Err(P::NotStarted));
    assert_eq!(accept(&[scheduled("a")]), Err(P::NotStarted));
    assert_eq!(accept(&[started(), started()]), Err(P::AlreadyStarted));
}

#[test]
fn nothing_follows_the_end() {
    let end = || P::Ended("workflow.completed");
    for late in [ended(), started(), completed("a"), reset(3, 1)] {
        let log = [started(), scheduled("a"), ended(), late];
        assert_eq!(accept(&log), Err(end()));
    }
    let failed = E::WorkflowFailed {
        error: WorkflowError::new("E", "e"),
    };
    let problem = P::Ended("workflow.failed");
    assert_eq!(accept(&[started(), failed, ended()]), Err(problem));
}

#[test]
fn numbers_only_grow() {
    let mut state = HistoryState::default();
    state.accept(5, &started()).unwrap();
    for number in [5, 4, 0, -1, i64::MIN] {
        let problem = state.accept(number, &scheduled("a")).unwrap_err().problem;
        assert_eq!(problem, P::SequenceNotIncreasing { last: 5 });
    }
    state.accept(i64::MAX, &scheduled("a")).unwrap();
    assert_eq!(state.next_sequence(), i64::MAX, "the last number there is");
}

#[test]
fn activity_has_one_outcome() {
    let activity = Subject::Activity;
    assert_eq!(
        accept(&[started(), completed("a")]),
        named(unknown, activity, "a")
    );
    for second in [
        completed("a"),
        failed("a", false),
        failed("a", true),
        attempt("a", 1),
    ] {
        let log = [started(), scheduled("a"), completed("a"), second];
        assert_eq!(accept(&log), named(over, activity, "a"));
    }
    let log = [
        started(),
        scheduled("a"),
        failed("a", false),
        scheduled("a"),
    ];
    assert_eq!(accept(&log), named(duplicate, activity, "a"));
}

#[test]
fn retried_attempts_are_notes_on_a_pending_activity() {
    let log = [
        started(),
        scheduled("a"),
        attempt("a", 1),
        failed("a", true),
        attempt("a", 2),
    ];
    let state = accept(&log).unwrap();
    let (id, pending) = state.pending_activities().next().unwrap();
    assert_eq!((id, pending.attempt), ("a", 2));
    assert_eq!(pending.activity_type, "work");
    let log = [started(), scheduled("a"), attempt("a", 0)];
    assert_eq!(accept(&log), Err(P::AttemptZero));
    let log = [started(), failed("a", true)];
    assert_eq!(accept(&log), named(unknown, Subject::Activity, "a"));
}

#[test]
fn timer_fires_or_is_cancelled_once() {
    let start = || E::TimerStarted {
        timer_id: "t".into(),
        duration_ms: 1,
    };
    let fire = || E::TimerFired {
        timer_id: "t".into(),
    };
    let cancel = || E::TimerCancelled {
        timer_id: "t".into(),
    };
    assert_eq!(
        accept(&[started(), fire()]),
        named(unknown, Subject::Timer, "t")
    );
    for (first, second) in [(fire(), cancel()), (cancel(), fire()), (fire(), fire())] {
        let log = [started(), start(), first, second];
        assert_eq!(accept(&log), named(over, Subject::Timer, "t"));
    }
    let state = accept(&[started(), start()]).unwrap();
    assert_eq!(state.pending_timers().collect::<Vec<_>>(), ["t"]);
}

#[test]
fn child_ends_once_and_as_the_run_it_was_started_as() {
    let log = [started(), child_started("c", 1), child_completed("c", 2)];
    assert_eq!(accept(&log), Err(P::OtherChildRun { id: "c".into() }));
    let log = [
        started(),
        child_started("c", 1),
        child_completed("c", 1),
        child_completed("c", 1),
    ];
    assert_eq!(accept(&log), named(over, Subject::Child, "c"));
    let state = accept(&[started(), child_started("c", 1)]).unwrap();
    assert!(state.has_pending_child("c", Uuid::from_u128(1)));
    assert!(!state.has_pending_child("c", Uuid::from_u128(2)));
}

#[test]
fn ids_are_not_empty() {
    assert_eq!(accept(&[started(), scheduled("")]), Err(P::EmptyId));
    assert_eq!(accept(&[started(), child_started("", 1)]), Err(P::EmptyId));
}

#[test]
fn side_effects_and_patches_are_recorded_once() {
    let effect = || E::SideEffectRecorded {
        effect_id: "e".into(),
        value: Payload::null(),
    };
    let log = [started(), effect(), effect()];
    assert_eq!(accept(&log), named(duplicate, Subject::SideEffect, "e"));
    let patch = || E::PatchMarked {
        patch_id: "p".into(),
    };
    let log = [started(), patch(), patch()];
    assert_eq!(accept(&log), named(duplicate, Subject::Patch, "p"));
}

#[test]
fn first_request_to_stop_is_the_one_remembered() {
    let cancel = |reason: &str| E::CancellationRequested {
        reason: reason.into(),
    };
    let state = accept(&[started(), cancel("one"), cancel("two")]).unwrap();
    assert_eq!(state.cancel_requested(), Some("one"));
    assert!(state.is_running());
}

#[test]
fn next_iteration_begins_empty_and_with_a_start() {
    let continued = |iteration| E::WorkflowContinuedAsNew {
        iteration,
        input: Payload::null(),
    };
    let mut log = vec![started(), scheduled("a"), continued(1)];
    let state = accept(&log).unwrap();
    assert!(!state.is_running());
    assert_eq!(state.pending_activities().count(), 0);
    log.extend([started(), scheduled("a"), continued(1)]);
    let problem = P::IterationNotRaised {
        iteration: 1,
        current: 1,
    };
    assert_eq!(accept(&log), Err(problem));
    let log = [started(), continued(1), scheduled("a")];
    assert_eq!(accept(&log), Err(P::NotStarted));
}

#[test]
fn reset_mark_follows_the_event_it_goes_back_to() {
    let log = [started(), scheduled("a"), reset(1, 1)];
    assert_eq!(accept(&log), Err(P::ResetTarget { to_sequence: 1 }));
    let log = [started(), scheduled("a"), reset(2, 1), completed("a")];
    assert!(accept(&log).unwrap().is_running());
    let log = [started(), reset(1, 1), reset(2, 1)];
    let problem = P::EpochNotRaised {
        epoch: 1,
        current: 1,
    };
    assert_eq!(accept(&log), Err(problem));
}

#[test]
fn before_the_start_only_an_end_from_outside_and_what_it_leaves_unread_is_possible() {
    for event in expected::events() {
        let possible = match &event {
            E::WorkflowStarted { .. } | E::WorkflowReset { .. } | E::WorkflowCancelled { .. } => {
                true
            }
            E::WorkflowFailed { error } => error.error_type == "WorkflowTerminated",
            E::SignalReceived { unread, .. } => *unread,
            _ => false,
        };
        let accepted = HistoryState::default().accept(1, &event);
        assert_eq!(accepted.is_ok(), possible, "{}", event.event_type());
    }
}
