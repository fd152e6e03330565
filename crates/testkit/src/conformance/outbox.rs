//! The outbox, circuit breakers and results recorded once.

use std::collections::BTreeSet;
use std::time::Duration;

use durable_core::{CircuitState, Timestamp};
use everruns_durable::persistence::limits::CHORE_BYTES_MAX;
use everruns_durable::persistence::model::{
    BreakerRecord, ClaimOutbox, NewOutboxEvent, OutboxRecord, OutboxReport, OutboxResult,
    OutboxState, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{at_once, json, one};

claims! { "outbox":
    an_event_is_in_the_outbox_if_and_only_if_its_turn_commits,
    a_claimed_event_is_in_flight_until_its_lease_ends,
    an_event_whose_publisher_vanished_is_handed_out_again,
    a_published_event_is_never_handed_out_again,
    a_stale_token_changes_nothing,
    a_report_without_a_claim_changes_nothing,
    an_event_to_be_retried_waits_its_time,
    an_event_given_up_is_never_handed_out_again,
    events_are_claimed_in_order_and_at_most_as_many_as_asked,
    a_claim_of_events_takes_no_more_bytes_than_fit_and_the_rest_comes_next,
    eight_publishers_at_once_share_no_event,
    an_outbox_id_used_twice_is_one_event,
    the_events_of_an_ended_run_are_still_published,
    a_breaker_is_saved_only_over_the_version_that_was_read,
    of_sixteen_savers_at_once_one_wins_each_version,
    breakers_are_listed_by_key_and_forgotten_by_a_reset,
    a_breaker_forgotten_begins_at_version_zero_again,
    the_first_result_under_a_key_stays,
    of_sixteen_results_at_once_under_one_key_the_first_is_everyones,
}

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);

fn event(w: &World) -> NewOutboxEvent {
    NewOutboxEvent {
        id: w.id(),
        event_type: "order.paid".into(),
        payload: json("{\"amount\":9007199254740993}"),
        idempotency_key: Some("order-1".into()),
    }
}

async fn publish(w: &World, run_id: Uuid, events: Vec<NewOutboxEvent>) {
    let mut turn = w.turn(run_id).await;
    turn.outbox = events;
    w.committed(turn).await;
}

/// A run with this many events in its outbox.
async fn published(w: &World, count: usize) -> (Uuid, Vec<Uuid>) {
    let run_id = w.start().await;
    let events: Vec<NewOutboxEvent> = (0..count).map(|_| event(w)).collect();
    let ids = events.iter().map(|event| event.id).collect();
    publish(w, run_id, events).await;
    (run_id, ids)
}

async fn claim(w: &World, max: usize) -> Vec<OutboxRecord> {
    let claim = ClaimOutbox {
        max,
        lease: LEASE,
        token: w.id(),
        first_shard: 0,
        now: w.now(),
    };
    w.store.claim_outbox(claim).await.expect("claim_outbox")
}

async fn claim_one(w: &World) -> OutboxRecord {
    let mut claimed = claim(w, 10).await;
    assert_eq!(claimed.len(), 1, "one event to claim");
    claimed.remove(0)
}

async fn report(w: &World, event: &OutboxRecord, result: OutboxResult) -> bool {
    let report = OutboxReport {
        run_id: event.run_id,
        id: event.id,
        token: event.token.expect("claimed"),
        result,
    };
    one(w.store.finish_outbox(vec![report], w.now()).await)
}

async fn stored(w: &World, run_id: Uuid) -> OutboxRecord {
    w.dump(run_id).await.outbox.remove(0)
}

async fn an_event_is_in_the_outbox_if_and_only_if_its_turn_commits(w: &World) {
    let run_id = w.start().await;
    let event = event(w);
    let mut refused = w.turn(run_id).await;
    refused.expected_sequence = 7;
    refused.outbox = vec![event.clone()];
    w.rejected(refused).await;
    assert_eq!(claim(w, 10).await, []);
    publish(w, run_id, vec![event.clone()]).await;
    let expected = OutboxRecord {
        id: event.id,
        run_id,
        event_type: event.event_type,
        payload: event.payload,
        idempotency_key: event.idempotency_key,
        state: OutboxState::Pending,
        attempts: 0,
        available_at: w.instant(),
        token: None,
        last_error: None,
        created_at: w.instant(),
        published_at: None,
    };
    assert_eq!(w.dump(run_id).await.outbox, [expected]);
}

