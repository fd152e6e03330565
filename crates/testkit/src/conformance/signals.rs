//! Signals: each in exactly one history, in order, or refused.

use std::pin::Pin;
use std::time::Duration;

use durable_core::{Payload, WorkflowEvent, WorkflowSignal};
use everruns_durable::persistence::limits::{BATCH_ITEMS_MAX, INBOX_FACTS_MAX};
use everruns_durable::persistence::model::{
    ClaimedTurn, Fact, NewSignal, Rejection, RunRecord, SendOutcome, SendRejection, SendSignal,
    SignalRecord, TurnCommit, TurnOutcome, WorkflowStatus,
};
use uuid::Uuid;

use crate::World;
use crate::world::{at_once, json, one, patient};

claims! { "signals":
    a_signal_waits_as_a_fact_with_its_arrival_number,
    a_signal_changes_nothing_of_the_run_but_arrivals_and_readiness,
    a_second_signal_leaves_the_run_ready_since_the_first,
    arrival_numbers_count_each_run_without_gaps_in_the_order_of_sending,
    a_signal_sent_twice_is_one_signal,
    a_signal_is_a_duplicate_also_after_a_turn_took_it,
    a_duplicate_is_told_as_one_also_after_the_run_ended,
    one_signal_id_in_two_runs_is_two_signals,
    an_ended_run_refuses_signals_and_says_how_it_ended,
    a_signal_to_no_run_is_not_found_and_hurts_no_other,
    a_signal_that_arrives_while_a_completing_turn_is_prepared_is_not_lost,
    a_signal_that_arrives_while_a_continuing_turn_is_prepared_waits_for_the_new_iteration,
    a_turn_takes_signals_only_up_to_the_number_it_names,
    the_ledger_says_when_a_turn_took_a_signal,
    signals_carried_over_are_the_first_facts_of_the_new_iteration,
    a_carried_signal_without_a_ledger_row_gets_one,
    a_signal_against_completion_is_in_the_history_or_refused,
    sixty_four_senders_at_once_lose_no_signal,
    one_signal_from_sixty_four_senders_at_once_is_one,
    turns_taken_while_signals_arrive_append_each_of_them_once,
    a_full_inbox_refuses_senders_and_nothing_else,
}

fn received(w: &World, signal: &NewSignal) -> WorkflowEvent {
    WorkflowEvent::SignalReceived {
        signal: WorkflowSignal {
            signal_id: Some(signal.signal_id),
            signal_type: signal.signal_type.clone(),
            payload: signal.payload.clone(),
            sent_at: w.instant(),
        },
        unread: false,
    }
}

fn accepted(outcome: &SendOutcome) -> i64 {
    match outcome {
        SendOutcome::Accepted { arrival } => *arrival,
        other => panic!("expected a signal to be accepted, got {other:?}"),
    }
}

async fn a_signal_waits_as_a_fact_with_its_arrival_number(w: &World) {
    let run_id = w.start().await;
    let signal = w.new_signal("approve");
    let sent = w.send(run_id, signal.clone()).await;
    assert_eq!(sent, SendOutcome::Accepted { arrival: 1 });
    let fact = Fact {
        arrival: 1,
        event: received(w, &signal),
        attempts: vec![],
        last_attempt: None,
        arrived_at: w.instant(),
    };
    assert_eq!(w.waiting(run_id).await.facts, [fact]);
    let ledger = SignalRecord {
        run_id,
        signal_id: signal.signal_id,
        signal_type: "approve".into(),
        payload: signal.payload,
        arrival: 1,
        sent_at: w.instant(),
        processed_at: None,
    };
    assert_eq!(w.dump(run_id).await.signals, [ledger]);
}

async fn a_signal_changes_nothing_of_the_run_but_arrivals_and_readiness(w: &World) {
    let run_id = w.start().await;
    let turn = w.turn(run_id).await;
    w.committed(turn).await;
    let before = w.run(run_id).await;
    assert_eq!(before.ready_at, None);
    w.advance(Duration::from_secs(3));
    w.signal(run_id, "a").await;
    let expected = RunRecord {
        arrivals: 1,
        ready_at: w.now(),
        ..before
    };
    assert_eq!(w.run(run_id).await, expected);
}

async fn a_second_signal_leaves_the_run_ready_since_the_first(w: &World) {
    let run_id = w.start().await;
    let turn = w.turn(run_id).await;
    w.committed(turn).await;
    w.signal(run_id, "a").await;
    let first = w.now();
    w.advance(Duration::from_secs(3));
    w.signal(run_id, "b").await;
    let run = w.run(run_id).await;
    assert_eq!((run.ready_at, run.arrivals), (first, 2));
}

