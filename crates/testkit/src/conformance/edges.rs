//! The edge: what is refused before a store looks at it, the same everywhere, with nothing written.

use std::time::Duration;

use durable_core::{
    AttributeValue, CircuitBreakerConfig, CircuitState, Failure, Payload, RateLimitConfig,
    Timestamp, WorkflowEvent,
};
use everruns_durable::persistence::limits::{
    ATTRIBUTE_TEXT_BYTES_MAX, ATTRIBUTES_MAX, BATCH_ITEMS_MAX, DURATION_MS_MAX, ID_BYTES_MAX,
    LEASE_MS_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, TEXT_BYTES_MAX,
};
use everruns_durable::persistence::model::{
    BreakerRecord, ClaimTasks, ClosePolicy, DeadLetterDecision, LeaseExtension, LogLevel,
    NewOutboxEvent, NewStepLog, NewTimer, OverlapPolicy, ScheduleRecord, SendSignal, SendUpdate,
    StartRun, TaskLease, TaskOutcome, TaskResult, TerminateRun, TurnCommit,
};
use everruns_durable::persistence::{StoreError, StoreResult};

use crate::World;
use crate::world::{LEASE, WORKER, WORKFLOW, json};

claims! { "edges":
    a_start_with_a_payload_one_byte_over_the_limit_is_refused,
    a_send_with_a_payload_one_byte_over_the_limit_is_refused,
    a_turn_with_a_payload_one_byte_over_the_limit_is_refused,
    a_result_or_heartbeat_one_byte_over_the_limit_is_refused,
    records_with_a_payload_one_byte_over_the_limit_are_refused,
    bad_ids_and_names_of_a_start_are_refused,
    bad_ids_and_names_of_sends_are_refused,
    bad_ids_and_names_of_a_turn_are_refused,
    bad_ids_of_everything_else_are_refused,
    names_and_ids_of_exactly_the_limit_are_taken,
    texts_for_people_are_bounded,
    bad_attributes_are_refused,
    bad_durations_and_leases_are_refused,
    too_many_items_in_one_call_are_refused,
    one_bad_item_refuses_the_whole_call,
    empty_sets_answer_empty_and_touch_nothing,
}

