//! Runs that are asked to stop: what they may still do, and when they end.

mod rule;

use durable_core::{
    Fact, NumberedEvent, Payload, ProgramState, ReplayError, ReplayMode, Replayer, RunIdentity,
    Turn, WorkflowAction as A, WorkflowError, WorkflowEvent as E, error_types, replay,
    signal_types,
};
use rule::{identity, live, program, signal, start, timer};

fn names(events: &[NumberedEvent]) -> Vec<&str> {
    events.iter().map(|(_, event)| event.event_type()).collect()
}

fn work(id: &str) -> A {
    A::schedule_activity(id, "work", Payload::null())
}

fn done(id: &str) -> Fact {
    Fact::ActivityCompleted {
        activity_id: id.into(),
        result: Payload::null(),
    }
}

fn told(name: &str, payload: &str) -> Fact {
    let mut signal = signal(name);
    signal.payload = Payload::from_json_text(payload.to_owned()).unwrap();
    Fact::SignalReceived { signal }
}

fn cancel() -> Fact {
    told(signal_types::CANCEL, r#""too dear""#)
}

fn shutdown() -> Fact {
    told(signal_types::SHUTDOWN, "null")
}

/// Works, and cleans up when told to stop.
fn tidy(fact: &Fact) -> Vec<A> {
    match fact {
        Fact::Started { .. } => vec![work("work")],
        Fact::SignalReceived { .. } | Fact::CancelRequested { .. } => vec![
            A::CancelActivity {
                activity_id: "work".into(),
            },
            work("clean-up"),
        ],
        _ => vec![],
    }
}

/// Works and knows nothing of stopping.
fn heedless(fact: &Fact) -> Vec<A> {
    match fact {
        Fact::Started { .. } => vec![work("work"), timer("t")],
        Fact::ActivityCompleted { activity_id, .. } => vec![work(&format!("{activity_id}+"))],
        _ => vec![],
    }
}

fn idle(_: &Fact) -> Vec<A> {
    vec![]
}

/// Takes each list of facts as one turn that is settled, and replays what came of it.
fn settled(rule: fn(&Fact) -> Vec<A>, turns: &[&[Fact]]) -> (Vec<NumberedEvent>, Option<String>) {
    let mut run = ProgramState::new(identity(), program(rule));
    let mut events = Vec::new();
    for facts in turns {
        let mut turn = Turn::default();
        for fact in *facts {
            run.take(fact, &mut turn).unwrap();
        }
        run.settle(&mut turn).unwrap();
        events.extend(turn.events);
    }
    let replayed = replay(
        identity(),
        program(rule),
        events.clone(),
        ReplayMode::Strict,
    );
    assert_eq!(replayed.unwrap().history(), run.history());
    let reason = match events.last() {
        Some((_, E::WorkflowCancelled { reason })) => Some(reason.clone()),
        _ => None,
    };
    (events, reason)
}

#[test]
fn cancelled_run_cleans_up_first_and_then_ends_with_the_reason() {
    let (_, reason) = settled(tidy, &[&[start()], &[cancel()]]);
    assert_eq!(reason, None, "its clean-up is outstanding");
    let (events, reason) = settled(tidy, &[&[start()], &[cancel()], &[done("clean-up")]]);
    assert_eq!(reason.as_deref(), Some("too dear"));
    assert_eq!(
        names(&events)[2..],
        [
            "signal.received",
            "activity.cancelled",
            "activity.scheduled",
            "activity.completed",
            "workflow.cancelled",
        ]
    );
}

#[test]
fn run_that_ignores_a_cancel_ends_when_nothing_is_outstanding() {
    let fired = Fact::TimerFired {
        timer_id: "t".into(),
    };
    let short = |fact: &Fact| match fact {
        Fact::Started { .. } => vec![timer("t")],
        _ => vec![],
    };
    let (_, reason) = settled(short, &[&[start(), cancel()]]);
    assert_eq!(reason, None);
    let (_, reason) = settled(short, &[&[start(), cancel()], &[fired]]);
    assert_eq!(reason.as_deref(), Some("too dear"));
    let (_, reason) = settled(idle, &[&[start(), cancel()]]);
    assert_eq!(reason.as_deref(), Some("too dear"));
}

#[test]
fn end_is_settled_also_behind_actions_of_the_last_step() {
    let gives_up = |fact: &Fact| match fact {
        Fact::Started { .. } => vec![timer("t")],
        _ => vec![A::CancelTimer {
            timer_id: "t".into(),
        }],
    };
    let (events, reason) = settled(gives_up, &[&[start()], &[cancel()]]);
    assert_eq!(reason.as_deref(), Some("too dear"));
    let end = ["timer.cancelled", "workflow.cancelled"];
    assert_eq!(names(&events)[3..], end);
}

#[test]
fn everything_that_may_bring_news_is_outstanding() {
    let asks: [fn(&Fact) -> Vec<A>; 4] = [
        |_| vec![work("a")],
        |_| vec![timer("t")],
        |_| {
            vec![A::ScheduleChildWorkflow {
                workflow_id: "c".into(),
                workflow_type: "child".into(),
                input: Payload::null(),
            }]
        },
        |_| {
            vec![A::OpenHumanTask {
                task_id: "h".into(),
                request: Payload::null(),
            }]
        },
    ];
    for rule in asks {
        let (run, _) = live(rule, &[start()]).unwrap();
        assert!(run.history().has_outstanding());
    }
    let update = Fact::UpdateAccepted {
        update_id: "u".into(),
        name: "set".into(),
        input: Payload::null(),
    };
    let (run, _) = live(idle, &[start(), update]).unwrap();
    assert!(
        !run.history().has_outstanding(),
        "an update waits for the run"
    );
}

#[test]
fn reason_is_the_payload_if_that_is_a_text() {
    for (payload, expected) in [
        (r#""""#, ""),
        (r#""a\u0000b""#, "ab"),
        ("null", "cancel"),
        (r#"{"why":1}"#, "cancel"),
    ] {
        let (_, reason) = settled(idle, &[&[start(), told("cancel", payload)]]);
        assert_eq!(reason.as_deref(), Some(expected), "{payload}");
    }
    let long = serde_json::to_string(&"ä".repeat(5000)).unwrap();
    let (_, reason) = settled(idle, &[&[start(), told("cancel", &long)]]);
    assert_eq!(reason, Some("ä".repeat(1000)), "every store can keep it");
}

#[test]
fn first_request_is_the_one_that_counts() {
    let request = Fact::CancelRequested {
        reason: "first".into(),
    };
    let (_, reason) = settled(idle, &[&[start(), request, cancel()]]);
    assert_eq!(reason.as_deref(), Some("first"));
}

#[test]
fn shutdown_waits_for_the_activities_in_flight_and_for_nothing_since() {
    let (_, reason) = settled(heedless, &[&[start()], &[shutdown()]]);
    assert_eq!(reason, None, "an activity is in flight");
    let (events, reason) = settled(heedless, &[&[start()], &[shutdown()], &[done("work")]]);
    assert_eq!(reason.as_deref(), Some("shutdown"));
    let scheduled = names(&events).iter().rev().nth(1).copied();
    assert_eq!(scheduled, Some("activity.scheduled"), "asked for since");
    let (_, reason) = settled(idle, &[&[start(), shutdown()]]);
    assert_eq!(reason.as_deref(), Some("shutdown"));
}

#[test]
fn second_shutdown_waits_for_no_more_than_the_first() {
    let turns: [&[Fact]; 3] = [&[start()], &[shutdown()], &[done("work"), shutdown()]];
    let (_, reason) = settled(heedless, &turns);
    assert_eq!(reason.as_deref(), Some("shutdown"));
}

#[test]
fn run_that_goes_on_or_has_ended_is_not_stopped() {
    let (run, _) = live(idle, &[start()]).unwrap();
    assert_eq!(run.history().stop_reason(), None);
    let own = |fact: &Fact| match fact {
        Fact::Started { .. } => vec![],
        _ => vec![A::CancelWorkflow {
            reason: "own".into(),
        }],
    };
    let (_, reason) = settled(own, &[&[start(), cancel()]]);
    assert_eq!(reason.as_deref(), Some("own"), "and only one end");
}

#[test]
fn next_iteration_begins_without_the_request() {
    let again = |fact: &Fact| match fact {
        Fact::SignalReceived { .. } => vec![A::ContinueAsNew {
            input: Payload::null(),
        }],
        _ => vec![],
    };
    let (run, mut turn) = live(again, &[start(), shutdown()]).unwrap();
    let next = RunIdentity {
        iteration: 1,
        ..run.identity()
    };
    let mut run = ProgramState::after(next, program(again), run.history().clone());
    run.take(&start(), &mut turn).unwrap();
    run.settle(&mut turn).unwrap();
    assert!(run.history().is_running());
    assert_eq!(run.history().stop_reason(), None);
}

#[test]
fn cancelled_run_whose_code_asks_for_more_than_is_on_record_is_a_divergence() {
    let (events, _) = settled(idle, &[&[start()], &[cancel()]]);
    let wants_more = |fact: &Fact| match fact {
        Fact::SignalReceived { .. } => vec![work("clean-up")],
        _ => vec![],
    };
    let found = replay(identity(), program(wants_more), events, ReplayMode::Normal);
    let ReplayError::Determinism(error) = found.unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(error.sequence_num, 3);
}

#[test]
fn run_ended_from_outside_behind_a_reset_that_cut_a_step_replays() {
    let two = |_: &Fact| vec![work("a"), work("b")];
    let (_, turn) = live(two, &[start()]).unwrap();
    let reset = E::WorkflowReset {
        to_sequence: 2,
        epoch: 1,
        reason: "again".into(),
    };
    let unread = E::SignalReceived {
        signal: signal("a"),
        unread: true,
    };
    let error = WorkflowError::new(error_types::WORKFLOW_TERMINATED, "by an operator");
    let mut replayer = Replayer::new(identity(), program(two), ReplayMode::Strict);
    for (number, event) in &turn.events[..2] {
        replayer.push(*number, event.clone()).unwrap();
    }
    let rest = [reset, unread, E::WorkflowFailed { error }];
    for (number, event) in (4..).zip(rest) {
        replayer.push(number, event).unwrap();
    }
    let run = replayer.finish().unwrap();
    assert_eq!(run.history().ended_with(), Some("workflow.failed"));
}
