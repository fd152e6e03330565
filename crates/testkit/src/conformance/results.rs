//! Results of attempts: facts, retries, dead letters, park.

use std::time::Duration;

use durable_core::{AttemptRecord, ExhaustedPolicy, Failure, Payload, RetryPolicy, WorkflowEvent};
use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::limits::PAYLOAD_BYTES_MAX;
use everruns_durable::persistence::model::{
    DeadLetter, DeadLetterState, DlqFilter, Fact, FinishOutcome, LastAttempt, LogLevel, NewStepLog,
    Page, RollupOutcome, TaskOutcome, TaskResult, TaskStatus, after,
};

use crate::World;
use crate::world::{ACTIVITY, WORKER, boom, json, one};

claims! { "results":
    a_result_waits_as_a_fact,
    a_result_makes_the_run_ready_and_changes_nothing_else_of_it,
    a_cancelled_attempt_waits_as_a_fact_without_a_letter,
    results_are_kept_exact,
    results_of_one_run_arrive_in_the_order_reported,
    retries_wait_one_second_then_two,
    jitter_and_the_longest_interval_bound_the_delay,
    a_retry_keeps_all_but_the_lease,
    a_retry_without_delay_still_waits_to_be_fired,
    heartbeat_details_survive_a_retry,
    an_answer_sets_deliveries_back,
    failed_attempts_are_delivered_with_the_result,
    a_long_error_history_keeps_the_first_five_attempts_and_the_last_twenty,
    the_last_failure_is_told_once_and_leaves_one_dead_letter,
    a_failure_marked_final_is_not_retried,
    a_failure_of_a_final_type_is_not_retried,
    no_attempts_at_all_count_as_one,
    a_dead_task_and_one_letter_come_together,
    park_keeps_the_task_and_tells_the_run_nothing,
    a_parked_task_can_be_neither_finished_nor_extended_nor_released,
    a_result_is_stored_once,
    results_of_one_call_are_independent,
    log_lines_are_written_only_with_an_accepted_result,
    ends_are_counted_and_retries_are_not,
    a_result_for_a_run_that_has_ended_is_lost,
    a_result_that_is_too_large_is_refused_and_the_lease_still_counts,
}

fn failed(failure: Failure) -> TaskOutcome {
    TaskOutcome::Failed { failure }
}

fn completed(text: &str) -> TaskOutcome {
    TaskOutcome::Completed { result: json(text) }
}

async fn a_result_waits_as_a_fact(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let task = w.claim_one().await;
    let started_at = w.instant();
    w.advance(Duration::from_secs(1));
    let outcome = w.report(&task.lease, completed("[ 2 ]")).await;
    assert_eq!(
        outcome,
        FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false
        }
    );
    let fact = Fact {
        arrival: 1,
        event: WorkflowEvent::ActivityCompleted {
            activity_id: "a".into(),
            result: json("[ 2 ]"),
        },
        attempts: vec![],
        last_attempt: Some(LastAttempt {
            attempt: 1,
            worker_id: WORKER.into(),
            started_at,
        }),
        arrived_at: w.instant(),
    };
    assert_eq!(w.waiting(run_id).await.facts, [fact]);
    assert_eq!(w.dump(run_id).await.tasks, []);
}

async fn a_result_makes_the_run_ready_and_changes_nothing_else_of_it(w: &World) {
    let tasks = ["a", "b"].map(|name| w.parallel_task(name));
    let run_id = w.start_with_tasks(tasks.to_vec()).await;
    let mut expected = w.run(run_id).await;
    assert_eq!(expected.ready_at, None);
    let claimed = w.claim(2).await;
    w.advance(Duration::from_secs(1));
    expected.ready_at = w.now();
    w.succeed(&claimed[0].lease).await;
    w.advance(Duration::from_secs(1));
    w.succeed(&claimed[1].lease).await;
    expected.arrivals = 2;
    assert_eq!(w.run(run_id).await, expected, "ready since the first fact");
}