fn too_large() -> Payload {
    Payload::from_stored(vec![b'1'; PAYLOAD_BYTES_MAX + 1])
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Refusal {
    Limit,
    Invalid,
}

fn refusal<T: std::fmt::Debug>(answer: StoreResult<T>) -> Refusal {
    match answer {
        Err(StoreError::Limit { found, limit, .. }) if found > limit => Refusal::Limit,
        Err(StoreError::Invalid(_)) => Refusal::Invalid,
        other => panic!("expected a refusal at the edge, got {other:?}"),
    }
}

async fn start(w: &World, change: impl FnOnce(&mut StartRun)) -> Refusal {
    let mut start = w.new_start();
    change(&mut start);
    refusal(w.store.start_runs(vec![start], w.now()).await)
}

/// A new turn of an existing run; both are made before, so that nothing is written here.
async fn turn(w: &World, turn: &TurnCommit, change: impl FnOnce(&mut TurnCommit)) -> Refusal {
    let mut turn = turn.clone();
    change(&mut turn);
    refusal(w.store.commit_turns(vec![turn], w.now()).await)
}

async fn a_start_with_a_payload_one_byte_over_the_limit_is_refused(w: &World) {
    let before = w.everything().await;
    assert_eq!(start(w, |s| s.input = too_large()).await, Refusal::Limit);
    assert_eq!(start(w, |s| s.memo = too_large()).await, Refusal::Limit);
    let signal = w.new_signal("s");
    let with_signal = start(w, |s| {
        s.signals.push(signal);
        s.signals[0].payload = too_large();
    });
    assert_eq!(with_signal.await, Refusal::Limit);
    let update = w.new_update("u");
    let with_update = start(w, |s| {
        s.updates.push(update);
        s.updates[0].input = too_large();
    });
    assert_eq!(with_update.await, Refusal::Limit);
    assert_eq!(w.everything().await, before);
}

async fn a_send_with_a_payload_one_byte_over_the_limit_is_refused(w: &World) {
    let run_id = w.start().await;
    let before = w.everything().await;
    let mut signal = w.new_signal("s");
    signal.payload = too_large();
    let sent = w
        .store
        .send_signals(vec![SendSignal { run_id, signal }], w.now());
    assert_eq!(refusal(sent.await), Refusal::Limit);
    let mut update = w.new_update("u");
    update.input = too_large();
    let sent = w
        .store
        .send_updates(vec![SendUpdate { run_id, update }], w.now());
    assert_eq!(refusal(sent.await), Refusal::Limit);
    assert_eq!(w.everything().await, before);
}

async fn a_turn_with_a_payload_one_byte_over_the_limit_is_refused(w: &World) {
    let run_id = w.start().await;
    let plain = w.turn(run_id).await;
    let before = w.everything().await;
    let event = WorkflowEvent::SideEffectRecorded {
        effect_id: "e".into(),
        value: too_large(),
    };
    let mut task = w.task("a");
    task.input = too_large();
    let mut child = w.new_child("c", ClosePolicy::Cancel);
    child.start.input = too_large();
    let outbox = NewOutboxEvent {
        id: w.id(),
        event_type: "e".into(),
        payload: too_large(),
        idempotency_key: None,
    };
    let log = NewStepLog {
        meta: too_large(),
        ..log(w)
    };
    let answers = [
        turn(w, &plain, |t| t.events.push(event)).await,
        turn(w, &plain, |t| t.tasks.push(task)).await,
        turn(w, &plain, |t| t.children.push(child)).await,
        turn(w, &plain, |t| t.outbox.push(outbox)).await,
        turn(w, &plain, |t| t.step_logs.push(log)).await,
    ];
    assert_eq!(answers, [Refusal::Limit; 5]);
    assert_eq!(w.everything().await, before);
}

fn log(w: &World) -> NewStepLog {
    NewStepLog {
        id: w.id(),
        activity_id: "a".into(),
        attempt: 1,
        level: LogLevel::Info,
        message: "m".into(),
        meta: json("{}"),
    }
}

async fn finish(
    w: &World,
    lease: &TaskLease,
    outcome: TaskOutcome,
    step_logs: Vec<NewStepLog>,
) -> Refusal {
    let result = TaskResult {
        lease: lease.clone(),
        outcome,
        jitter: 0.5,
        step_logs,
    };
    refusal(w.store.finish_tasks(vec![result], w.now()).await)
}

fn done() -> TaskOutcome {
    TaskOutcome::Completed { result: json("1") }
}

fn failed(failure: Failure) -> TaskOutcome {
    TaskOutcome::Failed { failure }
}

async fn a_result_or_heartbeat_one_byte_over_the_limit_is_refused(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    let before = w.everything().await;
    let result = too_large();
    let details = Failure::new("Boom", "").with_details(too_large());
    let cause = Failure::new("Boom", "").with_cause(details.clone());
    let message = Failure::new("Boom", "x".repeat(PAYLOAD_BYTES_MAX + 1));
    let mut line = log(w);
    line.meta = too_large();
    let answers = [
        finish(w, &lease, TaskOutcome::Completed { result }, vec![]).await,
        finish(w, &lease, failed(details), vec![]).await,
        finish(w, &lease, failed(cause), vec![]).await,
        finish(w, &lease, failed(message), vec![]).await,
        finish(w, &lease, done(), vec![line]).await,
    ];
    assert_eq!(answers, [Refusal::Limit; 5]);
    let beat = LeaseExtension {
        lease: lease.clone(),
        extend: LEASE,
        heartbeat: Some(too_large()),
    };
    let beaten = w.store.extend_leases(vec![beat], w.now()).await;
    assert_eq!(refusal(beaten), Refusal::Limit);
    assert_eq!(w.everything().await, before);
    w.succeed(&lease).await;
}

fn breaker(key: &str) -> BreakerRecord {
    BreakerRecord {
        key: key.into(),
        state: CircuitState::Closed,
        failure_count: 0,
        success_count: 0,
        opened_at: None,
        data: json("{}"),
        version: 0,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}

fn schedule(w: &World, id: &str) -> ScheduleRecord {
    ScheduleRecord {
        id: id.into(),
        workflow_type: WORKFLOW.into(),
        version: String::new(),
        input: json("{}"),
        cron: "0 * * * *".into(),
        time_zone: "UTC".into(),
        overlap: OverlapPolicy::Allow,
        catchup_window_ms: 0,
        paused: false,
        next_fire_at: None,
        last_fire_at: None,
        last_run: None,
        created_at: w.instant(),
        updated_at: w.instant(),
    }
}

async fn records_with_a_payload_one_byte_over_the_limit_are_refused(w: &World) {
    let before = w.everything().await;
    let mut large_breaker = breaker("k");
    large_breaker.data = too_large();
    let saved = w.store.save_breaker(large_breaker, w.now()).await;
    assert_eq!(refusal(saved), Refusal::Limit);
    let mut large_schedule = schedule(w, "s");
    large_schedule.input = too_large();
    let put = w.store.put_schedule(large_schedule).await;
    assert_eq!(refusal(put), Refusal::Limit);
    let put = w.store.put_once("k", too_large(), w.now()).await;
    assert_eq!(refusal(put), Refusal::Limit);
    let decision = DeadLetterDecision::Complete {
        result: too_large(),
    };
    let decided = w
        .store
        .decide_dead_letter(w.id(), w.id(), decision, w.now())
        .await;
    assert_eq!(refusal(decided), Refusal::Limit);
    assert_eq!(w.everything().await, before);
}

/// Ids that no store takes, and why: empty, with a NUL, too long by one byte.
fn bad_ids() -> [(String, Refusal); 4] {
    [
        (String::new(), Refusal::Invalid),
        ("a\0b".into(), Refusal::Invalid),
        ("\0".into(), Refusal::Invalid),
        ("x".repeat(ID_BYTES_MAX + 1), Refusal::Limit),
    ]
}

/// The same for names, whose limit is lower; it counts bytes.
fn bad_names() -> [(String, Refusal); 4] {
    let mut bad = bad_ids();
    bad[3].0 = "é".repeat(NAME_BYTES_MAX / 2) + "x";
    bad
}

async fn bad_ids_and_names_of_a_start_are_refused(w: &World) {
    let before = w.everything().await;
    for (id, why) in bad_ids() {
        let business_id = start(w, |s| s.business_id = Some(id.clone()));
        assert_eq!(business_id.await, why, "{id:?}");
        let key = start(w, |s| s.idempotency_key = Some(id.clone()));
        assert_eq!(key.await, why, "{id:?}");
        if !id.is_empty() {
            let version = start(w, |s| s.version = id.clone()).await;
            assert_eq!(version, why, "{id:?}");
        }
    }
    for (name, why) in bad_names() {
        let workflow_type = start(w, |s| s.workflow_type = name.clone());
        assert_eq!(workflow_type.await, why, "{name:?}");
    }
    assert_eq!(w.everything().await, before);
}

async fn bad_ids_and_names_of_sends_are_refused(w: &World) {
    let run_id = w.start().await;
    let before = w.everything().await;
    for (name, why) in bad_names() {
        let signal = w.new_signal(&name);
        let signal = SendSignal { run_id, signal };
        let sent = w.store.send_signals(vec![signal], w.now()).await;
        assert_eq!(refusal(sent), why, "{name:?}");
        let mut update = w.new_update("u");
        update.name = name.clone();
        let update = SendUpdate { run_id, update };
        let sent = w.store.send_updates(vec![update], w.now()).await;
        assert_eq!(refusal(sent), why, "{name:?}");
    }
    for (id, why) in bad_ids() {
        let update = w.new_update(&id);
        let update = SendUpdate { run_id, update };
        let sent = w.store.send_updates(vec![update], w.now()).await;
        assert_eq!(refusal(sent), why, "{id:?}");
    }
    assert_eq!(w.everything().await, before);
}

async fn bad_ids_and_names_of_a_turn_are_refused(w: &World) {
    let run_id = w.start().await;
    let plain = w.turn(run_id).await;
    let before = w.everything().await;
    for (id, why) in bad_ids() {
        let task = w.task(&id);
        let timer = NewTimer {
            timer_id: id.clone(),
            after: LEASE,
        };
        let child = w.new_child(&id, ClosePolicy::Cancel);
        let mut line = log(w);
        line.activity_id = id.clone();
        let answers = [
            turn(w, &plain, |t| t.tasks.push(task)).await,
            turn(w, &plain, |t| t.timers.push(timer)).await,
            turn(w, &plain, |t| t.children.push(child)).await,
            turn(w, &plain, |t| t.step_logs.push(line)).await,
        ];
        assert_eq!(answers, [why; 4], "{id:?}");
    }
    for (name, why) in bad_names() {
        let mut task = w.task("a");
        task.activity_type = name.clone();
        let outbox = NewOutboxEvent {
            id: w.id(),
            event_type: name.clone(),
            payload: json("1"),
            idempotency_key: None,
        };
        let attribute = (name.clone(), Some(AttributeValue::Int(1)));
        let mut guarded = w.task("a");
        guarded.options.circuit_breaker = Some(CircuitBreakerConfig {
            key: Some(name.clone()),
            ..CircuitBreakerConfig::default()
        });
        let mut limited = w.task("a");
        limited.options.rate_limit = Some(RateLimitConfig::per_second(1).with_key(&name));
        let answers = [
            turn(w, &plain, |t| t.tasks.push(task)).await,
            turn(w, &plain, |t| t.outbox.push(outbox)).await,
            turn(w, &plain, |t| t.attributes.extend([attribute])).await,
            turn(w, &plain, |t| t.tasks.push(guarded)).await,
            turn(w, &plain, |t| t.tasks.push(limited)).await,
        ];
        assert_eq!(answers, [why; 5], "{name:?}");
    }
    assert_eq!(w.everything().await, before);
}

async fn bad_ids_of_everything_else_are_refused(w: &World) {
    let before = w.everything().await;
    for (id, why) in bad_ids() {
        let put = w.store.put_once(&id, json("1"), w.now()).await;
        assert_eq!(refusal(put), why, "{id:?}");
        let saved = w.store.save_breaker(breaker(&id), w.now()).await;
        assert_eq!(refusal(saved), why, "{id:?}");
        let put = w.store.put_schedule(schedule(w, &id)).await;
        assert_eq!(refusal(put), why, "{id:?}");
        let claim = ClaimTasks {
            worker_id: id.clone(),
            ..w.new_claim(1)
        };
        let claimed = w.store.claim_tasks(claim).await;
        assert_eq!(refusal(claimed), why, "{id:?}");
        let mut claim = w.new_turn_claim(1);
        claim.worker_id = id.clone();
        let claimed = w.store.claim_turns(claim).await;
        assert_eq!(refusal(claimed), why, "{id:?}");
    }
    assert_eq!(w.everything().await, before);
}

async fn names_and_ids_of_exactly_the_limit_are_taken(w: &World) {
    let id = "é".repeat(ID_BYTES_MAX / 2);
    let name = "é".repeat(NAME_BYTES_MAX / 2);
    let mut start = w.new_start();
    start.workflow_type = name.clone();
    start.version = id.clone();
    start.business_id = Some(id.clone());
    start.idempotency_key = Some(id.clone());
    let run_id = w.start_one(start).await;
    w.signal(run_id, &name).await;
    w.update(run_id, w.new_update(&id)).await;
    w.set_timer(run_id, &id, LEASE).await;
    let mut task = w.task(&id);
    task.activity_type = name.clone();
    w.queue(run_id, vec![task]).await;
    let all = w.dump(run_id).await;
    assert_eq!(all.run.business_id.as_ref(), Some(&id));
    assert_eq!((&all.run.workflow_type, &all.run.version), (&name, &id));
    assert_eq!(all.signals[0].signal_type, name);
    assert_eq!(all.updates[0].update_id, id);
    assert_eq!(all.timers[0].timer_id, id);
    assert_eq!(all.tasks[0].activity_id, id);
}

async fn texts_for_people_are_bounded(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    let before = w.everything().await;
    for (text, why) in [
        ("x".repeat(TEXT_BYTES_MAX + 1), Refusal::Limit),
        ("a\0b".to_owned(), Refusal::Invalid),
    ] {
        let terminate = TerminateRun {
            run_id,
            reason: text.clone(),
        };
        let terminated = w.store.terminate_runs(vec![terminate], w.now()).await;
        assert_eq!(refusal(terminated), why);
        let reason = text.clone();
        let cancelled = TaskOutcome::Cancelled { reason };
        assert_eq!(finish(w, &lease, cancelled, vec![]).await, why);
        let mut line = log(w);
        line.message = text;
        assert_eq!(finish(w, &lease, done(), vec![line]).await, why);
    }
    assert_eq!(w.everything().await, before);
}

async fn bad_attributes_are_refused(w: &World) {
    let plain = w.turn(w.start().await).await;
    let before = w.everything().await;
    let text = |text: String| AttributeValue::Text(text);
    for (value, why) in [
        (AttributeValue::Double(f64::NAN), Refusal::Invalid),
        (AttributeValue::Double(f64::INFINITY), Refusal::Invalid),
        (text("a\0b".into()), Refusal::Invalid),
        (
            text("x".repeat(ATTRIBUTE_TEXT_BYTES_MAX + 1)),
            Refusal::Limit,
        ),
    ] {
        let refused = start(w, |s| s.attributes.extend([("tag".into(), value.clone())]));
        assert_eq!(refused.await, why, "{value:?}");
    }
    let too_many = start(w, |s| {
        let many = (0..=ATTRIBUTES_MAX).map(|i| (i.to_string(), AttributeValue::Int(1)));
        s.attributes.extend(many);
    });
    assert_eq!(too_many.await, Refusal::Limit);
    for value in [None, Some(AttributeValue::Int(1))] {
        let too_many = turn(w, &plain, |t| {
            let many = (0..=ATTRIBUTES_MAX).map(|i| (i.to_string(), value.clone()));
            t.attributes.extend(many);
        });
        assert_eq!(too_many.await, Refusal::Limit, "{value:?}");
    }
    assert_eq!(w.everything().await, before);
}

async fn bad_durations_and_leases_are_refused(w: &World) {
    let run_id = w.start().await;
    let plain = w.turn(run_id).await;
    let before = w.everything().await;
    let too_long = Duration::from_millis(DURATION_MS_MAX + 1);
    assert_eq!(
        start(w, |s| s.run_timeout = Some(too_long)).await,
        Refusal::Limit
    );
    assert_eq!(
        start(w, |s| s.execution_timeout = Some(Duration::MAX)).await,
        Refusal::Limit
    );
    let timer = NewTimer {
        timer_id: "t".into(),
        after: too_long,
    };
    let timer = turn(w, &plain, |t| t.timers.push(timer)).await;
    assert_eq!(timer, Refusal::Limit);
    let mut task = w.task("a");
    task.delay = Some(Duration::MAX);
    let task = turn(w, &plain, |t| t.tasks.push(task)).await;
    assert_eq!(task, Refusal::Limit);
    let mut task = w.task("a");
    task.options.retry_policy.backoff_coefficient = f64::NAN;
    let task = turn(w, &plain, |t| t.tasks.push(task)).await;
    assert_eq!(task, Refusal::Invalid);
    for (lease, why) in [
        (Duration::ZERO, Refusal::Invalid),
        (Duration::from_millis(LEASE_MS_MAX + 1), Refusal::Limit),
    ] {
        let claim = ClaimTasks {
            lease,
            ..w.new_claim(1)
        };
        assert_eq!(refusal(w.store.claim_tasks(claim).await), why);
        let mut claim = w.new_turn_claim(1);
        claim.lease = lease;
        assert_eq!(refusal(w.store.claim_turns(claim).await), why);
        let renewed = w.store.renew_runs(WORKER, &[run_id], lease, w.now()).await;
        assert_eq!(refusal(renewed), why);
    }
    assert_eq!(w.everything().await, before);
}

async fn too_many_items_in_one_call_are_refused(w: &World) {
    let run_id = w.start().await;
    let before = w.everything().await;
    let signal = SendSignal {
        run_id,
        signal: w.new_signal("s"),
    };
    let signals = vec![signal; BATCH_ITEMS_MAX + 1];
    let sent = w.store.send_signals(signals, w.now()).await;
    assert_eq!(refusal(sent), Refusal::Limit);
    let starts = vec![w.new_start(); BATCH_ITEMS_MAX + 1];
    let started = w.store.start_runs(starts, w.now()).await;
    assert_eq!(refusal(started), Refusal::Limit);
    let ids = vec![run_id; BATCH_ITEMS_MAX + 1];
    let loaded = w.store.load_turns(&ids).await;
    assert_eq!(refusal(loaded), Refusal::Limit);
    assert_eq!(w.everything().await, before);
}

async fn one_bad_item_refuses_the_whole_call(w: &World) {
    let run_id = w.start().await;
    let twice = w.turn(run_id).await;
    let other = w.start().await;
    let good = w.turn(other).await;
    let before = w.everything().await;
    let mut second = twice.clone();
    second.turn_id = w.id();
    let turns = vec![good, twice, second];
    let committed = w.store.commit_turns(turns, w.now()).await;
    assert_eq!(refusal(committed), Refusal::Invalid, "two turns of one run");
    let signals = ["good", ""].map(|name| SendSignal {
        run_id,
        signal: w.new_signal(name),
    });
    let sent = w.store.send_signals(signals.to_vec(), w.now()).await;
    assert_eq!(refusal(sent), Refusal::Invalid);
    let mut bad = w.new_start();
    bad.workflow_type = String::new();
    let starts = vec![w.new_start(), bad];
    let started = w.store.start_runs(starts, w.now()).await;
    assert_eq!(refusal(started), Refusal::Invalid);
    assert_eq!(w.everything().await, before, "nothing of it was written");
}

async fn empty_sets_answer_empty_and_touch_nothing(w: &World) {
    w.start().await;
    let before = w.everything().await;
    let (store, now) = (&w.store, w.now());
    assert!(
        store
            .start_runs(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(
        store
            .send_signals(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(
        store
            .send_updates(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(
        store
            .terminate_runs(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(
        store
            .commit_turns(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(
        store
            .finish_tasks(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(
        store
            .extend_leases(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(
        store
            .release_tasks(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(
        store
            .fire_schedules(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(
        store
            .finish_outbox(vec![], now)
            .await
            .is_ok_and(|a| a.is_empty())
    );
    assert!(store.load_turns(&[]).await.is_ok_and(|a| a.is_empty()));
    assert_eq!(w.everything().await, before);
}
