//! Facts that lost their race, told from those that cannot be.

mod rule;

use durable_core::{
    Fact, Failure, Payload, ProgramState, ReplayMode, Replayer, RunIdentity, TimeoutType, Turn,
    WorkflowAction as A, WorkflowError, WorkflowEvent,
};
use rule::{identity, live, program, signal, start, timer};
use uuid::Uuid;

/// What becomes of the things of each id.
const KINDS: [&str; 3] = ["open", "over", "never"];

/// Opens one of everything twice; the second is closed by the facts that follow.
fn opens(fact: &Fact) -> Vec<A> {
    if !matches!(fact, Fact::Started { .. }) {
        return vec![];
    }
    ["open", "over"]
        .into_iter()
        .flat_map(|id| {
            [
                A::schedule_activity(id, "work", Payload::null()),
                timer(id),
                A::ScheduleChildWorkflow {
                    workflow_id: id.into(),
                    workflow_type: "child".into(),
                    input: Payload::null(),
                },
                A::OpenHumanTask {
                    task_id: id.into(),
                    request: Payload::null(),
                },
            ]
        })
        .collect()
}

fn child_completed(id: &str, workflow_id: Uuid) -> Fact {
    Fact::ChildCompleted {
        workflow_id,
        child_id: id.into(),
        result: Payload::null(),
    }
}

/// One fact for everything of this id that ends once.
fn endings(id: &str) -> [Fact; 4] {
    [
        Fact::ActivityCompleted {
            activity_id: id.into(),
            result: Payload::null(),
        },
        Fact::TimerFired {
            timer_id: id.into(),
        },
        child_completed(id, identity().child_run_id(id)),
        Fact::HumanTaskDecided {
            task_id: id.into(),
            decision: "approved".into(),
            actor: "ann".into(),
            answer: Payload::null(),
        },
    ]
}

/// Other ends that the same things may come to.
fn other_endings(id: &str) -> [Fact; 3] {
    [
        Fact::ActivityFailed {
            activity_id: id.into(),
            error: Failure::new("E", "e"),
        },
        Fact::ActivityTimedOut {
            activity_id: id.into(),
            timeout_type: TimeoutType::Heartbeat,
        },
        Fact::ChildFailed {
            workflow_id: identity().child_run_id(id),
            child_id: id.into(),
            error: WorkflowError::new("E", "e"),
        },
    ]
}

fn run() -> ProgramState {
    let facts: Vec<Fact> = std::iter::once(start()).chain(endings("over")).collect();
    live(opens, &facts).unwrap().0
}

#[test]
fn only_what_is_over_makes_a_fact_late() {
    let run = run();
    for id in KINDS {
        for fact in endings(id).into_iter().chain(other_endings(id)) {
            assert_eq!(run.history().is_late(&fact), id == "over", "{fact:?}");
        }
    }
}

#[test]
fn late_and_impossible_facts_are_both_refused_when_taken() {
    for fact in endings("over").into_iter().chain(endings("never")) {
        assert!(run().take(&fact, &mut Turn::default()).is_err(), "{fact:?}");
    }
}

#[test]
fn what_was_given_up_is_over() {
    let gives_up = |fact: &Fact| match fact {
        Fact::Started { .. } => opens(fact),
        _ => vec![
            A::CancelActivity {
                activity_id: "open".into(),
            },
            A::CancelTimer {
                timer_id: "open".into(),
            },
        ],
    };
    let told = Fact::SignalReceived {
        signal: signal("stop"),
    };
    let (run, _) = live(gives_up, &[start(), told]).unwrap();
    let [activity, timer, child, person] = endings("open");
    let late = [activity, timer, child, person].map(|fact| run.history().is_late(&fact));
    assert_eq!(late, [true, true, false, false]);
}

#[test]
fn child_that_was_started_as_another_run_reports_too_late() {
    let other = Uuid::from_u128(99);
    let late = KINDS.map(|id| run().history().is_late(&child_completed(id, other)));
    assert_eq!(late, [true, true, false]);
}

#[test]
fn child_that_a_reset_kept_is_asked_to_stop_as_the_run_that_it_was_started_as() {
    let stops = |fact: &Fact| match fact {
        Fact::SignalReceived { .. } => vec![A::CancelChildWorkflow {
            workflow_id: "open".into(),
        }],
        _ => opens(fact),
    };
    let (_, turn) = live(stops, &[start()]).unwrap();
    let raised = RunIdentity {
        epoch: 1,
        ..identity()
    };
    let mut replayer = Replayer::new(raised, program(stops), ReplayMode::Normal);
    for (number, event) in turn.events {
        replayer.push(number, event).unwrap();
    }
    let (mut run, _) = replayer.resume().unwrap();
    let mut turn = Turn::default();
    let told = Fact::SignalReceived {
        signal: signal("stop"),
    };
    run.take(&told, &mut turn).unwrap();
    let asked = turn.events.iter().find_map(|(_, event)| match event {
        WorkflowEvent::ChildWorkflowCancelRequested { workflow_id, .. } => Some(*workflow_id),
        _ => None,
    });
    assert_eq!(asked, Some(identity().child_run_id("open")));
}

#[test]
fn update_is_late_as_soon_as_it_was_taken() {
    let update = Fact::UpdateAccepted {
        update_id: "u".into(),
        name: "set".into(),
        input: Payload::null(),
    };
    let mut run = run();
    assert!(!run.history().is_late(&update));
    run.take(&update, &mut Turn::default()).unwrap();
    assert!(run.history().is_late(&update));
}

#[test]
fn signals_and_requests_to_stop_are_never_late() {
    let told = Fact::SignalReceived {
        signal: signal("again"),
    };
    let stop = Fact::CancelRequested { reason: "x".into() };
    let mut run = run();
    for fact in [&told, &told, &stop, &stop] {
        assert!(!run.history().is_late(fact));
        run.take(fact, &mut Turn::default()).unwrap();
    }
}
