//! Signals that a run's program never saw, because the run ended first.

mod rule;

use durable_core::{
    Fact, HistoryProblem, HistoryState, NumberedEvent, Payload, ReplayMode, Turn,
    WorkflowAction as A, WorkflowError, WorkflowEvent as E, error_types, replay,
};
use rule::{identity, live, program, signal, start, timer};

/// A program that reacts to every signal.
fn reacts(fact: &Fact) -> Vec<A> {
    match fact {
        Fact::SignalReceived { signal } if signal.signal_type == "stop" => {
            vec![A::CompleteWorkflow {
                result: Payload::null(),
            }]
        }
        Fact::SignalReceived { signal } => vec![timer(&signal.signal_type)],
        _ => vec![timer("start")],
    }
}

fn received(name: &str, unread: bool) -> E {
    let signal = signal(name);
    E::SignalReceived { signal, unread }
}

fn terminated() -> E {
    let error = WorkflowError::new(error_types::WORKFLOW_TERMINATED, "by an operator");
    E::WorkflowFailed { error }
}

fn begun_and(rest: impl IntoIterator<Item = E>) -> Vec<NumberedEvent> {
    let (_, turn) = live(reacts, &[start()]).unwrap();
    let begun = turn.events.into_iter().map(|(_, event)| event);
    (1..).zip(begun.chain(rest)).collect()
}

#[test]
fn run_ended_from_outside_with_signals_it_would_have_reacted_to_replays() {
    let ended = |unread| begun_and([received("a", unread), received("b", unread), terminated()]);
    let run = replay(identity(), program(reacts), ended(true), ReplayMode::Strict).unwrap();
    assert_eq!(run.history().ended_with(), Some("workflow.failed"));
    assert_eq!(run.history().signals_received(), 0);

    let told = replay(
        identity(),
        program(reacts),
        ended(false),
        ReplayMode::Strict,
    );
    assert!(told.unwrap_err().is_determinism(), "told, not unread");
}

#[test]
fn run_ended_from_outside_before_its_first_turn_replays() {
    let log = [(1, received("a", true)), (2, terminated())];
    let run = replay(identity(), program(reacts), log, ReplayMode::Strict).unwrap();
    assert_eq!(run.history().ended_with(), Some("workflow.failed"));

    let told = HistoryState::default().accept(1, &received("a", false));
    assert_eq!(told.unwrap_err().problem, HistoryProblem::NotStarted);
}

#[test]
fn unread_signal_is_no_fact() {
    assert_eq!(Fact::from_event(&received("a", true)), None);
    let fact = Fact::from_event(&received("a", false)).unwrap();
    assert_eq!(E::from(fact), received("a", false));
}

#[test]
fn turn_that_ends_its_run_keeps_what_waits_before_the_end() {
    let stop = Fact::SignalReceived {
        signal: signal("stop"),
    };
    let (_, mut turn) = live(reacts, &[start(), stop]).unwrap();
    turn.keep_unread([signal("a"), signal("b")]);
    let [.., (4, first), (5, second), (6, end)] = &turn.events[..] else {
        panic!("{:?}", turn.events);
    };
    assert_eq!(
        (first, second),
        (&received("a", true), &received("b", true))
    );
    assert_eq!(end.event_type(), "workflow.completed");
    replay(identity(), program(reacts), turn.events, ReplayMode::Strict).unwrap();
}

#[test]
fn turn_without_waiting_signals_stays_as_it_is() {
    let (_, begun) = live(reacts, &[start()]).unwrap();
    for turn in [begun, Turn::default()] {
        let mut kept = turn.clone();
        kept.keep_unread([]);
        assert_eq!(kept, turn);
    }
}

#[test]
#[should_panic(expected = "only a turn that ends its run leaves signals unread")]
fn turn_that_goes_on_leaves_no_signal_unread() {
    let (_, mut turn) = live(reacts, &[start()]).unwrap();
    turn.keep_unread([signal("a")]);
}
