//! The clocks of a task: which one runs when, and what follows when it runs out.

use std::time::Duration;

use durable_core::{
    ActivityOptions, AttemptRecord, ExhaustedPolicy, Failure, RetryPolicy, TimeoutType, Timestamp,
    WorkflowEvent,
};
use everruns_durable::persistence::model::{
    ClaimedTask, Fact, FinishOutcome, FireDue, Fired, LastAttempt, LeaseExtension, LeaseState,
    NewTask, TaskOutcome, TaskStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{LEASE, WORKER, json, one};

claims! { "timeouts":
    a_task_nobody_picks_up_in_time_ends_without_a_retry,
    the_pick_up_clock_stands_still_while_a_task_is_in_line,
    the_pick_up_clock_stands_still_while_a_task_is_delayed,
    the_pick_up_clock_begins_anew_when_a_task_is_given_back,
    a_delayed_task_can_be_claimed_when_its_time_has_come_and_not_before,
    an_attempt_that_takes_too_long_is_tried_again,
    the_last_attempt_that_takes_too_long_ends_the_activity,
    a_policy_may_name_a_timeout_as_final,
    a_missed_heartbeat_is_a_failed_attempt,
    a_heartbeat_restarts_the_heartbeat_clock,
    extending_a_lease_is_no_heartbeat,
    the_next_attempt_sees_the_details_of_the_last_heartbeat,
    a_heartbeat_of_one_attempt_does_not_count_for_the_next,
    the_attempt_clock_is_named_before_the_heartbeat_clock,
    the_time_for_all_attempts_runs_on_over_retries,
    the_time_for_all_attempts_runs_on_in_line,
    the_time_for_all_attempts_is_named_before_all_other_clocks,
    a_timeout_moves_the_line_up,
    a_timeout_under_park_waits_for_a_decision,
    timeouts_are_handled_in_bounded_batches_earliest_first,
    the_retry_of_a_timeout_uses_the_given_jitter,
}

const SECOND: Duration = Duration::from_secs(1);
const MICRO: Duration = Duration::from_micros(1);

fn task(w: &World, activity_id: &str, change: impl FnOnce(&mut ActivityOptions)) -> NewTask {
    let mut task = w.task(activity_id);
    change(&mut task.options);
    task
}

fn failed(attempt: u32, claimed: &ClaimedTask, failure: Failure) -> AttemptRecord {
    AttemptRecord {
        attempt,
        worker_id: WORKER.into(),
        started_at: Some(claimed.started_at),
        failure,
        omitted_before: 0,
    }
}

fn timed_out(timeout_type: TimeoutType) -> WorkflowEvent {
    WorkflowEvent::ActivityTimedOut {
        activity_id: "a".into(),
        timeout_type,
    }
}

/// The one fact that waits for a run.
async fn only_fact(w: &World, run_id: Uuid) -> Fact {
    let mut facts = w.waiting(run_id).await.facts;
    assert_eq!(facts.len(), 1, "one fact waits");
    facts.remove(0)
}

async fn beat(w: &World, claimed: &ClaimedTask, heartbeat: Option<&str>) -> LeaseState {
    let extension = LeaseExtension {
        lease: claimed.lease.clone(),
        extend: LEASE,
        heartbeat: heartbeat.map(json),
    };
    one(w.store.extend_leases(vec![extension], w.now()).await)
}

fn one_timeout(run_id: Uuid) -> Fired {
    Fired {
        tasks_timed_out: 1,
        ready_runs: vec![run_id],
        ..Fired::default()
    }
}

async fn a_task_nobody_picks_up_in_time_ends_without_a_retry(w: &World) {
    let queued = task(w, "a", |o| o.schedule_to_start_timeout = SECOND * 30);
    let task_id = queued.task_id;
    let run_id = w.start_with_tasks(vec![queued]).await;
    w.advance(SECOND * 30 - MICRO);
    assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    w.advance(MICRO);
    assert_eq!(w.fire_due().await, one_timeout(run_id));
    let fact = Fact {
        arrival: 1,
        event: timed_out(TimeoutType::ScheduleToStart),
        attempts: vec![],
        last_attempt: None,
        arrived_at: w.instant(),
    };
    assert_eq!(only_fact(w, run_id).await, fact);
    assert_eq!(w.queued(run_id, "a").await, None);
    let letters = w.letters().await;
    assert_eq!(letters.len(), 1);
    let failure = TimeoutType::ScheduleToStart.failure();
    assert_eq!((letters[0].id, letters[0].attempts), (task_id, 0));
    assert_eq!(letters[0].last_error, failure);
    let history = AttemptRecord {
        attempt: 0,
        worker_id: String::new(),
        started_at: None,
        failure,
        omitted_before: 0,
    };
    assert_eq!(letters[0].error_history, [history]);
}

async fn the_pick_up_clock_stands_still_while_a_task_is_in_line(w: &World) {
    let first = task(w, "first", |o| o.start_to_close_timeout = SECOND * 3600);
    let second = task(w, "a", |o| o.schedule_to_start_timeout = SECOND * 30);
    let run_id = w.start_with_tasks(vec![first, second]).await;
    let first = w.claim_one().await;
    w.advance(SECOND * 600);
    assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    w.succeed(&first.lease).await;
    let second = w.queued(run_id, "a").await.expect("queued");
    assert_eq!(
        (second.status, second.visible_at),
        (TaskStatus::Pending, w.instant())
    );
    w.advance(SECOND * 30 - MICRO);
    assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    w.advance(MICRO);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
}

async fn the_pick_up_clock_stands_still_while_a_task_is_delayed(w: &World) {
    let mut delayed = task(w, "a", |o| o.schedule_to_start_timeout = SECOND * 5);
    delayed.delay = Some(SECOND * 60);
    let run_id = w.start_with_tasks(vec![delayed]).await;
    w.advance(SECOND * 62);
    let due = w.fire_due().await;
    assert_eq!((due.tasks_ready, due.tasks_timed_out), (1, 0));
    let types = due.claimable_types.iter();
    assert!(types.eq([&w.task("a").activity_type]), "whom to ring");
    let ready = w.queued(run_id, "a").await.expect("queued");
    assert_eq!(
        (ready.status, ready.visible_at),
        (TaskStatus::Pending, w.instant()),
        "it counts from when it could be claimed"
    );
    assert_eq!(due.next_due, Some(after(w.instant(), SECOND * 5)));
    w.advance(SECOND * 5);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
}

async fn the_pick_up_clock_begins_anew_when_a_task_is_given_back(w: &World) {
    let queued = task(w, "a", |o| o.schedule_to_start_timeout = SECOND * 30);
    w.start_with_tasks(vec![queued]).await;
    w.advance(SECOND * 20);
    let claimed = w.claim_one().await;
    let released = w.release(&claimed.lease).await;
    assert!(released);
    w.advance(SECOND * 29);
    assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    w.advance(SECOND);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
}

async fn a_delayed_task_can_be_claimed_when_its_time_has_come_and_not_before(w: &World) {
    let mut delayed = w.task("a");
    delayed.delay = Some(SECOND * 10);
    w.start_with_tasks(vec![delayed]).await;
    w.advance(SECOND * 10 - MICRO);
    assert_eq!(w.fire_due().await.tasks_ready, 0);
    assert_eq!(w.claim(1).await, []);
    w.advance(MICRO);
    let due = w.fire_due().await;
    assert_eq!((due.tasks_ready, due.tasks_timed_out), (1, 0));
    assert!(
        due.ready_runs.is_empty(),
        "a task that waits is no news for its run"
    );
    w.claim_one().await;
}

async fn an_attempt_that_takes_too_long_is_tried_again(w: &World) {
    let queued = task(w, "a", |o| o.start_to_close_timeout = SECOND * 60);
    let run_id = w.start_with_tasks(vec![queued]).await;
    let claimed = w.claim_one().await;
    let before = w.queued(run_id, "a").await.expect("queued");
    w.advance(SECOND * 60 - MICRO);
    assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    w.advance(MICRO);
    let due = w.fire_due().await;
    let retry_at = after(w.instant(), SECOND);
    assert_eq!((due.tasks_timed_out, due.next_due), (1, Some(retry_at)));
    assert!(due.ready_runs.is_empty());
    let mut expected = before;
    expected.status = TaskStatus::Delayed;
    expected.visible_at = retry_at;
    expected.attempts = vec![failed(1, &claimed, TimeoutType::StartToClose.failure())];
    expected.deliveries = 0;
    expected.claimed_by = None;
    expected.claimed_at = None;
    expected.token = None;
    expected.lease_expires_at = None;
    assert_eq!(w.queued(run_id, "a").await, Some(expected));
    assert_eq!(w.waiting(run_id).await.facts, []);
    assert_eq!(w.letters().await, []);
    assert_eq!(w.fail(&claimed.lease).await, FinishOutcome::LeaseLost);
}

async fn the_last_attempt_that_takes_too_long_ends_the_activity(w: &World) {
    let queued = task(w, "a", |o| {
        o.start_to_close_timeout = SECOND * 60;
        o.retry_policy.max_attempts = 2;
    });
    let run_id = w.start_with_tasks(vec![queued]).await;
    let first = w.claim_one().await;
    w.fail(&first.lease).await;
    w.advance(SECOND);
    w.fire_due().await;
    let second = w.claim_one().await;
    w.advance(SECOND * 60);
    assert_eq!(w.fire_due().await, one_timeout(run_id));
    let boom = failed(1, &first, Failure::new("Boom", "it broke"));
    let fact = Fact {
        arrival: 1,
        event: timed_out(TimeoutType::StartToClose),
        attempts: vec![boom.clone()],
        last_attempt: Some(LastAttempt {
            attempt: 2,
            worker_id: WORKER.into(),
            started_at: second.started_at,
        }),
        arrived_at: w.instant(),
    };
    assert_eq!(only_fact(w, run_id).await, fact);
    let letter = w.letters().await.remove(0);
    let last = failed(2, &second, TimeoutType::StartToClose.failure());
    assert_eq!(letter.error_history, [boom, last]);
    assert_eq!((letter.attempts, letter.parked), (2, false));
    let late = TaskOutcome::Completed { result: json("2") };
    assert_eq!(
        w.report(&second.lease, late).await,
        FinishOutcome::LeaseLost
    );
}

async fn a_policy_may_name_a_timeout_as_final(w: &World) {
    let queued = task(w, "a", |o| {
        o.start_to_close_timeout = SECOND * 60;
        o.retry_policy.non_retryable_errors = vec!["StartToCloseTimeout".into()];
    });
    let run_id = w.start_with_tasks(vec![queued]).await;
    w.claim_one().await;
    w.advance(SECOND * 60);
    assert_eq!(w.fire_due().await, one_timeout(run_id));
    let event = only_fact(w, run_id).await.event;
    assert_eq!(event, timed_out(TimeoutType::StartToClose));
}

/// A claimed task with a heartbeat every five seconds, and only one attempt.
async fn beating(w: &World) -> (Uuid, ClaimedTask) {
    let queued = task(w, "a", |o| {
        o.heartbeat_timeout = Some(SECOND * 5);
        o.retry_policy = RetryPolicy::never();
    });
    let run_id = w.start_with_tasks(vec![queued]).await;
    (run_id, w.claim_one().await)
}

async fn a_missed_heartbeat_is_a_failed_attempt(w: &World) {
    let (run_id, _) = beating(w).await;
    w.advance(SECOND * 5 - MICRO);
    assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    w.advance(MICRO);
    assert_eq!(w.fire_due().await, one_timeout(run_id));
    let event = only_fact(w, run_id).await.event;
    assert_eq!(event, timed_out(TimeoutType::Heartbeat));
}

async fn a_heartbeat_restarts_the_heartbeat_clock(w: &World) {
    let (_, claimed) = beating(w).await;
    for _ in 0..3 {
        w.advance(SECOND * 4);
        let expires_at = after(w.instant(), LEASE);
        let state = beat(w, &claimed, Some("{}")).await;
        assert_eq!(state, LeaseState::Extended { expires_at });
        assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    }
    w.advance(SECOND * 5);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
    assert_eq!(beat(w, &claimed, Some("{}")).await, LeaseState::Lost);
}

async fn extending_a_lease_is_no_heartbeat(w: &World) {
    let (run_id, claimed) = beating(w).await;
    w.advance(SECOND * 4);
    assert_ne!(beat(w, &claimed, None).await, LeaseState::Lost);
    w.advance(SECOND);
    assert_eq!(w.fire_due().await, one_timeout(run_id));
}

async fn the_next_attempt_sees_the_details_of_the_last_heartbeat(w: &World) {
    let queued = task(w, "a", |o| o.heartbeat_timeout = Some(SECOND * 5));
    w.start_with_tasks(vec![queued]).await;
    let first = w.claim_one().await;
    beat(w, &first, Some("{\"row\":1}")).await;
    beat(w, &first, Some("{\"row\":2}")).await;
    w.advance(SECOND * 5);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
    w.advance(SECOND);
    assert_eq!(w.fire_due().await.tasks_ready, 1);
    let second = w.claim_one().await;
    assert_eq!(second.lease.attempt, 2);
    assert_eq!(second.heartbeat_details, json("{\"row\":2}"));
}

async fn a_heartbeat_of_one_attempt_does_not_count_for_the_next(w: &World) {
    let queued = task(w, "a", |o| o.heartbeat_timeout = Some(SECOND * 5));
    w.start_with_tasks(vec![queued]).await;
    let first = w.claim_one().await;
    beat(w, &first, Some("1")).await;
    w.fail(&first.lease).await;
    w.advance(SECOND * 4);
    w.fire_due().await;
    w.claim_one().await;
    w.advance(SECOND * 4);
    assert_eq!(
        w.fire_due().await.tasks_timed_out,
        0,
        "the clock began with the claim"
    );
    w.advance(SECOND);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
}

async fn the_attempt_clock_is_named_before_the_heartbeat_clock(w: &World) {
    let queued = task(w, "a", |o| {
        o.heartbeat_timeout = Some(SECOND * 5);
        o.start_to_close_timeout = SECOND * 5;
        o.retry_policy = RetryPolicy::never();
    });
    let run_id = w.start_with_tasks(vec![queued]).await;
    w.claim_one().await;
    w.advance(SECOND * 5);
    w.fire_due().await;
    let event = only_fact(w, run_id).await.event;
    assert_eq!(event, timed_out(TimeoutType::StartToClose));
}

async fn the_time_for_all_attempts_runs_on_over_retries(w: &World) {
    let queued = task(w, "a", |o| {
        o.schedule_to_close_timeout = Some(SECOND * 30);
        o.retry_policy.initial_interval = SECOND * 60;
    });
    let run_id = w.start_with_tasks(vec![queued]).await;
    let deadline = after(w.instant(), SECOND * 30);
    let task = w.queued(run_id, "a").await.expect("queued");
    assert_eq!(task.close_deadline, Some(deadline));
    w.advance(SECOND * 10);
    let claimed = w.claim_one().await;
    w.fail(&claimed.lease).await;
    assert_eq!(w.fire_due().await.next_due, Some(deadline));
    w.advance(SECOND * 20);
    assert_eq!(w.fire_due().await, one_timeout(run_id));
    let boom = failed(1, &claimed, Failure::new("Boom", "it broke"));
    let fact = Fact {
        arrival: 1,
        event: timed_out(TimeoutType::ScheduleToClose),
        attempts: vec![boom.clone()],
        last_attempt: None,
        arrived_at: w.instant(),
    };
    assert_eq!(only_fact(w, run_id).await, fact);
    let letter = w.letters().await.remove(0);
    let failure = TimeoutType::ScheduleToClose.failure();
    assert_eq!(letter.last_error, failure);
    let last = AttemptRecord {
        attempt: 1,
        worker_id: String::new(),
        started_at: None,
        failure,
        omitted_before: 0,
    };
    assert_eq!(letter.error_history, [boom, last]);
}

async fn the_time_for_all_attempts_runs_on_in_line(w: &World) {
    let second = task(w, "a", |o| o.schedule_to_close_timeout = Some(SECOND * 30));
    let run_id = w.start_with_tasks(vec![w.task("first"), second]).await;
    let first = w.claim_one().await;
    w.advance(SECOND * 30);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
    let event = only_fact(w, run_id).await.event;
    assert_eq!(event, timed_out(TimeoutType::ScheduleToClose));
    w.succeed(&first.lease).await;
}

async fn the_time_for_all_attempts_is_named_before_all_other_clocks(w: &World) {
    let each: [(&str, bool); 2] = [("claimed", true), ("pending", false)];
    for (activity_id, claim) in each {
        let queued = task(w, activity_id, |o| {
            o.schedule_to_close_timeout = Some(SECOND * 30);
            o.schedule_to_start_timeout = SECOND * 30;
            o.start_to_close_timeout = SECOND * 30;
            o.heartbeat_timeout = Some(SECOND * 30);
        });
        let run_id = w.start_with_tasks(vec![queued]).await;
        if claim {
            w.claim_one().await;
        }
        w.advance(SECOND * 30);
        assert_eq!(w.fire_due().await, one_timeout(run_id), "no retry is left");
        let fact = only_fact(w, run_id).await;
        let expected = WorkflowEvent::ActivityTimedOut {
            activity_id: activity_id.into(),
            timeout_type: TimeoutType::ScheduleToClose,
        };
        assert_eq!(fact.event, expected);
        assert_eq!(fact.last_attempt.is_some(), claim);
    }
}

async fn a_timeout_moves_the_line_up(w: &World) {
    let first = task(w, "a", |o| o.schedule_to_start_timeout = SECOND * 30);
    let run_id = w.start_with_tasks(vec![first, w.task("second")]).await;
    let second = w.queued(run_id, "second").await.expect("queued");
    assert_eq!(second.status, TaskStatus::InLine);
    w.advance(SECOND * 30);
    let due = w.fire_due().await;
    let types = due.claimable_types.iter();
    assert!(types.eq([&w.task("a").activity_type]), "whom to ring");
    assert_eq!(w.claim_one().await.activity_id, "second");
}

async fn a_timeout_under_park_waits_for_a_decision(w: &World) {
    let queued = task(w, "a", |o| {
        o.start_to_close_timeout = SECOND * 60;
        o.retry_policy = RetryPolicy::never();
        o.on_exhausted = ExhaustedPolicy::Park;
    });
    let run_id = w.start_with_tasks(vec![queued, w.task("second")]).await;
    let claimed = w.claim_one().await;
    w.advance(SECOND * 60);
    let expected = Fired {
        tasks_timed_out: 1,
        ..Fired::default()
    };
    assert_eq!(w.fire_due().await, expected, "nothing is due any more");
    assert_eq!(w.waiting(run_id).await.facts, []);
    let dead = w.queued(run_id, "a").await.expect("it keeps its place");
    let last = failed(1, &claimed, TimeoutType::StartToClose.failure());
    assert_eq!((dead.status, dead.token), (TaskStatus::Dead, None));
    assert_eq!(dead.attempts, std::slice::from_ref(&last));
    let letter = w.letters().await.remove(0);
    assert!(letter.parked);
    assert_eq!(letter.error_history, [last]);
    assert_eq!(w.claim(10).await, [], "the line waits behind it");
}

async fn timeouts_are_handled_in_bounded_batches_earliest_first(w: &World) {
    let tasks = (0..6_u32)
        .map(|i| {
            let mut task = w.parallel_task(&format!("a{i}"));
            task.options.schedule_to_start_timeout = SECOND * (10 - i);
            task
        })
        .collect();
    let run_id = w.start_with_tasks(tasks).await;
    w.advance(SECOND * 10);
    for _ in 0..3 {
        let due = FireDue {
            max: 2,
            first_shard: 0,
            jitter: 0.5,
            now: w.now(),
        };
        let due = w.store.fire_due(due).await.expect("fire_due");
        assert_eq!(due.tasks_timed_out, 2);
    }
    let ended: Vec<_> = w
        .waiting_events(run_id)
        .await
        .into_iter()
        .map(|event| match event {
            WorkflowEvent::ActivityTimedOut { activity_id, .. } => activity_id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ended, ["a5", "a4", "a3", "a2", "a1", "a0"]);
}

async fn the_retry_of_a_timeout_uses_the_given_jitter(w: &World) {
    let mut delays: Vec<Timestamp> = Vec::new();
    for jitter in [0.0, 1.0] {
        let queued = task(w, "a", |o| {
            o.start_to_close_timeout = SECOND * 60;
            o.retry_policy.initial_interval = SECOND * 10;
            o.retry_policy.jitter = 0.5;
        });
        let run_id = w.start_with_tasks(vec![queued]).await;
        w.claim_one().await;
        w.advance(SECOND * 60);
        let due = FireDue {
            max: 10,
            first_shard: 0,
            jitter,
            now: w.now(),
        };
        w.store.fire_due(due).await.expect("fire_due");
        let task = w.queued(run_id, "a").await.expect("queued");
        let expected = SECOND * if jitter == 0.0 { 5 } else { 15 };
        assert_eq!(task.visible_at, after(w.instant(), expected));
        delays.push(task.visible_at);
        w.terminate(run_id, "done").await;
    }
    assert_eq!(delays.len(), 2);
}
