//! What a program may ask for, and what comes of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use durable_core::history::Subject;
use durable_core::{
    ActionError, Fact, HistoryProblem as P, HistoryState, Payload, Program, ProgramError,
    ProgramState, Recorded, ReplayMode, RunIdentity, Turn, TurnError, WorkflowAction as A,
    WorkflowEvent as E, child_run_id, replay,
};
use uuid::Uuid;

/// Answers each fact with the next list of actions, and tells what it was given.
#[derive(Default)]
struct Script {
    answers: VecDeque<Vec<A>>,
    given: Arc<Mutex<Vec<String>>>,
}

impl Program for Script {
    fn workflow_type(&self) -> &str {
        "script"
    }

    fn apply(&mut self, fact: &Fact) -> Result<Vec<A>, ProgramError> {
        let event = E::from(fact.clone());
        self.given
            .lock()
            .unwrap()
            .push(format!("apply {}", event.event_type()));
        Ok(self.answers.pop_front().unwrap_or_default())
    }

    fn recall(&mut self, recorded: &Recorded<'_>) {
        let names = recorded
            .memories
            .iter()
            .map(|memory| format!("recall {}", memory.event_type()));
        self.given.lock().unwrap().extend(names);
    }
}

fn script(answers: impl Into<VecDeque<Vec<A>>>) -> Box<Script> {
    Box::new(Script {
        answers: answers.into(),
        ..Script::default()
    })
}

fn identity() -> RunIdentity {
    RunIdentity::new(Uuid::from_u128(1))
}

fn start() -> Fact {
    Fact::Started {
        input: Payload::null(),
    }
}

fn timer(id: &str) -> A {
    A::StartTimer {
        timer_id: id.into(),
        duration: Duration::MAX,
    }
}

fn cancel_timer(id: &str) -> A {
    A::CancelTimer {
        timer_id: id.into(),
    }
}

fn complete() -> A {
    A::CompleteWorkflow {
        result: Payload::null(),
    }
}

fn first_turn(actions: Vec<A>) -> Result<(ProgramState, Turn), TurnError> {
    let mut run = ProgramState::new(identity(), script([actions]));
    let mut turn = Turn::default();
    run.take(&start(), &mut turn)?;
    Ok((run, turn))
}

