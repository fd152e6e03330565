//! What is deleted, what stays, and what may not come back.

use std::time::Duration;

use durable_core::{AttributeValue, CircuitState, ExhaustedPolicy, RetryPolicy, Timestamp};
use everruns_durable::persistence::limits::TOMBSTONE_DAYS;
use everruns_durable::persistence::model::{
    BreakerRecord, ClaimOutbox, ClosePolicy, DeadLetterDecision, DecisionOutcome, KeyKind,
    KeyRecord, LogLevel, NewOutboxEvent, NewStepLog, OutSignal, OutboxReport, OutboxResult,
    OverlapPolicy, PurgeRuns, ScheduleFire, ScheduleRecord, SendOutcome, SendRejection,
    StartOutcome, StartRejection, TaskOutcome, TaskResult, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{at_once, json, one};

claims! { "retention":
    a_purged_run_takes_all_that_belongs_to_it_along,
    only_runs_that_ended_before_are_purged,
    purging_is_bounded,
    the_run_that_ended_first_is_purged_first,
    a_run_with_messages_on_their_way_is_left_for_later,
    a_run_with_outbox_events_on_their_way_is_left_for_later,
    the_id_of_a_purged_run_is_refused_for_its_time,
    the_keys_of_a_purged_run_are_free_again,
    a_business_id_stays_with_its_last_run,
    totals_and_ticks_outlive_the_run,
    ticks_that_nobody_could_take_again_are_forgotten,
    limiters_that_nobody_asks_any_more_are_forgotten,
    nothing_reaches_a_purged_run,
    four_purges_at_once_count_each_run_once,
}

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn purge_before(w: &World, finished_before: Timestamp, max: usize) -> u64 {
    let purge = PurgeRuns {
        finished_before,
        max,
        first_shard: 0,
        now: w.now(),
    };
    w.store.purge_runs(purge).await.expect("purge_runs")
}

/// Purges every run that has ended by now.
async fn purge(w: &World) -> u64 {
    w.advance(Duration::from_micros(1));
    purge_before(w, w.instant(), 1000).await
}

async fn exists(w: &World, run_id: Uuid) -> bool {
    w.store.get_run(run_id).await.expect("get_run").is_some()
}

fn outbox_event(w: &World) -> NewOutboxEvent {
    NewOutboxEvent {
        id: w.id(),
        event_type: "order.paid".into(),
        payload: json("1"),
        idempotency_key: None,
    }
}

async fn report_outbox(w: &World, result: OutboxResult) {
    let claim = ClaimOutbox {
        max: 10,
        lease: SECOND,
        token: w.id(),
        first_shard: 0,
        now: w.now(),
    };
    let token = claim.token;
    let claimed = w.store.claim_outbox(claim).await.expect("claim_outbox");
    assert_eq!(claimed.len(), 1);
    let report = OutboxReport {
        run_id: claimed[0].run_id,
        id: claimed[0].id,
        token,
        result,
    };
    assert!(one(w.store.finish_outbox(vec![report], w.now()).await));
}

/// An ended run with a row in every table that can have one.
async fn rich_run(w: &World) -> Uuid {
    let mut start = w.new_start();
    start.business_id = Some("order-1".into());
    start.idempotency_key = Some("key-1".into());
    let tag = AttributeValue::Text("x".into());
    start.attributes.insert("tag".into(), tag);
    let run_id = w.start_one(start).await;
    w.signal(run_id, "a").await;
    w.update(run_id, w.new_update("u")).await;
    let mut task = w.task("a");
    task.options.retry_policy = RetryPolicy::never();
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![task];
    turn.outbox = vec![outbox_event(w)];
    w.committed(turn).await;
    let claimed = w.claim_one().await;
    let result = TaskResult {
        lease: claimed.lease,
        outcome: TaskOutcome::Failed {
            failure: durable_core::Failure::new("Boom", "it broke"),
        },
        jitter: 0.5,
        step_logs: vec![NewStepLog {
            id: w.id(),
            activity_id: "a".into(),
            attempt: 1,
            level: LogLevel::Info,
            message: "trying".into(),
            meta: json("{}"),
        }],
    };
    one(w.store.finish_tasks(vec![result], w.now()).await);
    report_outbox(w, OutboxResult::Published).await;
    w.complete(run_id).await;
    run_id
}

async fn a_purged_run_takes_all_that_belongs_to_it_along(w: &World) {
    let run_id = rich_run(w).await;
    let before = w.everything().await;
    let run = &before.runs[0];
    assert_eq!(
        [
            run.signals.len(),
            run.updates.len(),
            run.attributes.len(),
            run.outbox.len(),
            run.step_logs.len(),
            before.dead_letters.len(),
            before.keys.len(),
        ],
        [1, 1, 1, 1, 1, 1, 2]
    );
    assert_eq!(purge(w).await, 1);
    let after = w.everything().await;
    assert_eq!(after.runs, []);
    assert_eq!(after.dead_letters, []);
    let tombstone = KeyRecord {
        kind: KeyKind::Tombstone,
        key: run_id.to_string(),
        run_id,
        created_at: w.instant(),
    };
    assert_eq!(after.keys, [tombstone]);
    assert_eq!(after.rollups, before.rollups);
    assert_eq!(w.letters().await, []);
    let update = w.store.get_update(run_id, "u").await;
    assert_eq!(update.expect("get_update"), None);
    let attributes = w.store.get_attributes(run_id).await;
    assert!(attributes.expect("get_attributes").is_empty());
}

async fn only_runs_that_ended_before_are_purged(w: &World) {
    let (early, late, running) = (w.start().await, w.start().await, w.start().await);
    w.complete(early).await;
    w.advance(SECOND);
    w.complete(late).await;
    assert_eq!(purge_before(w, w.instant(), 10).await, 1);
    assert!(!exists(w, early).await);
    assert!(
        exists(w, late).await,
        "it ended at that instant, not before"
    );
    w.advance(DAY * 1000);
    assert_eq!(purge(w).await, 1);
    assert!(exists(w, running).await, "it has not ended");
}

async fn purging_is_bounded(w: &World) {
    for _ in 0..7 {
        let run_id = w.start().await;
        w.complete(run_id).await;
    }
    w.advance(SECOND);
    for expected in [3, 3, 1, 0] {
        assert_eq!(purge_before(w, w.instant(), 3).await, expected);
    }
}

async fn the_run_that_ended_first_is_purged_first(w: &World) {
    let shards = w.store.shards();
    let mut runs = Vec::new();
    while runs.len() < 4 {
        let start = w.new_start();
        if shards.of_run(start.run_id) == 0 {
            runs.push(w.start_one(start).await);
        }
    }
    for run_id in runs.iter().rev() {
        w.complete(*run_id).await;
        w.advance(SECOND);
    }
    assert_eq!(purge_before(w, w.instant(), 2).await, 2);
    let mut left = Vec::new();
    for run_id in &runs {
        left.push(exists(w, *run_id).await);
    }
    assert_eq!(left, [true, true, false, false]);
}

async fn a_run_with_messages_on_their_way_is_left_for_later(w: &World) {
    let parent = w.start().await;
    let child = w.child_of(parent, ClosePolicy::Abandon).await;
    w.complete(child).await;
    let sender = w.start().await;
    let mut turn = World::completing(w.turn(sender).await);
    turn.signals.push(OutSignal {
        run_id: parent,
        signal: w.new_signal("bye"),
    });
    w.committed(turn).await;
    assert_eq!(purge(w).await, 0, "their news are not delivered");
    w.settle().await;
    assert_eq!(w.waiting(parent).await.facts.len(), 2);
    assert_eq!(purge(w).await, 2);
    assert!(!exists(w, child).await && !exists(w, sender).await);
}

async fn a_run_with_outbox_events_on_their_way_is_left_for_later(w: &World) {
    let retry = OutboxResult::Retry {
        after: Duration::ZERO,
        error: "503".into(),
    };
    let failed = OutboxResult::Failed {
        error: "410".into(),
    };
    for end in [OutboxResult::Published, failed] {
        let run_id = w.start().await;
        let mut turn = World::completing(w.turn(run_id).await);
        turn.outbox = vec![outbox_event(w)];
        w.committed(turn).await;
        assert_eq!(purge(w).await, 0, "pending");
        report_outbox(w, retry.clone()).await;
        assert_eq!(purge(w).await, 0, "pending again");
        report_outbox(w, end).await;
        assert_eq!(purge(w).await, 1);
    }
    let run_id = w.start().await;
    let mut turn = World::completing(w.turn(run_id).await);
    turn.outbox = vec![outbox_event(w)];
    w.committed(turn).await;
    let claim = ClaimOutbox {
        max: 1,
        lease: SECOND,
        token: w.id(),
        first_shard: 0,
        now: w.now(),
    };
    w.store.claim_outbox(claim).await.expect("claim_outbox");
    assert_eq!(purge(w).await, 0, "in flight");
}

async fn the_id_of_a_purged_run_is_refused_for_its_time(w: &World) {
    let start = w.new_start();
    let run_id = w.start_one(start.clone()).await;
    w.complete(run_id).await;
    assert_eq!(purge(w).await, 1);
    let deleted = StartOutcome::Rejected(StartRejection::Deleted { run_id });
    assert_eq!(w.try_start(start.clone()).await, deleted);
    let days = u32::try_from(TOMBSTONE_DAYS).expect("a small number");
    w.advance(DAY * days - SECOND);
    purge(w).await;
    assert_eq!(w.try_start(start.clone()).await, deleted, "not yet");
    w.advance(SECOND * 2);
    purge(w).await;
    assert_eq!(w.everything().await.keys, []);
    assert_eq!(w.try_start(start).await, StartOutcome::Started { run_id });
}

async fn the_keys_of_a_purged_run_are_free_again(w: &World) {
    rich_run(w).await;
    purge(w).await;
    let mut start = w.new_start();
    start.business_id = Some("order-1".into());
    start.idempotency_key = Some("key-1".into());
    start.input = json("\"another\"");
    w.start_one(start).await;
}

async fn a_business_id_stays_with_its_last_run(w: &World) {
    let start = || {
        let mut start = w.new_start();
        start.business_id = Some("order-1".into());
        start
    };
    let first = w.start_one(start()).await;
    w.complete(first).await;
    let last = w.start_one(start()).await;
    assert_eq!(purge(w).await, 1);
    let keys = w.everything().await.keys;
    let business: Vec<_> = keys
        .iter()
        .filter(|key| key.kind == KeyKind::Business)
        .collect();
    assert_eq!((business.len(), business[0].run_id), (1, last));
}

fn hourly(w: &World, id: &str) -> ScheduleRecord {
    ScheduleRecord {
        id: id.into(),
        workflow_type: "workflow".into(),
        version: String::new(),
        input: json("1"),
        cron: "0 * * * *".into(),
        time_zone: "UTC".into(),
        overlap: OverlapPolicy::Allow,
        catchup_window_ms: 0,
        paused: false,
        next_fire_at: w.now(),
        last_fire_at: None,
        last_run: None,
        created_at: w.instant(),
        updated_at: w.instant(),
    }
}

async fn ticks_that_nobody_could_take_again_are_forgotten(w: &World) {
    const WINDOW_DAYS: u32 = 60;
    let mut patient = hourly(w, "patient@1-");
    patient.catchup_window_ms = i64::from(WINDOW_DAYS) * 24 * 60 * 60 * 1000;
    let schedules = [hourly(w, "hasty"), patient, hourly(w, "deleted@")];
    for schedule in &schedules {
        w.store.put_schedule(schedule.clone()).await.expect("put");
        // Two ticks each; the second is the last one.
        for hours in 0..2 {
            let nominal = after(w.instant(), SECOND * 3600 * hours);
            let fire = ScheduleFire {
                schedule_id: schedule.id.clone(),
                nominal,
                next_fire_at: Some(after(nominal, SECOND * 3600)),
                start: None,
            };
            one(w.store.fire_schedules(vec![fire], w.now()).await);
        }
    }
    let deleted = w.store.delete_schedule("deleted@").await;
    assert!(deleted.expect("delete"));
    let ticks = async || -> Vec<String> {
        let keys = w.everything().await.keys;
        assert!(keys.iter().all(|key| key.kind == KeyKind::CronSlot));
        let ids = keys.into_iter().map(|key| {
            let (id, _) = key.key.rsplit_once('@').expect("a tick's key");
            id.to_owned()
        });
        ids.collect()
    };
    w.advance(DAY * 30 - SECOND);
    purge(w).await;
    assert_eq!(ticks().await.len(), 6, "all are young enough");
    w.advance(SECOND);
    assert_eq!(purge_before(w, w.instant(), 0).await, 0);
    assert_eq!(
        ticks().await.len(),
        6,
        "not while runs may be left to purge"
    );
    purge(w).await;
    assert_eq!(ticks().await, ["hasty", "patient@1-", "patient@1-"]);
    w.advance(DAY * WINDOW_DAYS);
    purge(w).await;
    assert_eq!(ticks().await, ["hasty", "patient@1-"], "their last ones");
}

async fn totals_and_ticks_outlive_the_run(w: &World) {
    let schedule = hourly(w, "hourly");
    w.store.put_schedule(schedule.clone()).await.expect("put");
    let fire = ScheduleFire {
        schedule_id: schedule.id,
        nominal: w.instant(),
        next_fire_at: None,
        start: Some(w.new_start()),
    };
    let run_id = fire.start.as_ref().expect("a start").run_id;
    one(w.store.fire_schedules(vec![fire], w.now()).await);
    w.complete(run_id).await;
    let before = w.everything().await;
    assert_eq!(before.rollups.len(), 1);
    assert_eq!(purge(w).await, 1);
    let after = w.everything().await;
    assert_eq!(after.rollups, before.rollups);
    let kinds: Vec<KeyKind> = after.keys.iter().map(|key| key.kind).collect();
    assert_eq!(kinds, [KeyKind::CronSlot, KeyKind::Tombstone]);
    assert_eq!(after.schedules, before.schedules);
}

async fn limiters_that_nobody_asks_any_more_are_forgotten(w: &World) {
    let save = async |key: &str, version| {
        let record = BreakerRecord {
            key: key.to_owned(),
            state: CircuitState::Closed,
            failure_count: 0,
            success_count: 0,
            opened_at: None,
            data: json("1"),
            version,
            updated_at: w.instant(),
        };
        let saved = w.store.save_breaker(record, w.now()).await;
        assert!(saved.expect("save_breaker"));
    };
    for key in ["limit:idle", "limit:used", "LIMIT:x", "activity:limit:"] {
        save(key, 0).await;
    }
    w.advance(DAY);
    save("limit:used", 1).await;
    let keys = async || {
        let all = w.store.list_breakers().await.expect("list_breakers");
        all.into_iter()
            .map(|breaker| breaker.key)
            .collect::<Vec<_>>()
    };
    w.advance(DAY * (u32::try_from(TOMBSTONE_DAYS).expect("few") - 1));
    purge(w).await;
    let kept = keys().await;
    assert_eq!(kept, ["LIMIT:x", "activity:limit:", "limit:used"]);
}

async fn nothing_reaches_a_purged_run(w: &World) {
    let mut task = w.task("a");
    task.options.retry_policy = RetryPolicy::never();
    task.options.on_exhausted = ExhaustedPolicy::Park;
    let letter = task.task_id;
    let run_id = w.start_with_tasks(vec![task]).await;
    let claimed = w.claim_one().await;
    w.fail(&claimed.lease).await;
    let turn = w.turn(run_id).await;
    w.terminate(run_id, "stop").await;
    assert_eq!(purge(w).await, 1);
    let before = w.everything().await;
    let not_found = SendOutcome::Rejected(SendRejection::NotFound);
    assert_eq!(w.signal(run_id, "a").await, not_found);
    assert_eq!(w.update(run_id, w.new_update("u")).await, not_found);
    w.rejected(turn).await;
    w.fail(&claimed.lease).await;
    let decided = w
        .store
        .decide_dead_letter(run_id, letter, DeadLetterDecision::Requeue, w.now())
        .await;
    assert_eq!(decided.expect("decided"), DecisionOutcome::NotFound);
    assert_eq!(w.everything().await, before);
}

async fn four_purges_at_once_count_each_run_once(w: &World) {
    for _ in 0..40 {
        let run_id = w.start().await;
        w.complete(run_id).await;
    }
    w.advance(SECOND);
    let (now, finished_before) = (w.now(), w.instant());
    let purges = (0..4)
        .map(|first_shard| {
            let store = w.store.clone();
            async move {
                let mut purged = 0;
                for _ in 0..4 {
                    let purge = PurgeRuns {
                        finished_before,
                        max: 5,
                        first_shard,
                        now,
                    };
                    purged += store.purge_runs(purge).await.expect("purge_runs");
                }
                purged
            }
        })
        .collect();
    let by_callers: u64 = at_once(purges).await.into_iter().sum();
    let rest = purge(w).await;
    assert_eq!(by_callers + rest, 40);
    assert_eq!(w.everything().await.runs, []);
}
