//! Large inboxes: what a turn is given of them, and what becomes of the rest when a run ends or
//! continues as new.

use std::time::Duration;

use durable_core::{Payload, WorkflowEvent};
use everruns_durable::persistence::limits::{
    PAYLOAD_BYTES_MAX, SET_FACTS_BYTES_MAX, TURN_FACTS_BYTES_MAX, TURN_FACTS_MAX,
    UNREAD_SLICE_BYTES_MAX,
};
use everruns_durable::persistence::model::{
    ClaimedTurn, NewSignal, Next, Rejection, SendSignal, TerminateOutcome, UpdateState,
    WorkflowStatus,
};
use uuid::Uuid;

use crate::World;
use crate::world::{as_unread, json};

claims! { "inboxes":
    a_turn_is_given_a_bounded_number_of_facts,
    a_turn_is_given_facts_until_their_bytes_reach_the_limit,
    turns_of_one_call_are_given_bounded_bytes_and_each_run_comes_to_its_facts,
    all_facts_are_taken_where_none_wait_behind_those_given,
    numbers_without_a_fact_are_taken_with_the_last_facts,
    facts_behind_an_end_leave_with_it_and_signals_among_them_are_unread_events,
    an_end_that_leaves_the_rest_unread_is_not_refused_for_a_fact_that_has_just_arrived,
    a_reset_run_whose_signals_were_left_unread_keeps_them_in_its_history,
    a_large_inbox_does_not_keep_a_run_from_being_terminated,
    a_large_inbox_does_not_keep_a_run_from_its_deadline,
    a_continuation_drops_what_the_old_iteration_waited_for_and_keeps_signals_and_updates,
    signals_carried_over_come_before_those_that_stayed_through_many_iterations,
}

/// JSON text that makes a fact just larger than the largest payload, with room for what a codec
/// adds; the clones share it.
fn largest() -> Payload {
    let text = "x".repeat(PAYLOAD_BYTES_MAX - 64);
    Payload::from_json_text(format!("\"{text}\"")).expect("JSON")
}

async fn send_many(w: &World, run_id: Uuid, count: usize, payload: &Payload) -> Vec<NewSignal> {
    let signals: Vec<NewSignal> = (0..count)
        .map(|n| NewSignal {
            signal_id: w.id(),
            signal_type: format!("n{n}"),
            payload: payload.clone(),
        })
        .collect();
    let bytes = payload.len().max(1);
    // As many at once as one call may bring.
    for some in signals.chunks((SET_FACTS_BYTES_MAX / bytes).clamp(1, 10_000)) {
        let sends = some.iter().cloned();
        let sends = sends.map(|signal| SendSignal { run_id, signal });
        let sent = w.store.send_signals(sends.collect(), w.now()).await;
        assert_eq!(sent.expect("sent").len(), some.len());
    }
    signals
}

fn arrivals(turn: &ClaimedTurn) -> Vec<i64> {
    turn.facts.iter().map(|fact| fact.arrival).collect()
}

/// Takes what a turn was given.
async fn take(w: &World, turn: &ClaimedTurn) {
    let mut commit = w.turn(turn.run.id).await;
    commit.facts_through = turn.facts_through;
    w.committed(commit).await;
}

async fn a_turn_is_given_a_bounded_number_of_facts(w: &World) {
    let run_id = w.start().await;
    send_many(w, run_id, TURN_FACTS_MAX + 3, &json("1")).await;
    let max = i64::try_from(TURN_FACTS_MAX).expect("small");
    let turn = w.waiting(run_id).await;
    assert_eq!(arrivals(&turn), (1..=max).collect::<Vec<_>>());
    assert_eq!((turn.facts_through, turn.has_more()), (max, true));
    let claimed = w.claim_turns(1).await.remove(0);
    assert_eq!(
        (claimed.facts, claimed.facts_through),
        (turn.facts.clone(), max)
    );

    take(w, &turn).await;
    let turn = w.waiting(run_id).await;
    assert_eq!(arrivals(&turn), [max + 1, max + 2, max + 3]);
    assert_eq!((turn.facts_through, turn.has_more()), (max + 3, false));
    assert!(turn.run.ready_at.is_some(), "another turn is due");
}