fn refused(actions: Vec<A>) -> ActionError {
    match first_turn(actions).unwrap_err() {
        TurnError::Action(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn id_used_twice_is_refused() {
    let work = || A::schedule_activity("a", "work", Payload::null());
    let error = refused(vec![work(), work()]);
    assert_eq!(
        error.to_string(),
        r#"the workflow asked to schedule activity "a" of type "work": activity "a" exists already"#
    );
    let (subject, id) = (Subject::Timer, "t".into());
    let error = refused(vec![timer("t"), timer("t")]);
    assert_eq!(error.problem, P::Duplicate { subject, id });
    let (subject, id) = (Subject::Timer, "t".into());
    let error = refused(vec![timer("t"), cancel_timer("t"), timer("t")]);
    assert_eq!(error.problem, P::Duplicate { subject, id });
    assert_eq!(refused(vec![timer("")]).problem, P::EmptyId);
    assert!(
        first_turn(vec![work(), timer("a")]).is_ok(),
        "ids are per kind"
    );
}

#[test]
fn nothing_is_asked_for_after_the_end() {
    let ended = P::Ended("workflow.completed");
    assert_eq!(refused(vec![complete(), timer("t")]).problem, ended);
    assert_eq!(refused(vec![complete(), complete()]).problem, ended);
    assert!(first_turn(vec![timer("t"), complete(), A::None]).is_ok());
}

#[test]
fn giving_up_what_was_never_asked_for_is_refused() {
    let (subject, id) = (Subject::Timer, "t".into());
    let error = refused(vec![cancel_timer("t")]);
    assert_eq!(error.problem, P::Unknown { subject, id });
    let activity_id = "a".into();
    assert!(first_turn(vec![A::CancelActivity { activity_id }]).is_err());
}

#[test]
fn giving_up_what_is_over_comes_to_nothing_live_and_on_replay() {
    let answers = || vec![vec![timer("t")], vec![cancel_timer("t"), complete()]];
    let mut run = ProgramState::new(identity(), script(answers()));
    let mut turn = Turn::default();
    run.take(&start(), &mut turn).unwrap();
    let fired = Fact::TimerFired {
        timer_id: "t".into(),
    };
    run.take(&fired, &mut turn).unwrap();
    let names: Vec<_> = turn.events.iter().map(|(_, e)| e.event_type()).collect();
    assert_eq!(
        names,
        [
            "workflow.started",
            "timer.started",
            "timer.fired",
            "workflow.completed"
        ]
    );
    assert_eq!(turn.actions, [timer("t"), complete()]);
    replay(
        identity(),
        script(answers()),
        turn.events,
        ReplayMode::Strict,
    )
    .unwrap();
}

#[test]
fn longest_duration_is_kept_as_the_largest_number() {
    let (_, turn) = first_turn(vec![timer("t")]).unwrap();
    let timer_id = "t".into();
    let duration_ms = u64::MAX;
    assert_eq!(
        turn.events[1].1,
        E::TimerStarted {
            timer_id,
            duration_ms
        }
    );
}

#[test]
fn child_gets_the_run_id_derived_from_its_name() {
    let child = A::ScheduleChildWorkflow {
        workflow_id: "c".into(),
        workflow_type: "w".into(),
        input: Payload::null(),
    };
    let (run, _) = first_turn(vec![child]).unwrap();
    let expected = child_run_id(identity().run_id, 0, 0, "c");
    assert_eq!(
        run.history().pending_children().collect::<Vec<_>>(),
        [("c", expected)]
    );
}

#[test]
fn next_iteration_goes_on_in_the_same_turn_behind_the_last_event() {
    let input = || Payload::from_value("next").unwrap();
    let (run, mut turn) = first_turn(vec![A::ContinueAsNew { input: input() }]).unwrap();
    assert!(!run.history().is_running());
    let next = RunIdentity {
        iteration: 1,
        ..run.identity()
    };
    let mut run = ProgramState::after(next, script([vec![timer("t")]]), run.history().clone());
    run.take(&Fact::Started { input: input() }, &mut turn)
        .unwrap();
    let events: Vec<_> = turn
        .events
        .iter()
        .map(|(n, e)| (*n, e.event_type()))
        .collect();
    assert_eq!(
        events,
        [
            (1, "workflow.started"),
            (2, "workflow.continued_as_new"),
            (3, "workflow.started"),
            (4, "timer.started"),
        ]
    );
    let continued = E::WorkflowContinuedAsNew {
        iteration: 1,
        input: input(),
    };
    assert_eq!(turn.events[1].1, continued);
}

#[test]
fn memories_of_a_step_reach_the_program_before_its_fact() {
    let effect = E::SideEffectRecorded {
        effect_id: "e".into(),
        value: Payload::null(),
    };
    let fired = |id: &str| E::TimerFired {
        timer_id: id.into(),
    };
    let started = |id: &str| E::TimerStarted {
        timer_id: id.into(),
        duration_ms: u64::MAX,
    };
    let events = vec![
        (1, E::from(start())),
        (2, started("t")),
        (3, fired("t")),
        (4, effect),
        (
            5,
            E::PatchMarked {
                patch_id: "p".into(),
            },
        ),
        (6, started("u")),
    ];
    let program = script([vec![timer("t")], vec![timer("u")]]);
    let given = Arc::clone(&program.given);
    replay(identity(), program, events, ReplayMode::Normal).unwrap();
    assert_eq!(
        *given.lock().unwrap(),
        [
            "apply workflow.started",
            "recall side_effect.recorded",
            "recall patch.marked",
            "apply timer.fired",
        ]
    );
}

#[test]
fn later_iteration_is_numbered_behind_events_that_are_gone() {
    let mut run = ProgramState::after(identity(), script([]), HistoryState::after(100));
    let mut turn = Turn::default();
    run.take(&start(), &mut turn).unwrap();
    assert_eq!(turn.events[0].0, 101);
}
