//! What reaches runs and what they send: facts, signals, updates, messages.

use durable_core::{Payload, WorkflowEvent};
use everruns_durable::persistence::model::{Fact, UpdateState};
use everruns_durable::persistence::postgres::Postgres;
use everruns_durable::persistence::sql::rows::{Changes, Load, UpdateAnswerRow};
use everruns_durable::persistence::sql::tx::Database;
use uuid::Uuid;

use super::{at, two_runs};
use crate::intents::{load, write};
use crate::samples::{
    codec_payload, failure, full_fact, id, messages, odd_payload, signal, signal_fact, t, update,
};

/// What waits for runs, each in order of arrival.
async fn waiting(store: &Postgres, runs: &[Uuid]) -> Vec<(Uuid, Fact)> {
    let turns = store.load_turns(runs.to_vec()).await.unwrap();
    let turns = turns.into_iter().flatten();
    let facts = turns.flat_map(|turn| {
        let run_id = turn.run.id;
        turn.facts.into_iter().map(move |fact| (run_id, fact))
    });
    facts.collect()
}

#[tokio::test]
async fn facts_are_taken_by_arrival_and_their_signals_marked() {
    let (store, first, second) = two_runs(4).await;
    let arrived = Changes {
        insert_facts: vec![
            (first, full_fact(1)),
            (first, signal_fact(2)),
            (first, signal_fact(3)),
            (second, signal_fact(1)),
        ],
        put_signals: vec![
            signal(first, 21, 2),
            signal(first, 22, 3),
            signal(second, 21, 1),
        ],
        ..at(1)
    };
    write(&store, arrived).await;
    let wanted = Load {
        signals: vec![
            (first, id(21)),
            (first, id(22)),
            (second, id(21)),
            (second, id(22)),
        ],
        ..Load::default()
    };
    let loaded = load(&store, wanted.clone()).await;
    let facts = waiting(&store, &[first, second]).await;
    assert_eq!(facts[0], (first, full_fact(1)));
    assert_eq!(facts.len(), 4);
    assert_eq!(loaded.signals.len(), 3);
    assert_eq!(loaded.signals[&(first, id(22))], signal(first, 22, 3));

    write(
        &store,
        Changes {
            consume_facts: vec![(first, 2)],
            ..at(6)
        },
    )
    .await;
    let loaded = load(&store, wanted.clone()).await;
    assert_eq!(waiting(&store, &[first, second]).await.len(), 2);
    assert_eq!(loaded.signals[&(first, id(21))].processed_at, Some(t(6)));
    assert_eq!(loaded.signals[&(first, id(22))].processed_at, None);
    assert_eq!(loaded.signals[&(second, id(21))].processed_at, None);

    let carried = signal(first, 21, 9);
    write(
        &store,
        Changes {
            put_signals: vec![signal(first, 21, 8), carried.clone()],
            ..at(7)
        },
    )
    .await;
    assert_eq!(
        load(&store, wanted).await.signals[&(first, id(21))],
        carried
    );
}

#[tokio::test]
async fn a_reset_drops_ends_of_activities_and_timers_and_keeps_the_rest() {
    let (store, first, second) = two_runs(1).await;
    let fired = |arrival| Fact {
        event: WorkflowEvent::TimerFired {
            timer_id: "t".into(),
        },
        ..signal_fact(arrival)
    };
    let facts = vec![
        (first, full_fact(1)),
        (first, signal_fact(2)),
        (first, fired(3)),
        (second, full_fact(1)),
    ];
    write(
        &store,
        Changes {
            insert_facts: facts,
            ..at(1)
        },
    )
    .await;
    write(
        &store,
        Changes {
            drop_stale_facts: vec![first],
            ..at(2)
        },
    )
    .await;
    let left = waiting(&store, &[first, second]).await;
    let left: Vec<_> = left
        .into_iter()
        .map(|(id, fact)| (id, fact.arrival))
        .collect();
    assert_eq!(left, [(first, 2), (second, 1)]);
}

#[tokio::test]
async fn updates_are_answered_once_and_fail_when_the_run_ends() {
    let (store, first, _) = two_runs(1).await;
    let updates = vec![
        update(first, "open", UpdateState::Pending),
        update(first, "asked", UpdateState::Pending),
        update(first, "done", UpdateState::Completed(odd_payload())),
        update(first, "empty", UpdateState::Completed(Payload::ABSENT)),
        update(first, "failed", UpdateState::Failed(failure())),
    ];
    write(
        &store,
        Changes {
            insert_updates: updates.clone(),
            ..at(1)
        },
    )
    .await;
    let keys: Vec<_> = updates
        .iter()
        .map(|u| (first, u.update_id.clone()))
        .collect();
    let loaded = load(
        &store,
        Load {
            updates: keys,
            ..Load::default()
        },
    )
    .await;
    for update in &updates {
        assert_eq!(&loaded.updates[&(first, update.update_id.clone())], update);
    }
    let answer = |update_id: &str| UpdateAnswerRow {
        run_id: first,
        update_id: update_id.into(),
        state: UpdateState::Completed(codec_payload()),
    };
    let answers = Changes {
        answer_updates: vec![answer("asked"), answer("failed")],
        fail_open_updates: vec![(first, failure())],
        ..at(3)
    };
    write(&store, answers).await;
    let state = async |update_id: &str| {
        let update = store
            .get_update(first, update_id.into())
            .await
            .unwrap()
            .unwrap();
        (update.state, update.completed_at)
    };
    assert_eq!(
        state("asked").await,
        (UpdateState::Completed(codec_payload()), Some(t(3)))
    );
    assert_eq!(
        state("failed").await,
        (UpdateState::Failed(failure()), Some(t(2)))
    );
    assert_eq!(
        state("open").await,
        (UpdateState::Failed(failure()), Some(t(3)))
    );
    assert_eq!(
        state("done").await,
        (UpdateState::Completed(odd_payload()), Some(t(2)))
    );
}

#[tokio::test]
async fn messages_of_every_kind_keep_their_payloads_to_the_byte() {
    let (store, first, _) = two_runs(1).await;
    write(
        &store,
        Changes {
            insert_messages: messages(first),
            ..at(1)
        },
    )
    .await;
    let dump = store.dump().await.unwrap();
    let run = dump.runs.iter().find(|r| r.run.id == first).unwrap();
    assert_eq!(run.messages, messages(first));
    let delivered = vec![(first, 5, 0), (first, 5, 2), (first, 6, 1)];
    write(
        &store,
        Changes {
            delete_messages: delivered,
            ..at(2)
        },
    )
    .await;
    let dump = store.dump().await.unwrap();
    let run = dump.runs.iter().find(|r| r.run.id == first).unwrap();
    assert_eq!(
        run.messages,
        [messages(first)[1].clone(), messages(first)[3].clone()]
    );
}