async fn a_turn_is_given_facts_until_their_bytes_reach_the_limit(w: &World) {
    let run_id = w.start().await;
    let fits = TURN_FACTS_BYTES_MAX / PAYLOAD_BYTES_MAX;
    send_many(w, run_id, fits + 2, &largest()).await;
    let turn = w.waiting(run_id).await;
    assert_eq!((turn.facts.len(), turn.has_more()), (fits, true));
    take(w, &turn).await;
    let turn = w.waiting(run_id).await;
    assert_eq!((turn.facts.len(), turn.has_more()), (2, false));
}

async fn turns_of_one_call_are_given_bounded_bytes_and_each_run_comes_to_its_facts(w: &World) {
    let each = TURN_FACTS_BYTES_MAX / PAYLOAD_BYTES_MAX;
    let runs = w
        .start_in_one_shard(SET_FACTS_BYTES_MAX / TURN_FACTS_BYTES_MAX + 2)
        .await;
    for run_id in &runs {
        send_many(w, *run_id, each, &largest()).await;
    }
    let mut left = runs.clone();
    while !left.is_empty() {
        let turns = w.store.load_turns(&left).await.expect("load_turns");
        let turns: Vec<ClaimedTurn> = turns.into_iter().flatten().collect();
        let given: usize = turns.iter().map(|turn| turn.facts.len()).sum();
        assert!(given > 0, "each call gets on");
        assert!(
            (given - 1) * PAYLOAD_BYTES_MAX < SET_FACTS_BYTES_MAX,
            "{given} facts"
        );
        for turn in turns {
            if turn.facts.is_empty() {
                assert!(turn.has_more(), "a run without facts says that they wait");
                assert_eq!(turn.facts_through, turn.run.consumed);
                continue;
            }
            take(w, &turn).await;
            if !turn.has_more() {
                left.retain(|run_id| *run_id != turn.run.id);
            }
        }
    }
    let claimed = w.claim_turns(runs.len()).await;
    assert_eq!(claimed, [], "no turn is due any more");
}

async fn all_facts_are_taken_where_none_wait_behind_those_given(w: &World) {
    let run_id = w.start().await;
    let turn = w.waiting(run_id).await;
    assert_eq!((turn.facts_through, turn.has_more()), (0, false));
    w.signal(run_id, "a").await;
    w.signal(run_id, "b").await;
    let turn = w.waiting(run_id).await;
    assert_eq!((turn.facts_through, turn.has_more()), (2, false));
}

async fn numbers_without_a_fact_are_taken_with_the_last_facts(w: &World) {
    let run_id = w.start_with_tasks(vec![w.parallel_task("a")]).await;
    w.signal(run_id, "kept").await;
    let claimed = w.claim_one().await;
    w.succeed(&claimed.lease).await;
    let mut turn = World::resetting(w.turn(run_id).await, 1);
    turn.facts_through = 0;
    w.committed(turn).await;
    let turn = w.waiting(run_id).await;
    assert_eq!(arrivals(&turn), [1]);
    assert_eq!((turn.facts_through, turn.has_more()), (2, false));
    take(w, &turn).await;
    assert_eq!(w.run(run_id).await.ready_at, None);
}

