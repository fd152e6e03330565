//! What holds for every history.

mod busy;
mod strategies;

use busy::{Busy, busy_turns, identity};
use durable_core::{
    Fact, HistoryState, NumberedEvent, ProgramState, ReplayError, ReplayMode, Replayer, Request,
    Turn, WorkflowEvent, effective_history, replay,
};
use proptest::prelude::*;

fn turns() -> impl Strategy<Value = Vec<Vec<NumberedEvent>>> {
    prop::collection::vec(any::<u32>(), 0..40).prop_map(|choices| busy_turns(&choices))
}

/// Any log: mostly numbered from 1 and beginning with a start, so that the nonsense comes later too.
fn log() -> impl Strategy<Value = Vec<NumberedEvent>> {
    let events = prop::collection::vec(
        (
            strategies::event(),
            prop_oneof![30 => Just(1_i64), 1 => -1..4_i64],
        ),
        0..40,
    );
    (prop::option::weighted(0.9, strategies::payload()), events).prop_map(|(input, events)| {
        let mut number = 0;
        input
            .map(|input| (WorkflowEvent::WorkflowStarted { input }, 1))
            .into_iter()
            .chain(events)
            .map(|(event, step)| {
                number += step;
                (number, event)
            })
            .collect()
    })
}

fn replayed(events: &[NumberedEvent], mode: ReplayMode) -> Result<ProgramState, ReplayError> {
    replay(identity(), Box::new(Busy::default()), events.to_vec(), mode)
}

/// Takes the facts of a recorded turn and answers with what comes of them now.
fn retake(run: &mut ProgramState, recorded: &[NumberedEvent]) -> Vec<NumberedEvent> {
    let mut turn = Turn::default();
    for (_, event) in recorded {
        match Fact::from_event(event) {
            Some(fact) => run.take(&fact, &mut turn).unwrap(),
            None if Request::of_event(event).is_none() => {
                run.record(event.clone(), &mut turn).unwrap();
            }
            None => {}
        }
    }
    turn.events
}

fn replayer_with(events: &[NumberedEvent]) -> Replayer {
    let mut replayer = Replayer::new(identity(), Box::new(Busy::default()), ReplayMode::Normal);
    for (number, event) in events {
        replayer.push(*number, event.clone()).unwrap();
    }
    replayer
}