async fn a_claimed_event_is_in_flight_until_its_lease_ends(w: &World) {
    let (run_id, _) = published(w, 1).await;
    let before = stored(w, run_id).await;
    w.advance(SECOND);
    let claimed = claim_one(w).await;
    let expected = OutboxRecord {
        state: OutboxState::InFlight,
        attempts: 1,
        available_at: after(w.instant(), LEASE),
        token: claimed.token,
        ..before
    };
    assert!(claimed.token.is_some());
    assert_eq!(claimed, expected);
    assert_eq!(stored(w, run_id).await, expected);
    w.advance(LEASE - Duration::from_micros(1));
    assert_eq!(claim(w, 10).await, []);
}

async fn an_event_whose_publisher_vanished_is_handed_out_again(w: &World) {
    published(w, 1).await;
    let first = claim_one(w).await;
    w.advance(LEASE);
    let second = claim_one(w).await;
    assert_eq!((second.id, second.attempts), (first.id, 2));
    assert_ne!(second.token, first.token);
}

async fn a_published_event_is_never_handed_out_again(w: &World) {
    let (run_id, _) = published(w, 1).await;
    let claimed = claim_one(w).await;
    w.advance(SECOND);
    assert!(report(w, &claimed, OutboxResult::Published).await);
    let done = stored(w, run_id).await;
    assert_eq!(done.state, OutboxState::Published);
    assert_eq!((done.published_at, done.token), (w.now(), None));
    w.advance(LEASE * 100);
    assert_eq!(claim(w, 10).await, []);
    let again = report(w, &claimed, OutboxResult::Published).await;
    assert!(!again, "the claim is spent");
}

fn retry() -> OutboxResult {
    OutboxResult::Retry {
        after: SECOND * 5,
        error: "503".into(),
    }
}

fn give_up() -> OutboxResult {
    OutboxResult::Failed {
        error: "410".into(),
    }
}

async fn a_stale_token_changes_nothing(w: &World) {
    let (run_id, _) = published(w, 1).await;
    let stale = claim_one(w).await;
    w.advance(LEASE);
    let fresh = claim_one(w).await;
    for result in [OutboxResult::Published, retry(), give_up()] {
        assert!(!report(w, &stale, result).await);
        assert_eq!(stored(w, run_id).await, fresh);
    }
    assert!(report(w, &fresh, OutboxResult::Published).await);
}

async fn a_report_without_a_claim_changes_nothing(w: &World) {
    let (run_id, _) = published(w, 1).await;
    let mut unclaimed = stored(w, run_id).await;
    unclaimed.token = Some(w.id());
    assert!(!report(w, &unclaimed, OutboxResult::Published).await);
    unclaimed.id = w.id();
    assert!(!report(w, &unclaimed, OutboxResult::Published).await);
    assert_eq!(stored(w, run_id).await.state, OutboxState::Pending);
}

async fn an_event_to_be_retried_waits_its_time(w: &World) {
    let (run_id, _) = published(w, 1).await;
    let claimed = claim_one(w).await;
    assert!(report(w, &claimed, retry()).await);
    let expected = OutboxRecord {
        state: OutboxState::Pending,
        available_at: after(w.instant(), SECOND * 5),
        token: None,
        last_error: Some("503".into()),
        ..claimed
    };
    assert_eq!(stored(w, run_id).await, expected);
    w.advance(SECOND * 5 - Duration::from_micros(1));
    assert_eq!(claim(w, 10).await, []);
    w.advance(Duration::from_micros(1));
    assert_eq!(claim_one(w).await.attempts, 2);
}

async fn an_event_given_up_is_never_handed_out_again(w: &World) {
    let (run_id, _) = published(w, 1).await;
    let claimed = claim_one(w).await;
    assert!(report(w, &claimed, give_up()).await);
    let failed = stored(w, run_id).await;
    assert_eq!(failed.state, OutboxState::Failed);
    assert_eq!(
        (failed.last_error, failed.token),
        (Some("410".into()), None)
    );
    assert_eq!(failed.published_at, None);
    w.advance(LEASE * 100);
    assert_eq!(claim(w, 10).await, []);
}

