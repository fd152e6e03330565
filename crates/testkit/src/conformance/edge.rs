//! The edge: what is refused before a store looks at it, and sets of no items.

use std::time::Duration;

use everruns_durable::persistence::limits::{
    BATCH_ITEMS_MAX, ID_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX,
};
use everruns_durable::persistence::model::{
    ClaimTasks, ClaimTurns, LeaseExtension, Next, StartRun, TaskOutcome, TaskResult,
};
use everruns_durable::persistence::{StoreError, StoreResult};

use crate::World;
use crate::world::{LEASE, WORKER, json};

claims! { "edge":
    empty_sets_answer_empty_and_touch_nothing,
    empty_ids_and_keys_are_refused,
    ids_and_names_that_are_too_long_are_refused,
    a_nul_in_an_id_is_refused,
    a_payload_at_the_limit_is_taken_and_one_byte_more_refused,
    a_result_that_is_too_large_is_refused_and_the_lease_still_counts,
    one_bad_start_refuses_the_whole_call,
    one_bad_turn_refuses_the_whole_set,
    two_turns_of_one_run_in_a_set_are_refused,
    events_that_do_not_say_what_becomes_of_the_run_are_refused,
    a_turn_that_ends_the_run_cannot_queue_tasks_or_set_timers,
    ids_that_appear_twice_in_a_turn_are_refused,
    too_many_items_in_one_call_are_refused,
    leases_of_no_length_and_of_more_than_a_day_are_refused,
}

fn is_limit<T: std::fmt::Debug>(result: &StoreResult<T>) -> bool {
    matches!(result, Err(StoreError::Limit { .. }))
}

fn is_invalid<T: std::fmt::Debug>(result: &StoreResult<T>) -> bool {
    matches!(result, Err(StoreError::Invalid(_)))
}

/// JSON text of exactly this many bytes.
fn json_of_size(bytes: usize) -> durable_core::Payload {
    json(&format!("\"{}\"", "x".repeat(bytes - 2)))
}

async fn empty_sets_answer_empty_and_touch_nothing(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let before = w.whole().await;
    w.advance(Duration::from_secs(1));
    let (s, now) = (&w.store, w.now());
    assert_eq!(s.start_runs(vec![], now).await.expect("starts"), []);
    assert_eq!(s.commit_turns(vec![], now).await.expect("turns"), []);
    assert_eq!(s.finish_tasks(vec![], now).await.expect("results"), []);
    assert_eq!(s.extend_leases(vec![], now).await.expect("leases"), []);
    assert_eq!(
        s.release_tasks(vec![], now).await.expect("tasks"),
        [false; 0]
    );
    assert_eq!(s.block_runs(vec![], now).await.expect("blocks"), [false; 0]);
    assert_eq!(
        s.renew_runs(WORKER, &[], LEASE, now).await.expect("runs"),
        [false; 0]
    );
    assert_eq!(s.load_turns(&[]).await.expect("turns"), []);
    assert_eq!(w.whole().await, before);
}

async fn empty_ids_and_keys_are_refused(w: &World) {
    let refused = [
        StartRun {
            idempotency_key: Some(String::new()),
            ..w.new_start()
        },
        StartRun {
            business_id: Some(String::new()),
            ..w.new_start()
        },
        StartRun {
            workflow_type: String::new(),
            ..w.new_start()
        },
    ];
    for start in refused {
        let result = w.store.start_runs(vec![start], w.now()).await;
        assert!(is_invalid(&result), "{result:?}");
    }
    let run_id = w.start().await;
    let before = w.whole().await;
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![w.task("")];
    let result = w.store.commit_turns(vec![turn], w.now()).await;
    assert!(is_invalid(&result), "{result:?}");
    assert_eq!(w.whole().await, before);
}