proptest! {
    #[test]
    fn every_live_history_replays_strictly_to_the_same_state(turns in turns()) {
        let events = turns.concat();
        let run = replayed(&events, ReplayMode::Strict).unwrap();
        let mut checked = HistoryState::default();
        for (number, event) in &events {
            checked.accept(*number, event).unwrap();
        }
        prop_assert_eq!(run.history(), &checked);
    }

    /// Recovery after every turn: the prefix is replayed, the rest is lived again.
    #[test]
    fn every_prefix_of_turns_recovers_and_goes_on_alike(turns in turns()) {
        let whole = replayed(&turns.concat(), ReplayMode::Normal).unwrap();
        for cut in 0..=turns.len() {
            let mut run = replayed(&turns[..cut].concat(), ReplayMode::Normal).unwrap();
            for turn in &turns[cut..] {
                prop_assert_eq!(&retake(&mut run, turn), turn);
            }
            prop_assert_eq!(run.history(), whole.history());
        }
    }

    /// A cut at any event: pushed in two parts it is the whole; ended there it is whole turns, a fact
    /// that waits for its decision, or a torn turn, which is refused.
    #[test]
    fn every_prefix_of_events_is_replayed_resumed_or_refused(turns in turns(), at: prop::sample::Index) {
        let events = turns.concat();
        let (prefix, rest) = events.split_at(at.index(events.len() + 1));

        let mut replayer = replayer_with(prefix);
        for (number, event) in rest {
            replayer.push(*number, event.clone()).unwrap();
        }
        let whole = replayed(&events, ReplayMode::Normal).unwrap();
        let joined = replayer.finish().unwrap();
        prop_assert_eq!(joined.history(), whole.history());

        let undecided: Vec<_> = rest
            .iter()
            .take_while(|(_, event)| Request::of_event(event).is_some())
            .cloned()
            .collect();
        match replayer_with(prefix).resume() {
            Ok((_, turn)) => prop_assert_eq!(turn.events, undecided),
            Err(error) => {
                prop_assert!(error.is_determinism(), "{error}");
                prop_assert!(!undecided.is_empty());
            }
        }
    }

    #[test]
    fn a_recorded_action_that_is_missing_or_another_is_found_where_it_is(
        turns in turns(),
        at: prop::sample::Index,
    ) {
        let events = turns.concat();
        let actions: Vec<usize> = (0..events.len())
            .filter(|i| Request::of_event(&events[*i].1).is_some())
            .collect();
        prop_assume!(!actions.is_empty());
        let place = actions[at.index(actions.len())];

        let mut changed = events.clone();
        let other = WorkflowEvent::TimerStarted { timer_id: "other".into(), duration_ms: 1 };
        changed[place].1 = other.clone();
        let error = replayed(&changed, ReplayMode::Normal).unwrap_err();
        let ReplayError::Determinism(found) = error else {
            return Err(TestCaseError::fail(error.to_string()));
        };
        prop_assert_eq!(found.sequence_num, events[place].0);
        prop_assert_eq!(found.expected, Request::of_event(&other));
        prop_assert_eq!(found.found, Request::of_event(&events[place].1));

        let mut missing = events.clone();
        missing.remove(place);
        // Two equal requests in a row cannot be told apart, and an ending imposed from outside may meet a
        // fact that nobody had decided; every other gap is found.
        let next = missing.get(place).map(|(_, event)| event);
        let same = next.and_then(Request::of_event) == Request::of_event(&events[place].1);
        let imposed = matches!(next, Some(WorkflowEvent::WorkflowCancelled { .. }));
        prop_assert!(same || imposed || replayed(&missing, ReplayMode::Normal).is_err());
    }

    #[test]
    fn nonsense_is_replayed_or_refused_and_never_panics(log in log()) {
        let _ = replayed(&log, ReplayMode::Normal);
        let _ = replayed(&log, ReplayMode::Strict);
        let mut replayer = Replayer::new(identity(), Box::new(Busy::default()), ReplayMode::Normal);
        if log.into_iter().all(|(number, event)| replayer.push(number, event).is_ok()) {
            let _ = replayer.resume();
        }
    }

    #[test]
    fn refused_event_leaves_the_state_as_it_was(log in log()) {
        let mut state = HistoryState::default();
        for (number, event) in &log {
            let before = state.clone();
            match state.accept(*number, event) {
                Ok(()) => prop_assert_eq!(state.last_sequence(), *number),
                Err(error) => {
                    prop_assert_eq!(&state, &before, "{}", error);
                }
            }
        }
    }

    #[test]
    fn what_counts_is_part_of_the_log_and_counts_again(log in log()) {
        let Ok(history) = effective_history(log.clone()) else {
            return Ok(());
        };
        prop_assert!(history.events.is_sorted_by(|(a, _), (b, _)| a < b));
        let in_log = |(number, _): &NumberedEvent| log.iter().any(|(n, _)| n == number);
        prop_assert!(history.events.iter().all(in_log));
        let continued = |(_, e): &NumberedEvent| matches!(e, WorkflowEvent::WorkflowContinuedAsNew { .. });
        prop_assert!(!history.events.iter().any(continued));
    }

    /// A run that is reset after any turn and lives the rest again has, as what counts, what it had.
    #[test]
    fn reset_run_replays_to_where_it_stood(turns in turns(), at: prop::sample::Index) {
        let events = turns.concat();
        let cut = 1 + at.index(turns.len());
        let kept = turns[..cut].concat();
        let (to_sequence, ended) = (kept.last().unwrap().0, events.last().unwrap().0);
        let reset = WorkflowEvent::WorkflowReset { to_sequence, epoch: 1, reason: String::new() };
        let log = [events.clone(), vec![(ended + 1, reset.clone())]].concat();

        let history = effective_history(log.clone()).unwrap();
        if kept.iter().any(|(_, e)| matches!(e, WorkflowEvent::WorkflowContinuedAsNew { .. })) {
            return Ok(());
        }
        let expected = [kept.clone(), vec![(ended + 1, reset)]].concat();
        prop_assert_eq!(&history.events, &expected);
        if kept.iter().any(|(_, e)| e.is_terminal()) {
            prop_assert!(replayed(&history.events, ReplayMode::Normal).is_err());
            return Ok(());
        }
        let mut run = replayed(&history.events, ReplayMode::Normal).unwrap();
        let again: Vec<_> = turns[cut..].iter().flat_map(|turn| retake(&mut run, turn)).collect();
        let lived: Vec<_> = turns[cut..].concat().into_iter().map(|(_, e)| e).collect();
        let again: Vec<_> = again.into_iter().map(|(_, e)| e).collect();
        prop_assert_eq!(again, lived);
    }
}

/// The strategies must reach what they are there for; a generator that only makes short runs proves nothing.
#[test]
fn busy_histories_hold_every_kind_of_request_and_fact() {
    let mut names: Vec<&str> = (0..400_u32)
        .flat_map(|seed| {
            let choices: Vec<u32> = (0..40_u32)
                .map(|n| (seed * 41 + n).wrapping_mul(2_654_435_761) >> 7)
                .collect();
            busy_turns(&choices).concat()
        })
        .map(|(_, event)| event.event_type())
        .collect();
    names.sort_unstable();
    names.dedup();
    let never = [
        "local_activity.completed",
        "local_activity.failed",
        "patch.marked",
        "side_effect.recorded",
        "version.marked",
        "workflow.reset",
    ];
    let missing: Vec<_> = WorkflowEvent::TYPES
        .iter()
        .filter(|name| !never.contains(name) && !names.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
