//! Replay by scripts: facts in, exact events out, and every way to differ.

mod order;

use durable_core::history::Subject;
use durable_core::{
    Fact, Failure, HistoryProblem, NumberedEvent, Payload, ProgramError, ProgramState, ReplayError,
    ReplayMode, Replayer, RequestKind, RunIdentity, TraitProgram, Turn, TurnError, Workflow,
    WorkflowError, WorkflowEvent as E, effective_history, replay,
};
use order::{Order, Unprintable, json};
use uuid::Uuid;

fn identity() -> RunIdentity {
    RunIdentity::new(Uuid::from_u128(1))
}

fn start(input: &'static str) -> Fact {
    Fact::Started { input: json(input) }
}

fn charged() -> Fact {
    Fact::ActivityCompleted {
        activity_id: "charge".into(),
        result: json(r#""receipt""#),
    }
}

fn shipped() -> Fact {
    Fact::ChildCompleted {
        workflow_id: identity().child_run_id("ship"),
        child_id: "ship".into(),
        result: json("7"),
    }
}

fn live<W: Workflow>(facts: &[Fact]) -> Result<(ProgramState, Turn), TurnError> {
    let mut run = ProgramState::new(identity(), Box::new(TraitProgram::<W>::new()));
    let mut turn = Turn::default();
    for fact in facts {
        run.take(fact, &mut turn)?;
    }
    Ok((run, turn))
}

fn whole_order() -> Vec<NumberedEvent> {
    live::<Order>(&[start("5"), charged(), shipped()])
        .unwrap()
        .1
        .events
}

fn replay_order(events: Vec<NumberedEvent>, mode: ReplayMode) -> Result<ProgramState, ReplayError> {
    replay(
        identity(),
        Box::new(TraitProgram::<Order>::new()),
        events,
        mode,
    )
}

fn resume_order(events: Vec<NumberedEvent>) -> Result<(ProgramState, Turn), ReplayError> {
    let program = Box::new(TraitProgram::<Order>::new());
    let mut replayer = Replayer::new(identity(), program, ReplayMode::Normal);
    for (number, event) in events {
        replayer.push(number, event)?;
    }
    replayer.resume()
}

fn names(events: &[NumberedEvent]) -> Vec<&str> {
    events.iter().map(|(_, event)| event.event_type()).collect()
}

fn divergence(events: Vec<NumberedEvent>) -> String {
    replay_order(events, ReplayMode::Normal)
        .unwrap_err()
        .to_string()
}

#[test]
fn trait_workflow_runs_to_its_result() {
    let events = whole_order();
    assert_eq!(
        names(&events),
        [
            "workflow.started",
            "activity.scheduled",
            "activity.completed",
            "child.started",
            "timer.started",
            "child.completed",
            "timer.cancelled",
            "workflow.completed",
        ]
    );
    let numbers: Vec<i64> = events.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
    let result = json(r#""receipt shipped as 7""#);
    assert_eq!(events[7].1, E::WorkflowCompleted { result });
    let run = replay_order(events, ReplayMode::Strict).unwrap();
    assert_eq!(run.history().ended_with(), Some("workflow.completed"));
}

#[test]
fn ending_that_the_workflow_asked_for_itself_is_the_only_one() {
    let lost = Fact::ChildCompleted {
        workflow_id: identity().child_run_id("ship"),
        child_id: "ship".into(),
        result: json("0"),
    };
    let (run, _) = live::<Order>(&[start("5"), charged(), lost]).unwrap();
    assert_eq!(run.history().ended_with(), Some("workflow.failed"));
}

#[test]
fn other_id_or_type_is_a_divergence_that_says_where_and_what() {
    let mut events = whole_order();
    let E::ActivityScheduled { activity_type, .. } = &mut events[1].1 else {
        panic!("second event");
    };
    *activity_type = "charge_v1".into();
    assert_eq!(
        divergence(events),
        "the code is not the one that made this history: at event 2 history has \
         \"schedule activity \"charge\" of type \"charge_v1\"\", the code asks to \
         \"schedule activity \"charge\" of type \"charge_card\"\""
    );
}

#[test]
fn action_that_history_lacks_is_a_divergence() {
    let mut events = whole_order();
    events.remove(4);
    let error = replay_order(events, ReplayMode::Normal).unwrap_err();
    let ReplayError::Determinism(error) = error else {
        panic!("{error}");
    };
    assert_eq!((error.sequence_num, &error.expected), (6, &None));
    assert_eq!(error.found.unwrap().kind, RequestKind::StartTimer);
}

#[test]
fn action_that_the_code_lacks_is_a_divergence() {
    let mut events = whole_order();
    events.truncate(2);
    let extra = E::TimerStarted {
        timer_id: "x".into(),
        duration_ms: 1,
    };
    events.push((3, extra));
    assert_eq!(
        divergence(events),
        "the code is not the one that made this history: at event 3 history has \
         \"start timer \"x\"\", the code asks for nothing more"
    );
}

#[test]
fn inputs_and_options_count_in_strict_mode_only() {
    let mut events = whole_order();
    let E::ActivityScheduled { input, .. } = &mut events[1].1 else {
        panic!("second event");
    };
    *input = json("6");
    assert!(replay_order(events.clone(), ReplayMode::Normal).is_ok());
    let error = replay_order(events.clone(), ReplayMode::Strict).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("history has the payload 6, the code 5"),
        "{error}"
    );

    let E::ActivityScheduled { input, options, .. } = &mut events[1].1 else {
        panic!("second event");
    };
    *input = json("5");
    options.priority = 9;
    assert!(replay_order(events.clone(), ReplayMode::Normal).is_ok());
    assert!(
        replay_order(events, ReplayMode::Strict)
            .unwrap_err()
            .is_determinism()
    );
}

#[test]
fn malformed_history_is_a_typed_error() {
    let mut events = whole_order();
    events.push((9, events[2].1.clone()));
    let error = replay_order(events, ReplayMode::Normal).unwrap_err();
    let ReplayError::History(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.problem, HistoryProblem::Ended("workflow.completed"));
    assert!(
        replay_order(vec![], ReplayMode::Normal).is_ok(),
        "a run that has not begun"
    );
}

#[test]
fn start_written_ahead_is_decided_on_resume() {
    let mut events = whole_order();
    events.truncate(1);
    assert!(replay_order(events.clone(), ReplayMode::Normal).is_err());
    let (run, turn) = resume_order(events).unwrap();
    assert_eq!(names(&turn.events), ["activity.scheduled"]);
    assert_eq!((turn.events[0].0, turn.actions.len()), (2, 1));
    assert!(run.history().has_pending_activity("charge"));
}

#[test]
fn half_a_decision_is_refused_unless_a_reset_cut_it() {
    let mut events = whole_order();
    events.truncate(4);
    assert!(resume_order(events.clone()).unwrap_err().is_determinism());

    let mut log = whole_order();
    let reason = "again".to_owned();
    log.push((
        9,
        E::WorkflowReset {
            to_sequence: 4,
            epoch: 1,
            reason,
        },
    ));
    let history = effective_history(log).unwrap();
    let (_, turn) = resume_order(history.events).unwrap();
    assert_eq!(names(&turn.events), ["timer.started"]);
    assert_eq!(turn.events[0].0, 10);
}

#[test]
fn endings_from_outside_need_no_action() {
    let terminated = E::WorkflowFailed {
        error: WorkflowError::new("WorkflowTerminated", "by an operator"),
    };
    let cancelled = E::WorkflowCancelled {
        reason: "before it began".into(),
    };
    for ending in [terminated, cancelled] {
        for cut in [1, 2, 5] {
            let mut events = whole_order();
            events.truncate(cut);
            events.push((9, ending.clone()));
            let run = replay_order(events, ReplayMode::Strict).unwrap();
            assert_eq!(run.history().ended_with(), Some(ending.event_type()));
        }
    }
    let mut events = whole_order();
    events.truncate(2);
    let own = WorkflowError::new("OutOfStock", "not from outside");
    events.push((3, E::WorkflowFailed { error: own }));
    assert!(
        replay_order(events, ReplayMode::Normal)
            .unwrap_err()
            .is_determinism()
    );
}

#[test]
fn input_that_does_not_fit_is_a_typed_error_and_its_failed_run_replays() {
    let error = live::<Order>(&[start(r#""five""#)]).unwrap_err();
    let TurnError::Program(error @ ProgramError::Input { .. }) = error else {
        panic!("{error}");
    };
    let started = (1, E::from(start(r#""five""#)));
    let failed = (
        2,
        E::WorkflowFailed {
            error: error.to_workflow_error(),
        },
    );
    let run = replay_order(vec![started.clone(), failed], ReplayMode::Normal).unwrap();
    assert_eq!(run.history().ended_with(), Some("workflow.failed"));
    let error = replay_order(vec![started], ReplayMode::Normal).unwrap_err();
    assert!(
        matches!(
            error,
            ReplayError::Program {
                sequence_num: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn payload_that_cannot_be_read_is_a_typed_error() {
    let codec = Payload::from_codec(vec![0, 1]).unwrap();
    for result in [codec, json("1e400")] {
        let fact = Fact::ActivityCompleted {
            activity_id: "charge".into(),
            result,
        };
        let error = live::<Order>(&[start("5"), fact]).unwrap_err();
        assert!(
            matches!(error, TurnError::Program(ProgramError::Payload { .. })),
            "{error}"
        );
    }
}

#[test]
fn result_without_a_json_form_is_a_typed_error() {
    let error = live::<Unprintable>(&[start("null")]).unwrap_err();
    assert!(
        matches!(error, TurnError::Program(ProgramError::Output { .. })),
        "{error}"
    );
}

#[test]
fn request_to_stop_arrives_as_the_cancel_signal() {
    let cancel = Fact::CancelRequested {
        reason: "too late".into(),
    };
    let (run, turn) = live::<Order>(&[start("5"), cancel]).unwrap();
    let [.., (_, given_up), (_, end)] = &turn.events[..] else {
        panic!("{:?}", turn.events);
    };
    assert_eq!(given_up.event_type(), "activity.cancelled");
    let reason = r#""too late""#.to_owned();
    assert_eq!(end, &E::WorkflowCancelled { reason });
    let replayed = replay_order(turn.events, ReplayMode::Strict).unwrap();
    assert_eq!(replayed.history(), run.history());
}

#[test]
fn late_and_repeated_facts_are_refused_before_the_program_sees_them() {
    let error = live::<Order>(&[start("5"), charged(), charged()]).unwrap_err();
    let TurnError::History(error) = error else {
        panic!("{error}");
    };
    let (subject, id) = (Subject::Activity, "charge".into());
    assert_eq!(error.problem, HistoryProblem::AlreadyOver { subject, id });
}

#[test]
fn activity_that_failed_or_timed_out_reaches_the_workflow_alike() {
    let activity_id = || "charge".to_owned();
    let failed = Fact::ActivityFailed {
        activity_id: activity_id(),
        error: Failure::new("CardDeclined", "no"),
    };
    let timeout_type = durable_core::TimeoutType::Heartbeat;
    let timed_out = Fact::ActivityTimedOut {
        activity_id: activity_id(),
        timeout_type,
    };
    for (fact, error_type) in [(failed, "CardDeclined"), (timed_out, "HeartbeatTimeout")] {
        let (_, turn) = live::<Order>(&[start("5"), fact]).unwrap();
        let Some((_, E::WorkflowFailed { error })) = turn.events.last() else {
            panic!("{:?}", turn.events);
        };
        assert_eq!(error.error_type, error_type);
    }
}

#[test]
fn update_without_a_handler_is_refused_and_the_run_goes_on() {
    let update = Fact::UpdateAccepted {
        update_id: "u".into(),
        name: "discount".into(),
        input: json("1"),
    };
    let (run, turn) = live::<Order>(&[start("5"), update]).unwrap();
    assert_eq!(turn.events.last().unwrap().1.event_type(), "update.failed");
    assert!(run.history().is_running());
    assert_eq!(run.history().open_updates().count(), 0);
}
