//! The cost of a step does not grow with what a run has behind it: only open items are walked.

use std::time::Duration;

use durable_core::{
    ActivityError, Fact, HistoryProblem as P, HistoryState, NumberedEvent, Payload, ProgramState,
    ReplayMode, RunIdentity, TraitProgram, Turn, Workflow, WorkflowAction as A, WorkflowError,
    WorkflowEvent as E, WorkflowSignal, replay,
};
use serde_json::Value;
use uuid::Uuid;

/// Rounds that the run goes through. Each leaves a closed item of every kind behind.
const ROUNDS: usize = 300;

/// A state machine with one open item of each kind at a time; an item that ends opens the next one.
struct Chain;

fn next(id: &str) -> String {
    let round: usize = id.parse().unwrap();
    (round + 1).to_string()
}

fn activity(id: String) -> Vec<A> {
    vec![A::schedule_activity(id, "work", Payload::null())]
}

fn timer(timer_id: String) -> Vec<A> {
    let duration = Duration::from_secs(1);
    vec![A::StartTimer { timer_id, duration }]
}

fn child(workflow_id: String) -> Vec<A> {
    vec![A::ScheduleChildWorkflow {
        workflow_id,
        workflow_type: "child".into(),
        input: Payload::null(),
    }]
}

fn human_task(task_id: String) -> Vec<A> {
    let request = Payload::null();
    vec![A::OpenHumanTask { task_id, request }]
}

impl Workflow for Chain {
    const TYPE: &'static str = "chain";
    type Input = Value;
    type Output = Value;

    fn new(_: Value) -> Self {
        Self
    }

    fn on_start(&mut self) -> Vec<A> {
        let first = || "0".to_owned();
        [
            activity(first()),
            timer(first()),
            child(first()),
            human_task(first()),
        ]
        .concat()
    }

    fn on_activity_completed(&mut self, id: &str, _: Value) -> Vec<A> {
        activity(next(id))
    }

    fn on_activity_failed(&mut self, id: &str, _: &ActivityError) -> Vec<A> {
        activity(next(id))
    }

    fn on_timer_fired(&mut self, id: &str) -> Vec<A> {
        timer(next(id))
    }

    fn on_signal(&mut self, _: &WorkflowSignal) -> Vec<A> {
        Vec::new()
    }

    fn on_child_completed(&mut self, id: &str, _: Value) -> Vec<A> {
        child(next(id))
    }

    fn on_human_task_decided(&mut self, id: &str, _: &str, _: Value) -> Vec<A> {
        human_task(next(id))
    }

    fn on_update(&mut self, update_id: &str, _: &str, _: Value) -> Vec<A> {
        vec![A::CompleteUpdate {
            update_id: update_id.to_owned(),
            result: Payload::null(),
        }]
    }

    fn is_completed(&self) -> bool {
        false
    }

    fn result(&self) -> Option<Result<Value, WorkflowError>> {
        None
    }
}

fn identity() -> RunIdentity {
    RunIdentity::new(Uuid::from_u128(1))
}

fn round(round: usize) -> [Fact; 5] {
    let id = || round.to_string();
    [
        Fact::ActivityCompleted {
            activity_id: id(),
            result: Payload::null(),
        },
        Fact::TimerFired { timer_id: id() },
        Fact::ChildCompleted {
            workflow_id: identity().child_run_id(&id()),
            child_id: id(),
            result: Payload::null(),
        },
        Fact::HumanTaskDecided {
            task_id: id(),
            decision: "yes".into(),
            actor: "a".into(),
            answer: Payload::null(),
        },
        Fact::UpdateAccepted {
            update_id: id(),
            name: "u".into(),
            input: Payload::null(),
        },
    ]
}

/// The most items that a walk through each kind's open items can meet, whether it yields them or
/// not.
fn walked(history: &HistoryState) -> [Option<usize>; 5] {
    [
        history.pending_activities().size_hint().1,
        history.pending_timers().size_hint().1,
        history.pending_children().size_hint().1,
        history.open_human_tasks().size_hint().1,
        history.open_updates().size_hint().1,
    ]
}

/// One open item of each kind but updates, which are answered at once.
const ONE_OF_EACH: [Option<usize>; 5] = [Some(1), Some(1), Some(1), Some(1), Some(0)];

/// A run after all its rounds, and its log.
fn live(mut at_each_step: impl FnMut(&HistoryState)) -> (ProgramState, Vec<NumberedEvent>) {
    let mut run = ProgramState::new(identity(), Box::new(TraitProgram::<Chain>::new()));
    let mut turn = Turn::default();
    let input = Payload::null();
    let facts = std::iter::once(Fact::Started { input }).chain((0..ROUNDS).flat_map(round));
    for fact in facts {
        run.take(&fact, &mut turn).unwrap();
        at_each_step(run.history());
    }
    (run, turn.events)
}

#[test]
fn each_live_step_walks_only_the_open_items() {
    let mut steps = 0;
    live(|history| {
        steps += 1;
        assert_eq!(walked(history), ONE_OF_EACH, "after step {steps}");
    });
    assert_eq!(steps, 1 + 5 * ROUNDS);
}

#[test]
fn each_replayed_event_leaves_only_the_open_items_to_walk() {
    let (run, log) = live(|_| {});
    let mut history = HistoryState::default();
    for (sequence_num, event) in &log {
        history.accept(*sequence_num, event).unwrap();
        let most = walked(&history).into_iter().max().flatten();
        assert!(most <= Some(1), "{most:?} items after event {sequence_num}");
    }
    let program = Box::new(TraitProgram::<Chain>::new());
    let replayed = replay(identity(), program, log, ReplayMode::Strict).unwrap();
    assert_eq!(walked(replayed.history()), ONE_OF_EACH);
    assert_eq!(replayed.history(), run.history());
    assert_eq!(&history, run.history());
}

#[test]
fn ids_of_closed_items_are_still_refused_and_their_facts_still_late() {
    let (run, _) = live(|_| {});
    let history = run.history();
    for closed in (0..ROUNDS).flat_map(round) {
        assert!(history.is_late(&closed), "{closed:?}");
    }
    let open = round(ROUNDS);
    assert!(!open.iter().any(|fact| history.is_late(fact)));
    let opened_again = [
        E::ActivityScheduled {
            activity_id: "7".into(),
            activity_type: "work".into(),
            input: Payload::null(),
            options: Default::default(),
        },
        E::TimerStarted {
            timer_id: "7".into(),
            duration_ms: 1,
        },
        E::HumanTaskOpened {
            task_id: "7".into(),
            request: Payload::null(),
        },
    ];
    for event in opened_again {
        let mut history = history.clone();
        let refused = history.accept(history.next_sequence(), &event);
        let problem = refused.unwrap_err().problem;
        assert!(matches!(problem, P::Duplicate { .. }), "{problem:?}");
    }
    let fired_again = E::TimerFired {
        timer_id: "7".into(),
    };
    let mut history = history.clone();
    let refused = history.accept(history.next_sequence(), &fired_again);
    let problem = refused.unwrap_err().problem;
    assert!(matches!(problem, P::AlreadyOver { .. }), "{problem:?}");
}