async fn facts_behind_an_end_leave_with_it_and_signals_among_them_are_unread_events(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", Duration::from_secs(1)).await;
    for name in ["a", "b"] {
        w.signal(run_id, name).await;
    }
    w.update(run_id, w.new_update("late")).await;
    w.advance(Duration::from_secs(1));
    assert_eq!(w.fire_due().await.timers, 1);
    w.signal(run_id, "c").await;
    let waiting = w.waiting(run_id).await;
    let [a, b, _, _, c] = &waiting.facts[..] else {
        panic!("{:?}", waiting.facts);
    };
    let before = w.history(run_id).await;
    w.advance(Duration::from_secs(1));

    let mut turn = w.turn(run_id).await;
    turn.events = vec![a.event.clone()];
    turn.facts_through = 1;
    turn.unread_rest = true;
    let turn = World::completing(turn);
    let end = turn.events.last().expect("the terminal event").clone();
    let committed = w.committed(turn).await;
    let expected = [
        before,
        vec![
            a.event.clone(),
            as_unread(b.event.clone()),
            as_unread(c.event.clone()),
            end,
        ],
    ];
    let expected = expected.concat();
    assert_eq!(w.history(run_id).await, expected);
    let all = w.dump(run_id).await;
    let last = i64::try_from(expected.len()).expect("few");
    assert_eq!((all.run.sequence, committed.sequence), (last, last));
    assert_eq!((all.run.consumed, all.run.arrivals), (5, 5));
    assert_eq!(
        (all.run.status, all.facts),
        (WorkflowStatus::Completed, vec![])
    );
    let marked = all.signals.iter().map(|signal| signal.processed_at);
    assert!(marked.into_iter().all(|at| at == w.now()));
    assert!(matches!(all.updates[0].state, UpdateState::Failed(_)));
    assert!(
        all.events
            .iter()
            .map(|event| event.sequence_num)
            .eq(1..=last)
    );
}

async fn an_end_that_leaves_the_rest_unread_is_not_refused_for_a_fact_that_has_just_arrived(
    w: &World,
) {
    for unread_rest in [false, true] {
        let run_id = w.start().await;
        let mut turn = World::completing(w.turn(run_id).await);
        turn.unread_rest = unread_rest;
        w.signal(run_id, "just arrived").await;
        if unread_rest {
            w.committed(turn).await;
            let history = w.history(run_id).await;
            let unread = |event: &WorkflowEvent| {
                matches!(event, WorkflowEvent::SignalReceived { unread: true, .. })
            };
            assert_eq!(history.iter().filter(|event| unread(event)).count(), 1);
        } else {
            let unseen = Rejection::UnseenFacts { arrivals: 1 };
            assert_eq!(w.rejected(turn).await, unseen);
        }
    }
}

async fn a_reset_run_whose_signals_were_left_unread_keeps_them_in_its_history(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    w.signal(run_id, "waits").await;
    w.terminate(run_id, "stop").await;
    let before = w.history(run_id).await;
    w.reset(run_id, 1).await;
    assert_eq!(w.history(run_id).await[..before.len()], before[..]);
    assert_eq!(w.waiting(run_id).await.facts, []);
}

/// Signals that take more than one statement to be kept.
async fn with_a_large_inbox(w: &World, run_id: Uuid) -> Vec<NewSignal> {
    let count = UNREAD_SLICE_BYTES_MAX / PAYLOAD_BYTES_MAX + 3;
    w.signal(run_id, "small").await;
    send_many(w, run_id, count, &largest()).await
}

/// The history ends with an unread event for each signal, in order, and the terminal one.
async fn ends_with_unread(w: &World, run_id: Uuid, signals: &[NewSignal]) {
    let all = w.dump(run_id).await;
    assert_eq!(all.run.status, WorkflowStatus::Failed);
    assert!(all.facts.is_empty());
    let numbers = all.events.iter().map(|event| event.sequence_num);
    assert!(numbers.eq(1..=all.run.sequence));
    let mut events = all.events.into_iter().rev().map(|event| event.event);
    let end = events.next().expect("the end");
    assert!(end.is_terminal());
    let unread: Vec<NewSignal> = events
        .take(signals.len())
        .map(|event| match event {
            WorkflowEvent::SignalReceived {
                signal,
                unread: true,
            } => NewSignal {
                signal_id: signal.signal_id.expect("it has one"),
                signal_type: signal.signal_type,
                payload: signal.payload,
            },
            other => panic!("{}", other.event_type()),
        })
        .collect();
    assert!(unread.iter().rev().eq(signals), "by arrival");
}