async fn a_cancelled_attempt_waits_as_a_fact_without_a_letter(w: &World) {
    let mut task = w.task("a");
    task.options.on_exhausted = ExhaustedPolicy::Park;
    let run_id = w.start_with_tasks(vec![task]).await;
    let task = w.claim_one().await;
    let reason = "asked to".to_owned();
    let outcome = w
        .report(
            &task.lease,
            TaskOutcome::Cancelled {
                reason: reason.clone(),
            },
        )
        .await;
    assert_eq!(
        outcome,
        FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false
        }
    );
    let fact = w.waiting(run_id).await.facts.remove(0);
    let activity_id = "a".to_owned();
    assert_eq!(
        fact.event,
        WorkflowEvent::ActivityCancelled {
            activity_id,
            reason
        }
    );
    assert_eq!(w.letters().await, []);
    assert_eq!(w.dump(run_id).await.tasks, []);
    assert_eq!(w.totals().await[0].outcome, RollupOutcome::Cancelled);
}

async fn results_are_kept_exact(w: &World) {
    for text in [
        "9007199254740993",
        r#""\u0000""#,
        r#"{"a":1,"a":2}"#,
        " [1 , 1e400] ",
    ] {
        let run_id = w.start_with_tasks(vec![w.task("a")]).await;
        let task = w.claim_one().await;
        w.report(&task.lease, completed(text)).await;
        let fact = w.waiting(run_id).await.facts.remove(0);
        assert_eq!(fact.event.payload(), Some(&json(text)));
    }
}

async fn results_of_one_run_arrive_in_the_order_reported(w: &World) {
    let tasks = ["a", "b", "c"].map(|name| w.parallel_task(name));
    let run_id = w.start_with_tasks(tasks.to_vec()).await;
    let claimed = w.claim(3).await;
    let results = [2, 0, 1].map(|i: usize| TaskResult {
        lease: claimed[i].lease.clone(),
        outcome: completed(&i.to_string()),
        jitter: 0.5,
        step_logs: vec![],
    });
    let outcomes = w.store.finish_tasks(results.to_vec(), w.now()).await;
    let recorded = [1, 2, 3].map(|arrival| FinishOutcome::Recorded {
        arrival,
        line_moved: false,
    });
    assert_eq!(outcomes.expect("finish_tasks"), recorded);
    let facts = w.waiting(run_id).await.facts;
    let values: Vec<_> = facts.iter().map(|f| f.event.payload().cloned()).collect();
    assert_eq!(values, ["2", "0", "1"].map(|text| Some(json(text))));
}

async fn retries_wait_one_second_then_two(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    for seconds in [1, 2] {
        let task = w.claim_one().await;
        let visible_at = after(w.instant(), Duration::from_secs(seconds));
        assert_eq!(
            w.fail(&task.lease).await,
            FinishOutcome::Retrying { visible_at }
        );
        w.advance(Duration::from_secs(seconds) - Duration::from_micros(1));
        assert_eq!(w.fire_due().await.tasks_ready, 0);
        w.advance(Duration::from_micros(1));
        assert_eq!(w.fire_due().await.tasks_ready, 1);
    }
    let task = w.claim_one().await;
    assert_eq!(task.lease.attempt, 3);
    let outcome = w.fail(&task.lease).await;
    assert_eq!(
        outcome,
        FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false
        }
    );
}

async fn jitter_and_the_longest_interval_bound_the_delay(w: &World) {
    let policy = RetryPolicy {
        jitter: 0.5,
        max_interval: Duration::from_millis(1200),
        ..RetryPolicy::default()
    };
    for (jitter, millis) in [(0.0, 500), (0.5, 1000), (1.0, 1200)] {
        let mut task = w.task("a");
        task.options.retry_policy = policy.clone();
        w.start_with_tasks(vec![task]).await;
        let result = TaskResult {
            lease: w.claim_one().await.lease,
            outcome: failed(boom()),
            jitter,
            step_logs: vec![],
        };
        let outcome = one(w.store.finish_tasks(vec![result], w.now()).await);
        let visible_at = after(w.instant(), Duration::from_millis(millis));
        assert_eq!(outcome, FinishOutcome::Retrying { visible_at });
    }
}