async fn ids_and_names_that_are_too_long_are_refused(w: &World) {
    let longest = StartRun {
        idempotency_key: Some("k".repeat(ID_BYTES_MAX)),
        business_id: Some("b".repeat(ID_BYTES_MAX)),
        workflow_type: "t".repeat(NAME_BYTES_MAX),
        ..w.new_start()
    };
    let run_id = w.start_one(longest).await;
    let refused = [
        StartRun {
            idempotency_key: Some("k".repeat(ID_BYTES_MAX + 1)),
            ..w.new_start()
        },
        StartRun {
            business_id: Some("b".repeat(ID_BYTES_MAX + 1)),
            ..w.new_start()
        },
        StartRun {
            workflow_type: "t".repeat(NAME_BYTES_MAX + 1),
            ..w.new_start()
        },
    ];
    for start in refused {
        let result = w.store.start_runs(vec![start], w.now()).await;
        assert!(is_limit(&result), "{result:?}");
    }
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![w.task(&"a".repeat(ID_BYTES_MAX + 1))];
    let result = w.store.commit_turns(vec![turn], w.now()).await;
    assert!(is_limit(&result), "{result:?}");
}

async fn a_nul_in_an_id_is_refused(w: &World) {
    let start = StartRun {
        business_id: Some("a\0b".into()),
        ..w.new_start()
    };
    let result = w.store.start_runs(vec![start], w.now()).await;
    assert!(is_invalid(&result), "{result:?}");
}

async fn a_payload_at_the_limit_is_taken_and_one_byte_more_refused(w: &World) {
    let largest = json_of_size(PAYLOAD_BYTES_MAX);
    let run_id = w
        .start_one(StartRun {
            input: largest.clone(),
            ..w.new_start()
        })
        .await;
    assert_eq!(w.run(run_id).await.input, largest);

    let too_large = json_of_size(PAYLOAD_BYTES_MAX + 1);
    let start = StartRun {
        input: too_large.clone(),
        ..w.new_start()
    };
    let result = w.store.start_runs(vec![start], w.now()).await;
    assert!(is_limit(&result), "{result:?}");

    let mut turn = w.turn(run_id).await;
    let mut task = w.task("a");
    task.input = too_large;
    turn.tasks = vec![task];
    let result = w.store.commit_turns(vec![turn], w.now()).await;
    assert!(is_limit(&result), "{result:?}");
}

async fn a_result_that_is_too_large_is_refused_and_the_lease_still_counts(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let task = w.claim_one().await;
    let before = w.whole().await;
    let outcomes = [
        TaskOutcome::Completed {
            result: json_of_size(PAYLOAD_BYTES_MAX + 1),
        },
        TaskOutcome::Failed {
            failure: crate::world::boom().with_details(json_of_size(PAYLOAD_BYTES_MAX + 1)),
        },
    ];
    for outcome in outcomes {
        let result = TaskResult {
            lease: task.lease.clone(),
            outcome,
            jitter: 0.5,
            step_logs: vec![],
        };
        let result = w.store.finish_tasks(vec![result], w.now()).await;
        assert!(is_limit(&result), "{result:?}");
    }
    assert_eq!(w.whole().await, before);
    // What the run can be told instead: a failure of ordinary size.
    w.report(
        &task.lease,
        TaskOutcome::Failed {
            failure: crate::world::boom().non_retryable(),
        },
    )
    .await;
    assert_eq!(w.letters().await.len(), 1);
}

async fn one_bad_start_refuses_the_whole_call(w: &World) {
    let bad = StartRun {
        idempotency_key: Some(String::new()),
        ..w.new_start()
    };
    let starts = vec![w.new_start(), bad, w.new_start()];
    let result = w.store.start_runs(starts, w.now()).await;
    assert!(is_invalid(&result), "{result:?}");
    assert_eq!(w.whole().await.runs, []);
}

async fn one_bad_turn_refuses_the_whole_set(w: &World) {
    let runs = [w.start().await, w.start().await];
    let before = w.whole().await;
    let good = w.turn(runs[0]).await;
    let mut bad = w.turn(runs[1]).await;
    bad.tasks = vec![w.task("")];
    let result = w.store.commit_turns(vec![good, bad], w.now()).await;
    assert!(is_invalid(&result), "{result:?}");
    assert_eq!(w.whole().await, before);
}