async fn a_large_inbox_does_not_keep_a_run_from_being_terminated(w: &World) {
    let run_id = w.start().await;
    let signals = with_a_large_inbox(w, run_id).await;
    let outcome = w.terminate(run_id, "enough").await;
    assert_eq!(outcome, TerminateOutcome::Terminated);
    ends_with_unread(w, run_id, &signals).await;
}

async fn a_large_inbox_does_not_keep_a_run_from_its_deadline(w: &World) {
    let mut start = w.new_start();
    start.execution_timeout = Some(Duration::from_secs(1));
    let run_id = w.start_one(start).await;
    let signals = with_a_large_inbox(w, run_id).await;
    w.advance(Duration::from_secs(1));
    assert_eq!(w.fire_due().await.runs_timed_out, [run_id]);
    ends_with_unread(w, run_id, &signals).await;
}

async fn a_continuation_drops_what_the_old_iteration_waited_for_and_keeps_signals_and_updates(
    w: &World,
) {
    let run_id = w.start_with_tasks(vec![w.parallel_task("a")]).await;
    w.set_timer(run_id, "t", Duration::from_secs(1)).await;
    let claimed = w.claim_one().await;
    w.succeed(&claimed.lease).await;
    w.signal(run_id, "hello").await;
    w.advance(Duration::from_secs(1));
    w.fire_due().await;
    w.update(run_id, w.new_update("change")).await;
    let turn = w.waiting(run_id).await;
    assert_eq!((turn.run.consumed, arrivals(&turn)), (0, vec![1, 2, 3, 4]));

    let mut turn = World::continuing(w.turn(run_id).await, vec![]);
    turn.facts_through = 0;
    w.committed(turn).await;
    let turn = w.waiting(run_id).await;
    let kinds: Vec<_> = turn.facts.iter().map(|f| f.event.event_type()).collect();
    assert_eq!(kinds, ["signal.received", "update.accepted"]);
    assert_eq!(arrivals(&turn), [2, 4]);
    assert_eq!((turn.facts_through, turn.has_more()), (4, false));
    assert_eq!(turn.run.ready_at, w.now());
    let all = w.dump(run_id).await;
    assert_eq!(all.signals[0].processed_at, None);
    assert_eq!(all.updates[0].state, UpdateState::Pending);
}

async fn signals_carried_over_come_before_those_that_stayed_through_many_iterations(w: &World) {
    let run_id = w.start().await;
    let signals = send_many(w, run_id, 10, &json("1")).await;
    // Each iteration takes one signal more than it uses up, so that more and more are carried, and
    // from earlier turns too.
    let mut carried: Vec<NewSignal> = Vec::new();
    for iteration in 0..4 {
        let turn = w.waiting(run_id).await;
        let names: Vec<_> = turn
            .facts
            .iter()
            .map(|fact| match &fact.event {
                WorkflowEvent::SignalReceived { signal, .. } => signal.signal_id,
                other => panic!("{other:?}"),
            })
            .collect();
        let left = signals[iteration..]
            .iter()
            .map(|signal| Some(signal.signal_id));
        assert!(names.into_iter().eq(left), "iteration {iteration}");
        assert_eq!(turn.run.arrivals, 10, "no new number is given");

        let taken = carried.len() + 2;
        let through = turn.facts[taken - 1].arrival;
        let mut first = w.turn(run_id).await;
        first.facts_through = through - 1;
        w.committed(first).await;
        carried = signals[iteration + 1..iteration + taken].to_vec();
        let mut second = World::ending(
            w.turn(run_id).await,
            Next::ContinueAsNew {
                input: json("1"),
                carried: carried.clone(),
            },
        );
        second.facts_through = through;
        w.committed(second).await;
    }
}