async fn a_retry_keeps_all_but_the_lease(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let mut expected = w.dump(run_id).await.tasks.remove(0);
    let task = w.claim_one().await;
    w.extend(&task.lease, Some(json("7"))).await;
    let started_at = w.now();
    w.advance(Duration::from_secs(2));
    w.fail(&task.lease).await;
    expected.status = TaskStatus::Delayed;
    expected.visible_at = after(w.instant(), Duration::from_secs(1));
    expected.attempt = 1;
    expected.deliveries = 0;
    expected.heartbeat_details = json("7");
    expected.attempts = vec![AttemptRecord {
        attempt: 1,
        worker_id: WORKER.into(),
        started_at,
        failure: boom(),
        omitted_before: 0,
    }];
    assert_eq!(w.dump(run_id).await.tasks, [expected]);
    let run = w.run(run_id).await;
    assert_eq!((run.arrivals, run.ready_at), (0, None), "nothing to tell");
}

async fn a_retry_without_delay_still_waits_to_be_fired(w: &World) {
    let mut task = w.task("a");
    task.options.retry_policy.initial_interval = Duration::ZERO;
    let run_id = w.start_with_tasks(vec![task]).await;
    let task = w.claim_one().await;
    let visible_at = w.instant();
    assert_eq!(
        w.fail(&task.lease).await,
        FinishOutcome::Retrying { visible_at }
    );
    assert_eq!(w.standing(run_id, TaskStatus::Delayed).await, ["a"]);
    assert_eq!(w.claim(1).await, []);
    w.fire_due().await;
    assert_eq!(w.claim_one().await.lease.attempt, 2);
}