async fn arrival_numbers_count_each_run_without_gaps_in_the_order_of_sending(w: &World) {
    let (one, two) = (w.start().await, w.start().await);
    let names = [(one, "a"), (two, "b"), (one, "c"), (one, "d"), (two, "e")];
    let batch = names.map(|(run_id, name)| SendSignal {
        run_id,
        signal: w.new_signal(name),
    });
    let sent = w.store.send_signals(batch.to_vec(), w.now()).await;
    let arrivals: Vec<i64> = sent.expect("sent").iter().map(accepted).collect();
    assert_eq!(arrivals, [1, 1, 2, 3, 2]);
    w.signal(one, "f").await;
    assert_eq!(names_waiting(&w.waiting(one).await), ["a", "c", "d", "f"]);
    assert_eq!(names_waiting(&w.waiting(two).await), ["b", "e"]);
}

fn names_waiting(turn: &ClaimedTurn) -> Vec<String> {
    let arrivals: Vec<i64> = turn.facts.iter().map(|fact| fact.arrival).collect();
    let expected: Vec<i64> = (turn.run.consumed + 1..=turn.run.arrivals).collect();
    assert_eq!(arrivals, expected, "no gap");
    names_of(turn.facts.iter().map(|fact| &fact.event))
}

fn names_of<'a>(events: impl Iterator<Item = &'a WorkflowEvent>) -> Vec<String> {
    events
        .filter_map(|event| match event {
            WorkflowEvent::SignalReceived { signal, .. } => Some(signal.signal_type.clone()),
            _ => None,
        })
        .collect()
}

async fn a_signal_sent_twice_is_one_signal(w: &World) {
    let run_id = w.start().await;
    let signal = w.new_signal("a");
    let twice = vec![
        SendSignal {
            run_id,
            signal: signal.clone()
        };
        2
    ];
    let sent = w.store.send_signals(twice, w.now()).await.expect("sent");
    assert_eq!(
        sent,
        [
            SendOutcome::Accepted { arrival: 1 },
            SendOutcome::Duplicate { arrival: 1 }
        ]
    );
    let mut other_content = signal;
    other_content.payload = json("\"changed\"");
    let again = w.send(run_id, other_content).await;
    assert_eq!(again, SendOutcome::Duplicate { arrival: 1 });
    let turn = w.waiting(run_id).await;
    assert_eq!((turn.facts.len(), turn.run.arrivals), (1, 1));
}

async fn a_signal_is_a_duplicate_also_after_a_turn_took_it(w: &World) {
    let run_id = w.start().await;
    let signal = w.new_signal("a");
    w.send(run_id, signal.clone()).await;
    let turn = w.turn(run_id).await;
    w.committed(turn).await;
    let again = w.send(run_id, signal).await;
    assert_eq!(again, SendOutcome::Duplicate { arrival: 1 });
    let turn = w.waiting(run_id).await;
    assert_eq!((turn.facts.len(), turn.run.ready_at), (0, None));
}

async fn a_duplicate_is_told_as_one_also_after_the_run_ended(w: &World) {
    let run_id = w.start().await;
    let signal = w.new_signal("a");
    w.send(run_id, signal.clone()).await;
    w.complete(run_id).await;
    let again = w.send(run_id, signal).await;
    assert_eq!(again, SendOutcome::Duplicate { arrival: 1 });
}

async fn one_signal_id_in_two_runs_is_two_signals(w: &World) {
    let (one, two) = (w.start().await, w.start().await);
    let signal = w.new_signal("a");
    assert_eq!(accepted(&w.send(one, signal.clone()).await), 1);
    assert_eq!(accepted(&w.send(two, signal).await), 1);
}

async fn an_ended_run_refuses_signals_and_says_how_it_ended(w: &World) {
    let completed = w.start().await;
    w.complete(completed).await;
    let cancelled = w.start().await;
    let turn = w.turn(cancelled).await;
    w.committed(World::cancelling(turn)).await;
    let terminated = w.start().await;
    w.terminate(terminated, "stop").await;
    for (run_id, status) in [
        (completed, WorkflowStatus::Completed),
        (cancelled, WorkflowStatus::Cancelled),
        (terminated, WorkflowStatus::Failed),
    ] {
        let before = w.dump(run_id).await;
        let refused = SendOutcome::Rejected(SendRejection::RunFinished { status });
        assert_eq!(w.signal(run_id, "late").await, refused);
        assert_eq!(w.dump(run_id).await, before, "nothing was written");
    }
}