async fn events_are_claimed_in_order_and_at_most_as_many_as_asked(w: &World) {
    let (run_id, mut ids) = published(w, 3).await;
    w.advance(SECOND);
    let later: Vec<NewOutboxEvent> = (0..2).map(|_| event(w)).collect();
    ids.extend(later.iter().map(|event| event.id));
    publish(w, run_id, later).await;
    let mut claimed = Vec::new();
    for expected in [2, 2, 1, 0] {
        let batch = claim(w, 2).await;
        assert_eq!(batch.len(), expected);
        claimed.extend(batch.into_iter().map(|event| event.id));
    }
    assert_eq!(claimed, ids, "by the time they became available, then id");
    for _ in 0..8 {
        published(w, 1).await;
    }
    assert_eq!(
        claim(w, 5).await.len(),
        5,
        "at most so many over all shards"
    );
}

async fn a_claim_of_events_takes_no_more_bytes_than_fit_and_the_rest_comes_next(w: &World) {
    // Nine of these fit into one claim, and ten do not.
    let payload = json(&format!("\"{}\"", "x".repeat(3_500_000)));
    let mut ids = Vec::new();
    for _ in 0..10 {
        let run_id = w.start().await;
        let mut large = event(w);
        large.payload = payload.clone();
        ids.push(large.id);
        publish(w, run_id, vec![large]).await;
    }
    let (mut claimed, mut calls) = (Vec::new(), 0);
    while claimed.len() < ids.len() {
        let events = claim(w, 100).await;
        assert!(!events.is_empty(), "{} of {}", claimed.len(), ids.len());
        let bytes: usize = events.iter().map(|event| event.payload.len()).sum();
        // Of several shards each gives what fits, until half of it is there.
        assert!(bytes as u64 <= CHORE_BYTES_MAX * 3 / 2, "{bytes} at once");
        claimed.extend(events.iter().map(|event| event.id));
        calls += 1;
    }
    assert!(calls > 1, "all at once");
    claimed.sort_unstable();
    ids.sort_unstable();
    assert_eq!(claimed, ids, "each once");
}

async fn eight_publishers_at_once_share_no_event(w: &World) {
    let mut all = BTreeSet::new();
    for _ in 0..20 {
        all.extend(published(w, 3).await.1);
    }
    let now = w.now();
    let publishers = (0..8)
        .map(|first_shard| {
            let (store, tokens) = (w.store.clone(), [w.id(), w.id(), w.id()]);
            async move {
                let mut claimed = Vec::new();
                for token in tokens {
                    let claim = ClaimOutbox {
                        max: 4,
                        lease: LEASE,
                        token,
                        first_shard,
                        now,
                    };
                    let batch = store.claim_outbox(claim).await.expect("claim");
                    claimed.extend(batch.into_iter().map(|event| event.id));
                }
                claimed
            }
        })
        .collect();
    let mut claimed: Vec<Uuid> = at_once(publishers).await.concat();
    claimed.extend(claim(w, 100).await.into_iter().map(|event| event.id));
    assert_eq!(claimed.len(), 60, "each once");
    assert_eq!(claimed.into_iter().collect::<BTreeSet<Uuid>>(), all);
}

async fn an_outbox_id_used_twice_is_one_event(w: &World) {
    let run_id = w.start().await;
    let first = event(w);
    publish(w, run_id, vec![first.clone()]).await;
    let mut second = first;
    second.event_type = "order.refunded".into();
    publish(w, run_id, vec![second]).await;
    let outbox = w.dump(run_id).await.outbox;
    assert_eq!(outbox.len(), 1);
    assert_eq!(outbox[0].event_type, "order.paid");
}

async fn the_events_of_an_ended_run_are_still_published(w: &World) {
    let run_id = w.start().await;
    let mut turn = World::completing(w.turn(run_id).await);
    turn.outbox = vec![event(w)];
    w.committed(turn).await;
    let claimed = claim_one(w).await;
    assert!(report(w, &claimed, OutboxResult::Published).await);
    let pending = w.store.counts().await.expect("counts").outbox_pending;
    assert_eq!(pending, 0);
}