async fn heartbeat_details_survive_a_retry(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let task = w.claim_one().await;
    assert_eq!(task.heartbeat_details, Payload::ABSENT);
    w.extend(&task.lease, Some(json(r#"{"page": 7}"#))).await;
    w.fail(&task.lease).await;
    w.advance(Duration::from_secs(1));
    w.fire_due().await;
    let second = w.claim_one().await;
    assert_eq!(second.heartbeat_details, json(r#"{"page": 7}"#));
}

async fn an_answer_sets_deliveries_back(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    w.claim_one().await;
    w.advance(Duration::from_secs(60));
    w.reap().await;
    let task = w.claim_one().await;
    assert_eq!(task.deliveries, 2);
    w.fail(&task.lease).await;
    assert_eq!(w.dump(run_id).await.tasks[0].deliveries, 0);
}

/// Claims and fails the one task until it has no attempt left, one second apart; the records of its attempts.
async fn exhaust(w: &World, attempts: u32) -> Vec<AttemptRecord> {
    let mut records = Vec::new();
    for attempt in 1..=attempts {
        let task = w.claim_one().await;
        assert_eq!(task.lease.attempt, attempt);
        assert_eq!(task.attempts, records);
        records.push(AttemptRecord {
            attempt,
            worker_id: WORKER.into(),
            started_at: w.now(),
            failure: Failure::new("Boom", format!("attempt {attempt}")),
            omitted_before: 0,
        });
        let failure = records[records.len() - 1].failure.clone();
        w.report(&task.lease, failed(failure)).await;
        w.advance(Duration::from_secs(2));
        w.fire_due().await;
    }
    records
}

async fn failed_attempts_are_delivered_with_the_result(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let records = exhaust(w, 2).await;
    let task = w.claim_one().await;
    assert_eq!(task.attempts, records);
    w.succeed(&task.lease).await;
    let fact = w.waiting(run_id).await.facts.remove(0);
    assert_eq!(fact.attempts, records);
    assert_eq!(fact.last_attempt.map(|last| last.attempt), Some(3));
}

async fn the_last_failure_is_told_once_and_leaves_one_dead_letter(w: &World) {
    let task = w.task("a");
    let run_id = w.start_with_tasks(vec![task.clone()]).await;
    let records = exhaust(w, 3).await;
    let last = records[2].clone();
    let dead_at = last.started_at.expect("it was claimed");
    let facts = w.waiting(run_id).await.facts;
    let told = Fact {
        arrival: 1,
        event: WorkflowEvent::ActivityFailed {
            activity_id: "a".into(),
            error: last.failure.clone(),
            will_retry: false,
        },
        attempts: records[..2].to_vec(),
        last_attempt: Some(LastAttempt {
            attempt: 3,
            worker_id: WORKER.into(),
            started_at: dead_at,
        }),
        arrived_at: dead_at,
    };
    assert_eq!(facts, [told]);
    let letter = DeadLetter {
        id: task.task_id,
        run_id,
        activity_id: "a".into(),
        activity_type: ACTIVITY.into(),
        input: task.input,
        options: task.options,
        epoch: 0,
        attempts: 3,
        last_error: last.failure,
        error_history: records,
        parked: false,
        state: DeadLetterState::Dead,
        dead_at,
        requeued_at: None,
        requeue_count: 0,
    };
    assert_eq!(w.letters().await, [letter]);
}

async fn a_failure_marked_final_is_not_retried(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let task = w.claim_one().await;
    let outcome = w.report(&task.lease, failed(boom().non_retryable())).await;
    assert_eq!(
        outcome,
        FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false
        }
    );
    let letters = w.letters().await;
    assert_eq!((letters.len(), letters[0].attempts), (1, 1));
}

async fn a_failure_of_a_final_type_is_not_retried(w: &World) {
    let mut task = w.task("a");
    task.options.retry_policy.non_retryable_errors = vec!["CardDeclined".into()];
    w.start_with_tasks(vec![task]).await;
    let task = w.claim_one().await;
    let declined = Failure::new("CardDeclined", "no money");
    assert!(declined.retryable, "by itself it would be tried again");
    let outcome = w.report(&task.lease, failed(declined.clone())).await;
    assert_eq!(
        outcome,
        FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false
        }
    );
    assert_eq!(w.letters().await[0].last_error, declined);
}

async fn no_attempts_at_all_count_as_one(w: &World) {
    let mut task = w.task("a");
    task.options.retry_policy.max_attempts = 0;
    w.start_with_tasks(vec![task]).await;
    let task = w.claim_one().await;
    let outcome = w.fail(&task.lease).await;
    assert_eq!(
        outcome,
        FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false
        }
    );
}

async fn a_dead_task_and_one_letter_come_together(w: &World) {
    let names = ["fails", "parks", "retries", "succeeds", "waits"];
    let mut tasks: Vec<_> = names.iter().map(|name| w.parallel_task(name)).collect();
    tasks[1].options.on_exhausted = ExhaustedPolicy::Park;
    let mut dead = vec![tasks[0].task_id, tasks[1].task_id];
    let run_id = w.start_with_tasks(tasks).await;
    let claimed = w.claim(4).await;
    w.give_up(&claimed[0].lease).await;
    w.give_up(&claimed[1].lease).await;
    w.fail(&claimed[2].lease).await;
    w.succeed(&claimed[3].lease).await;
    let mut letters: Vec<_> = w.letters().await.iter().map(|l| l.id).collect();
    letters.sort_unstable();
    dead.sort_unstable();
    assert_eq!(letters, dead);
    assert_eq!(w.standing(run_id, TaskStatus::Dead).await, ["parks"]);
}

async fn park_keeps_the_task_and_tells_the_run_nothing(w: &World) {
    let mut task = w.task("a");
    task.options.on_exhausted = ExhaustedPolicy::Park;
    let run_id = w.start_with_tasks(vec![task]).await;
    let mut expected = w.dump(run_id).await.tasks.remove(0);
    w.advance(Duration::from_secs(1));
    let task = w.claim_one().await;
    let record = AttemptRecord {
        attempt: 1,
        worker_id: WORKER.into(),
        started_at: w.now(),
        failure: boom().non_retryable(),
        omitted_before: 0,
    };
    assert_eq!(w.give_up(&task.lease).await, FinishOutcome::Parked);

    let stored = w.dump(run_id).await;
    expected.status = TaskStatus::Dead;
    expected.attempt = 1;
    expected.deliveries = 1;
    expected.visible_at = w.instant();
    expected.attempts = vec![record.clone()];
    assert_eq!(stored.tasks, [expected]);
    assert_eq!((stored.run.arrivals, stored.run.ready_at), (0, None));
    let letters = w.letters().await;
    assert_eq!(letters.len(), 1);
    assert!(letters[0].parked);
    assert_eq!(letters[0].error_history, [record]);
    assert_eq!(w.totals().await[0].outcome, RollupOutcome::Failed);
}

async fn a_parked_task_can_be_neither_finished_nor_extended_nor_released(w: &World) {
    let mut task = w.task("a");
    task.options.on_exhausted = ExhaustedPolicy::Park;
    w.start_with_tasks(vec![task]).await;
    let task = w.claim_one().await;
    w.give_up(&task.lease).await;
    let before = w.everything().await;
    w.lease_is_void(&task.lease).await;
    w.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(w.reap().await, []);
    w.fire_due().await;
    assert_eq!(
        w.everything().await,
        before,
        "it waits for a decision, for ever"
    );
}

async fn a_result_is_stored_once(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let task = w.claim_one().await;
    w.succeed(&task.lease).await;
    let before = w.everything().await;
    for outcome in [completed("3"), failed(boom())] {
        let again = w.report(&task.lease, outcome).await;
        assert_eq!(again, FinishOutcome::LeaseLost);
    }
    assert_eq!(w.everything().await, before);
}

async fn results_of_one_call_are_independent(w: &World) {
    let mut results = Vec::new();
    for name in ["a", "b", "c"] {
        w.start_with_tasks(vec![w.task(name)]).await;
        results.push(TaskResult {
            lease: w.claim_one().await.lease,
            outcome: completed("1"),
            jitter: 0.5,
            step_logs: vec![],
        });
    }
    results[1].lease.token = w.id();
    results.push(results[0].clone());
    let outcomes = w.store.finish_tasks(results, w.now()).await;
    assert_eq!(
        outcomes.expect("finish_tasks"),
        [
            FinishOutcome::Recorded {
                arrival: 1,
                line_moved: false
            },
            FinishOutcome::LeaseLost,
            FinishOutcome::Recorded {
                arrival: 1,
                line_moved: false
            },
            FinishOutcome::LeaseLost,
        ]
    );
}

async fn log_lines_are_written_only_with_an_accepted_result(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let first = w.claim_one().await.lease;
    let report = |lease: &_, message: &str, outcome| TaskResult {
        lease: Clone::clone(lease),
        outcome,
        jitter: 0.5,
        step_logs: vec![NewStepLog {
            id: w.id(),
            activity_id: "a".into(),
            attempt: 1,
            level: LogLevel::Info,
            message: message.into(),
            meta: json("{}"),
        }],
    };
    let finish = |result| w.store.finish_tasks(vec![result], w.now());
    one(finish(report(&first, "retried", failed(boom()))).await);
    one(finish(report(&first, "zombie", completed("1"))).await);
    w.advance(Duration::from_secs(1));
    w.fire_due().await;
    let second = w.claim_one().await.lease;
    one(w
        .store
        .finish_tasks(vec![report(&second, "done", completed("1"))], w.now())
        .await);
    let logs = w.dump(run_id).await.step_logs;
    let messages: Vec<_> = logs.iter().map(|log| log.message.as_str()).collect();
    assert_eq!(messages, ["retried", "done"]);
    assert_eq!(logs[1].created_at, w.instant());
}

async fn ends_are_counted_and_retries_are_not(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let task = w.claim_one().await;
    w.fail(&task.lease).await;
    assert_eq!(w.totals().await, []);
    w.advance(Duration::from_secs(1));
    w.fire_due().await;
    let task = w.claim_one().await;
    w.advance(Duration::from_millis(1024));
    w.succeed(&task.lease).await;
    let totals = w.totals().await;
    assert_eq!(totals.len(), 1);
    assert_eq!((totals[0].count, totals[0].total_ms), (1, 1024));
    assert_eq!(totals[0].duration_exp, 11, "1024 ms is 2^10 up to 2^11");
}

async fn a_result_for_a_run_that_has_ended_is_lost(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let task = w.claim_one().await;
    w.complete(run_id).await;
    let before = w.everything().await;
    w.lease_is_void(&task.lease).await;
    assert_eq!(w.everything().await, before);
}

async fn a_result_that_is_too_large_is_refused_and_the_lease_still_counts(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let task = w.claim_one().await;
    let before = w.everything().await;
    let too_large = json(&format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX)));
    let outcomes = [
        TaskOutcome::Completed {
            result: too_large.clone(),
        },
        TaskOutcome::Failed {
            failure: boom().with_details(too_large.clone()),
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
        assert!(
            matches!(result, Err(StoreError::Limit { .. })),
            "{result:?}"
        );
    }
    assert_eq!(w.everything().await, before);
    // What the run can be told instead: a failure of ordinary size.
    w.report(
        &task.lease,
        TaskOutcome::Failed {
            failure: boom().non_retryable(),
        },
    )
    .await;
    assert_eq!(w.letters().await.len(), 1);
}

async fn a_long_error_history_keeps_the_first_five_attempts_and_the_last_twenty(w: &World) {
    let mut task = w.task("a");
    task.options.retry_policy.max_attempts = 30;
    task.options.retry_policy.backoff_coefficient = 1.0;
    let run_id = w.start_with_tasks(vec![task]).await;
    let shape = |attempts: &[AttemptRecord]| {
        let shape = attempts.iter();
        let shape = shape.map(|attempt| (attempt.attempt, attempt.omitted_before));
        shape.collect::<Vec<_>>()
    };
    let kept = |last: u32| {
        let omitted = last - 25;
        let first = (1..=5).map(|n| (n, 0));
        let behind = (last - 19..=last).map(move |n| (n, if n == last - 19 { omitted } else { 0 }));
        first.chain(behind).collect::<Vec<_>>()
    };
    for attempt in 1..=30 {
        let claimed = w.claim_one().await;
        let so_far = shape(&claimed.attempts);
        if attempt <= 26 {
            let all: Vec<_> = (1..attempt).map(|n| (n, 0)).collect();
            assert_eq!(so_far, all, "complete up to 25");
        } else {
            assert_eq!(so_far, kept(attempt - 1));
        }
        let failure = Failure::new("Boom", format!("attempt {attempt}"));
        w.report(&claimed.lease, failed(failure)).await;
        w.advance(Duration::from_secs(2));
        w.fire_due().await;
    }
    let fact = w.waiting(run_id).await.facts.remove(0);
    assert_eq!(shape(&fact.attempts), kept(29), "without the last one");
    let letters = w
        .store
        .list_dlq(DlqFilter::default(), Page::default())
        .await;
    let listed = letters.expect("list_dlq").remove(0);
    let letter = w.store.get_dead_letter(listed.id).await;
    let letter = letter.expect("get_dead_letter").expect("it is listed");
    assert_eq!(shape(&letter.error_history), kept(30));
    assert_eq!(letter.attempts, 30);
}