async fn two_turns_of_one_run_in_a_set_are_refused(w: &World) {
    let run_id = w.start().await;
    let other = w.start().await;
    let before = w.whole().await;
    let turns = vec![
        w.turn(run_id).await,
        w.turn(other).await,
        w.turn(run_id).await,
    ];
    let result = w.store.commit_turns(turns, w.now()).await;
    assert!(is_invalid(&result), "{result:?}");
    assert_eq!(w.whole().await, before);
}

async fn events_that_do_not_say_what_becomes_of_the_run_are_refused(w: &World) {
    let run_id = w.start().await;
    let before = w.whole().await;
    let mut silent = w.turn(run_id).await;
    silent.next = Next::Complete { result: json("1") };
    let mut contradicting = World::completing(w.turn(run_id).await);
    contradicting.next = Next::Wait;
    let mut eventless = w.turn(run_id).await;
    eventless.events.clear();
    eventless.tasks = vec![w.task("a")];
    for turn in [silent, contradicting, eventless] {
        let result = w.store.commit_turns(vec![turn], w.now()).await;
        assert!(is_invalid(&result), "{result:?}");
    }
    assert_eq!(w.whole().await, before);
}

async fn a_turn_that_ends_the_run_cannot_queue_tasks_or_set_timers(w: &World) {
    let run_id = w.start().await;
    let mut queueing = World::completing(w.turn(run_id).await);
    queueing.tasks = vec![w.task("a")];
    let mut setting = World::completing(w.turn(run_id).await);
    setting.timers = vec![World::timer("t", Duration::from_secs(1))];
    for turn in [queueing, setting] {
        let result = w.store.commit_turns(vec![turn], w.now()).await;
        assert!(is_invalid(&result), "{result:?}");
    }
}

async fn ids_that_appear_twice_in_a_turn_are_refused(w: &World) {
    let run_id = w.start().await;
    let mut activities = w.turn(run_id).await;
    activities.tasks = vec![w.task("a"), w.task("a")];
    let mut tasks = w.turn(run_id).await;
    tasks.tasks = vec![w.task("a"), w.task("b")];
    tasks.tasks[1].task_id = tasks.tasks[0].task_id;
    let mut timers = w.turn(run_id).await;
    timers.timers = vec![
        World::timer("t", Duration::from_secs(1)),
        World::timer("t", Duration::from_secs(2)),
    ];
    for turn in [activities, tasks, timers] {
        let result = w.store.commit_turns(vec![turn], w.now()).await;
        assert!(is_invalid(&result), "{result:?}");
    }
}

async fn too_many_items_in_one_call_are_refused(w: &World) {
    let starts = (0..=BATCH_ITEMS_MAX).map(|_| w.new_start()).collect();
    let result = w.store.start_runs(starts, w.now()).await;
    assert!(is_limit(&result), "{result:?}");
    assert_eq!(w.whole().await.runs, []);
}

async fn leases_of_no_length_and_of_more_than_a_day_are_refused(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    let before = w.whole().await;
    let day = Duration::from_secs(24 * 60 * 60);
    for length in [Duration::ZERO, day + Duration::from_millis(1)] {
        let tasks = ClaimTasks {
            lease: length,
            ..w.new_claim(1)
        };
        assert!(w.store.claim_tasks(tasks).await.is_err(), "{length:?}");
        let turns = ClaimTurns {
            lease: length,
            ..w.new_turn_claim(1)
        };
        assert!(w.store.claim_turns(turns).await.is_err(), "{length:?}");
        let extension = LeaseExtension {
            lease: lease.clone(),
            extend: length,
            heartbeat: None,
        };
        let extended = w.store.extend_leases(vec![extension], w.now()).await;
        assert!(extended.is_err(), "{length:?}");
        let renewed = w.store.renew_runs(WORKER, &[run_id], length, w.now()).await;
        assert!(renewed.is_err(), "{length:?}");
    }
    assert_eq!(w.whole().await, before);
}