fn breaker(key: &str) -> BreakerRecord {
    BreakerRecord {
        key: key.into(),
        state: CircuitState::Closed,
        failure_count: 1,
        success_count: 2,
        opened_at: None,
        data: json("{\"window\":[1,2]}"),
        version: 0,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}

async fn save(w: &World, breaker: &BreakerRecord) -> bool {
    let saved = w.store.save_breaker(breaker.clone(), w.now()).await;
    saved.expect("save_breaker")
}

async fn get(w: &World, key: &str) -> Option<BreakerRecord> {
    w.store.get_breaker(key).await.expect("get_breaker")
}

async fn a_breaker_is_saved_only_over_the_version_that_was_read(w: &World) {
    let mut unseen = breaker("k");
    unseen.version = 1;
    assert!(!save(w, &unseen).await, "there is no version 1 yet");
    assert_eq!(get(w, "k").await, None);
    assert!(save(w, &breaker("k")).await);
    let first = BreakerRecord {
        version: 1,
        updated_at: w.instant(),
        ..breaker("k")
    };
    assert_eq!(get(w, "k").await, Some(first.clone()));
    assert!(!save(w, &breaker("k")).await, "it exists by now");
    w.advance(SECOND);
    let opened = BreakerRecord {
        state: CircuitState::Open,
        failure_count: 5,
        success_count: 0,
        opened_at: w.now(),
        data: json("{\"window\":[1e400]}"),
        ..first
    };
    assert!(save(w, &opened).await);
    assert!(!save(w, &opened).await, "repeated");
    let second = BreakerRecord {
        version: 2,
        updated_at: w.instant(),
        ..opened
    };
    assert_eq!(get(w, "k").await, Some(second));
}

async fn of_sixteen_savers_at_once_one_wins_each_version(w: &World) {
    let now = w.now();
    for version in 0..10 {
        let savers = (0..16)
            .map(|saver| {
                let store = w.store.clone();
                let mut mine = breaker("k");
                mine.version = version;
                mine.failure_count = saver;
                async move { store.save_breaker(mine, now).await.expect("save") }
            })
            .collect();
        let won = at_once(savers).await;
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        let stored = get(w, "k").await.expect("it exists");
        assert_eq!(stored.version, version + 1);
        assert!(won[stored.failure_count as usize], "the winner's is stored");
    }
}

async fn breakers_are_listed_by_key_and_forgotten_by_a_reset(w: &World) {
    for key in ["b", "a", "B"] {
        assert!(save(w, &breaker(key)).await);
    }
    let keys = async || -> Vec<String> {
        let breakers = w.store.list_breakers().await.expect("list_breakers");
        breakers.into_iter().map(|breaker| breaker.key).collect()
    };
    assert_eq!(keys().await, ["B", "a", "b"]);
    let reset = || w.store.reset_breaker("a");
    assert!(reset().await.expect("reset_breaker"));
    assert!(!reset().await.expect("reset_breaker"));
    assert_eq!(keys().await, ["B", "b"]);
}

async fn a_breaker_forgotten_begins_at_version_zero_again(w: &World) {
    save(w, &breaker("k")).await;
    w.store.reset_breaker("k").await.expect("reset_breaker");
    let mut stale = breaker("k");
    stale.version = 1;
    assert!(!save(w, &stale).await);
    assert!(save(w, &breaker("k")).await);
    assert_eq!(get(w, "k").await.map(|breaker| breaker.version), Some(1));
}

async fn the_first_result_under_a_key_stays(w: &World) {
    let get = || w.store.get_once("charge-1");
    assert_eq!(get().await.expect("get_once"), None);
    for text in ["{\"id\": 9007199254740993}", "2", "3"] {
        let put = w.store.put_once("charge-1", json(text), w.now()).await;
        let first = json("{\"id\": 9007199254740993}");
        assert_eq!(put.expect("put_once"), first);
        assert_eq!(get().await.expect("get_once"), Some(first));
    }
    let other = w.store.put_once("charge-2", json("2"), w.now()).await;
    assert_eq!(other.expect("put_once"), json("2"));
    let dump = w.everything().await.dedup;
    assert_eq!(dump.len(), 2);
    assert_eq!(dump[0].created_at, w.instant());
}

async fn of_sixteen_results_at_once_under_one_key_the_first_is_everyones(w: &World) {
    let now = w.now();
    for round in 0..10 {
        let key = format!("key-{round}");
        let putters = (0..16)
            .map(|i| {
                let (store, key) = (w.store.clone(), key.clone());
                let mine = json(&i.to_string());
                async move { store.put_once(&key, mine, now).await.expect("put_once") }
            })
            .collect();
        let answers = at_once(putters).await;
        let stored = w.store.get_once(&key).await.expect("get_once");
        let stored = stored.expect("it was recorded");
        assert!(answers.iter().all(|answer| *answer == stored));
    }
}