async fn a_signal_to_no_run_is_not_found_and_hurts_no_other(w: &World) {
    let run_id = w.start().await;
    let batch = [w.id(), run_id].map(|run_id| SendSignal {
        run_id,
        signal: w.new_signal("a"),
    });
    let sent = w.store.send_signals(batch.to_vec(), w.now()).await;
    assert_eq!(
        sent.expect("sent"),
        [
            SendOutcome::Rejected(SendRejection::NotFound),
            SendOutcome::Accepted { arrival: 1 }
        ]
    );
}

async fn a_signal_that_arrives_while_a_completing_turn_is_prepared_is_not_lost(w: &World) {
    let run_id = w.start().await;
    let unaware = World::completing(w.turn(run_id).await);
    w.signal(run_id, "just in time").await;
    assert_eq!(
        w.rejected(unaware).await,
        Rejection::UnseenFacts { arrivals: 1 }
    );
    let run = w.run(run_id).await;
    assert_eq!((run.status, run.sequence), (WorkflowStatus::Pending, 0));
    assert_eq!(
        names_waiting(&w.waiting(run_id).await),
        ["just in time"],
        "the next turn sees it"
    );
    w.complete(run_id).await;
    assert_eq!(w.run(run_id).await.status, WorkflowStatus::Completed);
}

async fn a_signal_that_arrives_while_a_continuing_turn_is_prepared_waits_for_the_new_iteration(
    w: &World,
) {
    let run_id = w.start().await;
    let unaware = World::continuing(w.turn(run_id).await, vec![]);
    w.signal(run_id, "just in time").await;
    assert_eq!(w.committed(unaware).await.arrivals, 1);
    let turn = w.waiting(run_id).await;
    assert_eq!((turn.run.iteration, turn.run.consumed), (1, 0));
    assert_eq!(names_waiting(&turn), ["just in time"]);
    assert_eq!(turn.facts[0].arrival, 1, "it is the same fact");
}

async fn a_turn_takes_signals_only_up_to_the_number_it_names(w: &World) {
    let run_id = w.start().await;
    for name in ["a", "b", "c"] {
        w.signal(run_id, name).await;
    }
    let mut turn = w.turn(run_id).await;
    turn.facts_through = 2;
    w.advance(Duration::from_secs(1));
    let committed = w.committed(turn).await;
    assert_eq!(committed.arrivals, 3, "one more turn is due");
    let turn = w.waiting(run_id).await;
    assert_eq!(names_waiting(&turn), ["c"]);
    assert_eq!((turn.run.consumed, turn.run.ready_at), (2, w.now()));
}

async fn the_ledger_says_when_a_turn_took_a_signal(w: &World) {
    let run_id = w.start().await;
    w.signal(run_id, "a").await;
    w.signal(run_id, "b").await;
    let mut turn = w.turn(run_id).await;
    turn.facts_through = 1;
    w.advance(Duration::from_secs(1));
    w.committed(turn).await;
    let taken = |signals: &[SignalRecord]| -> Vec<_> {
        signals.iter().map(|signal| signal.processed_at).collect()
    };
    let first = w.now();
    assert_eq!(taken(&w.dump(run_id).await.signals), [first, None]);
    w.advance(Duration::from_secs(1));
    w.complete(run_id).await;
    assert_eq!(taken(&w.dump(run_id).await.signals), [first, w.now()]);
}

async fn signals_carried_over_are_the_first_facts_of_the_new_iteration(w: &World) {
    let run_id = w.start().await;
    let (used, unused) = (w.new_signal("used"), w.new_signal("unused"));
    w.send(run_id, used).await;
    w.send(run_id, unused.clone()).await;
    let event = received(w, &unused);
    let sent_at = w.instant();
    w.advance(Duration::from_secs(5));
    let turn = World::continuing(w.turn(run_id).await, vec![unused.clone()]);
    w.signal(run_id, "unseen").await;
    assert_eq!(w.committed(turn).await.arrivals, 3);
    let continued_at = w.instant();
    w.advance(Duration::from_secs(1));
    w.signal(run_id, "later").await;

    let turn = w.waiting(run_id).await;
    assert_eq!((turn.run.iteration, turn.run.consumed), (1, 1));
    assert_eq!(names_waiting(&turn), ["unused", "unseen", "later"]);
    let carried = Fact {
        arrival: 2,
        event,
        attempts: vec![],
        last_attempt: None,
        arrived_at: continued_at,
    };
    assert_eq!(turn.facts[0], carried, "sent when it was first sent");
    let ledger = &w.dump(run_id).await.signals[1];
    assert_eq!(
        (ledger.signal_id, ledger.arrival, ledger.processed_at),
        (unused.signal_id, 2, None)
    );
    assert_eq!(ledger.sent_at, sent_at);
    let again = w.send(run_id, unused).await;
    assert_eq!(again, SendOutcome::Duplicate { arrival: 2 });
}

async fn a_carried_signal_without_a_ledger_row_gets_one(w: &World) {
    let run_id = w.start().await;
    let signal = w.new_signal("from nowhere");
    let turn = World::continuing(w.turn(run_id).await, vec![signal.clone()]);
    w.committed(turn).await;
    assert_eq!(w.waiting_events(run_id).await, [received(w, &signal)]);
    let again = w.send(run_id, signal).await;
    assert_eq!(again, SendOutcome::Duplicate { arrival: 0 });
}

/// A turn that appends every fact and completes.
fn complete_with_facts(turn: ClaimedTurn, turn_id: Uuid) -> TurnCommit {
    let mut commit = TurnCommit::new(&turn.run, turn_id);
    commit.facts_through = turn.run.arrivals;
    commit.events = turn.facts.into_iter().map(|fact| fact.event).collect();
    World::completing(commit)
}

async fn a_signal_against_completion_is_in_the_history_or_refused(w: &World) {
    const ROUNDS: usize = 200;
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        let run_id = w.start().await;
        let (store, now) = (w.store.clone(), w.now());
        let turn_ids = [w.id(), w.id()];
        let completer = async move {
            for turn_id in turn_ids {
                let turn = one(store.load_turns(&[run_id]).await).expect("the run exists");
                let turn = complete_with_facts(turn, turn_id);
                match one(store.commit_turns(vec![turn], now).await) {
                    TurnOutcome::Committed(_) => return None,
                    TurnOutcome::Rejected(Rejection::UnseenFacts { .. }) => {}
                    TurnOutcome::Rejected(why) => panic!("{why}"),
                }
            }
            panic!("one signal, two refusals");
        };
        let (store, signal) = (w.store.clone(), w.new_signal("now"));
        let sender = async move {
            let send = SendSignal { run_id, signal };
            Some(one(store.send_signals(vec![send], now).await))
        };
        let jobs: Vec<Pin<Box<dyn Future<Output = Option<SendOutcome>> + Send>>> =
            vec![Box::pin(completer), Box::pin(sender)];
        let sent = at_once(jobs).await.remove(1).expect("the sender's answer");
        let in_history = names_of(w.history(run_id).await.iter()).len();
        match sent {
            SendOutcome::Accepted { arrival: 1 } => {
                assert_eq!(in_history, 1, "an acknowledged signal is in the history");
                taken += 1;
            }
            SendOutcome::Rejected(SendRejection::RunFinished { .. }) => {
                assert_eq!(in_history, 0, "a refused signal is in no history");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(w.run(run_id).await.status, WorkflowStatus::Completed);
    }
    assert_eq!(taken + refused, ROUNDS);
}

async fn sixty_four_senders_at_once_lose_no_signal(w: &World) {
    const EACH: usize = 5;
    let run_id = w.start().await;
    let now = w.now();
    let senders = (0..64)
        .map(|sender| {
            let store = w.store.clone();
            let signals: Vec<NewSignal> = (0..EACH)
                .map(|i| w.new_signal(&format!("{sender:02}-{i}")))
                .collect();
            async move {
                for signal in signals {
                    let send = SendSignal { run_id, signal };
                    let sent = patient(|| store.send_signals(vec![send.clone()], now)).await;
                    accepted(&one(sent));
                }
            }
        })
        .collect();
    at_once(senders).await;
    let names = names_waiting(&w.waiting(run_id).await);
    assert_eq!(names.len(), 64 * EACH);
    for sender in 0..64 {
        let prefix = format!("{sender:02}-");
        let own: Vec<&String> = names.iter().filter(|n| n.starts_with(&prefix)).collect();
        let expected: Vec<String> = (0..EACH).map(|i| format!("{prefix}{i}")).collect();
        assert!(
            own.into_iter().eq(&expected),
            "each sender's signals are in its order"
        );
    }
}

async fn one_signal_from_sixty_four_senders_at_once_is_one(w: &World) {
    let run_id = w.start().await;
    let (now, signal) = (w.now(), w.new_signal("once"));
    let senders = (0..64)
        .map(|_| {
            let (store, signal) = (w.store.clone(), signal.clone());
            async move {
                let send = SendSignal { run_id, signal };
                one(patient(|| store.send_signals(vec![send.clone()], now)).await)
            }
        })
        .collect();
    let sent = at_once(senders).await;
    let accepted = SendOutcome::Accepted { arrival: 1 };
    let duplicate = SendOutcome::Duplicate { arrival: 1 };
    assert_eq!(sent.iter().filter(|s| **s == accepted).count(), 1);
    assert_eq!(sent.iter().filter(|s| **s == duplicate).count(), 63);
    assert_eq!(w.waiting(run_id).await.facts.len(), 1);
}

/// A turn that appends every fact and waits for more.
fn take_facts(turn: ClaimedTurn, turn_id: Uuid) -> TurnCommit {
    let mut commit = TurnCommit::new(&turn.run, turn_id);
    commit.facts_through = turn.run.arrivals;
    commit.events = turn.facts.into_iter().map(|fact| fact.event).collect();
    commit
}

async fn turns_taken_while_signals_arrive_append_each_of_them_once(w: &World) {
    const SENDERS: usize = 8;
    const EACH: usize = 25;
    let run_id = w.start().await;
    let now = w.now();
    let mut jobs: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
    for sender in 0..SENDERS {
        let store = w.store.clone();
        let signals: Vec<NewSignal> = (0..EACH)
            .map(|i| w.new_signal(&format!("{sender}-{i}")))
            .collect();
        jobs.push(Box::pin(async move {
            for signal in signals {
                let send = SendSignal { run_id, signal };
                accepted(&one(store.send_signals(vec![send], now).await));
            }
        }));
    }
    let store = w.store.clone();
    let turn_ids: Vec<Uuid> = (0..50).map(|_| w.id()).collect();
    jobs.push(Box::pin(async move {
        for turn_id in turn_ids {
            let turn = one(store.load_turns(&[run_id]).await).expect("the run exists");
            let turn = take_facts(turn, turn_id);
            let outcome = one(store.commit_turns(vec![turn], now).await);
            assert!(matches!(outcome, TurnOutcome::Committed(_)), "{outcome:?}");
        }
    }));
    at_once(jobs).await;
    let rest = w.waiting(run_id).await;
    w.committed(take_facts(rest, w.id())).await;
    let mut names = names_of(w.history(run_id).await.iter());
    assert_eq!(
        names.len(),
        SENDERS * EACH,
        "none is lost, none is there twice"
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SENDERS * EACH);
}

async fn a_full_inbox_refuses_senders_and_nothing_else(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", Duration::from_secs(1)).await;
    let limit = usize::try_from(INBOX_FACTS_MAX).expect("a small number");
    let mut first = None;
    for _ in 0..limit / BATCH_ITEMS_MAX {
        let batch: Vec<SendSignal> = (0..BATCH_ITEMS_MAX)
            .map(|_| SendSignal {
                run_id,
                signal: NewSignal {
                    signal_id: w.id(),
                    signal_type: "s".into(),
                    payload: Payload::null(),
                },
            })
            .collect();
        first.get_or_insert_with(|| batch[0].signal.clone());
        let sent = w.store.send_signals(batch, w.now()).await.expect("sent");
        assert!(sent.iter().all(|s| accepted(s) > 0));
    }
    let full = SendOutcome::Rejected(SendRejection::InboxFull {
        waiting: INBOX_FACTS_MAX,
    });
    assert_eq!(w.signal(run_id, "one more").await, full);
    assert_eq!(w.update(run_id, w.new_update("u")).await, full);
    let again = w.send(run_id, first.expect("sent")).await;
    assert_eq!(again, SendOutcome::Duplicate { arrival: 1 });

    w.advance(Duration::from_secs(1));
    assert_eq!(
        w.fire_due().await.timers,
        1,
        "other facts are never refused"
    );
    let turn = w.turn(run_id).await;
    assert_eq!(turn.facts_through, INBOX_FACTS_MAX + 1);
    w.committed(turn).await;
    assert_eq!(
        accepted(&w.signal(run_id, "after").await),
        INBOX_FACTS_MAX + 2,
        "room again"
    );
}
