//! S0's operations by their names, on the store's own clock.

use std::time::Duration;

use durable_core::{
    ActivityOptions, ExhaustedPolicy, Failure, RetryPolicy, Timestamp, TraceContext, WorkflowError,
    WorkflowEvent, WorkflowSignal,
};
use everruns_durable::persistence::model::{
    ClaimTasks, DeadLetterState, TaskLease, TaskStatus, WorkflowStatus,
};
use everruns_durable::persistence::{
    HeartbeatResponse, SeedOperations, StoreError, TaskDefinition, TaskFailureOutcome,
};
use uuid::Uuid;

use crate::World;
use crate::world::{ACTIVITY, WORKER, WORKFLOW, json};

claims! { "seed_operations":
    create_workflow_is_idempotent_and_refuses_another_input,
    append_events_goes_by_the_expected_sequence,
    a_terminal_event_ends_the_workflow,
    load_events_of_no_workflow_is_not_found,
    update_workflow_status_ends_a_workflow_and_nothing_else,
    a_task_goes_from_enqueue_to_its_result,
    a_failed_task_is_retried_then_moved_to_the_dead_letters,
    move_to_dlq_is_final_and_requeue_brings_it_back,
    a_task_with_a_lost_lease_takes_no_result,
    a_released_task_can_be_claimed_at_once,
    heartbeats_keep_tasks_and_tell_when_to_stop,
    stale_tasks_are_reclaimed,
    signals_wait_until_a_turn_took_them,
    pending_stale_and_overtime_tasks_are_found,
}

async fn create(w: &World) -> Uuid {
    let run_id = w.id();
    let created = w.store.create_workflow(run_id, WORKFLOW, json("{}"), None);
    created.await.expect("create_workflow");
    run_id
}

fn definition(workflow_id: Uuid) -> TaskDefinition {
    TaskDefinition {
        workflow_id,
        activity_id: "a".into(),
        activity_type: ACTIVITY.into(),
        input: json("[1]"),
        options: ActivityOptions::default(),
    }
}

async fn claimed(w: &World, task: TaskDefinition) -> TaskLease {
    w.store.enqueue_task(task).await.expect("enqueue_task");
    claim(w).await
}

async fn claim(w: &World) -> TaskLease {
    let types = [ACTIVITY.to_owned()];
    let tasks = w.store.claim_task(WORKER, &types, 1).await;
    tasks.expect("claim_task").remove(0).lease
}

fn effect(id: &str) -> WorkflowEvent {
    WorkflowEvent::SideEffectRecorded {
        effect_id: id.into(),
        value: json("1"),
    }
}

async fn create_workflow_is_idempotent_and_refuses_another_input(w: &World) {
    let run_id = w.id();
    let trace = TraceContext {
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        span_id: "b7ad6b7169203331".into(),
        trace_flags: 1,
    };
    for _ in 0..2 {
        let created = w
            .store
            .create_workflow(run_id, WORKFLOW, json("{}"), Some(&trace));
        created.await.expect("create_workflow");
    }
    let run = w.run(run_id).await;
    assert_eq!((run.trace, run.input), (Some(trace), json("{}")));
    let other = w.store.create_workflow(run_id, WORKFLOW, json("1"), None);
    assert!(matches!(other.await, Err(StoreError::Conflict(_))));
}

async fn append_events_goes_by_the_expected_sequence(w: &World) {
    let run_id = create(w).await;
    let append = |expected, events| w.store.append_events(run_id, expected, events);
    let last = append(0, vec![effect("a"), effect("b")]).await;
    assert_eq!(last.expect("append_events"), 2);
    for wrong in [0, 1, 3] {
        let refused = append(wrong, vec![effect("c")]).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))));
    }
    assert_eq!(append(2, vec![effect("c")]).await.expect("append"), 3);
    let events = w.store.load_events(run_id).await.expect("load_events");
    let expected = [(1, effect("a")), (2, effect("b")), (3, effect("c"))];
    assert_eq!(events, expected);
}

async fn a_terminal_event_ends_the_workflow(w: &World) {
    let run_id = create(w).await;
    let completed = WorkflowEvent::WorkflowCompleted {
        result: json("\"ok\""),
    };
    let appended = w.store.append_events(run_id, 0, vec![completed]).await;
    assert_eq!(appended.expect("append_events"), 1);
    let run = w.run(run_id).await;
    assert_eq!(run.status, WorkflowStatus::Completed);
    assert_eq!(run.result, json("\"ok\""));
    let late = w.store.append_events(run_id, 1, vec![effect("a")]).await;
    let status = WorkflowStatus::Completed;
    assert!(
        matches!(late, Err(StoreError::RunFinished { status: s, .. }) if s == status),
        "{late:?}"
    );
}

async fn load_events_of_no_workflow_is_not_found(w: &World) {
    let nobody = w.id();
    let loaded = w.store.load_events(nobody).await;
    assert!(matches!(loaded, Err(StoreError::NotFound { .. })));
    let appended = w.store.append_events(nobody, 0, vec![effect("a")]).await;
    assert!(matches!(appended, Err(StoreError::NotFound { .. })));
    let pending = w.store.get_pending_signals(nobody).await;
    assert!(matches!(pending, Err(StoreError::NotFound { .. })));
}

async fn update_workflow_status_ends_a_workflow_and_nothing_else(w: &World) {
    let end = async |status, result, error| {
        let run_id = create(w).await;
        let updated = w
            .store
            .update_workflow_status(run_id, status, result, error);
        updated.await.expect("update_workflow_status");
        let history = w.history(run_id).await;
        assert_eq!(history.len(), 1, "the matching event is appended");
        assert!(history[0].is_terminal());
        w.run(run_id).await
    };
    let run = end(WorkflowStatus::Completed, Some(json("1")), None).await;
    assert_eq!(
        (run.status, run.result),
        (WorkflowStatus::Completed, json("1"))
    );
    let error = WorkflowError::new("Bad", "very");
    let run = end(WorkflowStatus::Failed, None, Some(error.clone())).await;
    assert_eq!(run.status, WorkflowStatus::Failed);
    assert_eq!(run.error, Some(error.into_failure()));
    let run = end(WorkflowStatus::Cancelled, None, None).await;
    assert_eq!(run.status, WorkflowStatus::Cancelled);
    let run_id = create(w).await;
    let running = w
        .store
        .update_workflow_status(run_id, WorkflowStatus::Running, None, None)
        .await;
    assert!(matches!(running, Err(StoreError::Invalid(_))));
}

async fn a_task_goes_from_enqueue_to_its_result(w: &World) {
    let run_id = create(w).await;
    let task = definition(run_id);
    let task_id = w.store.enqueue_task(task.clone()).await.expect("enqueued");
    let scheduled = WorkflowEvent::ActivityScheduled {
        activity_id: task.activity_id,
        activity_type: task.activity_type,
        input: task.input,
        options: Box::new(task.options),
    };
    assert_eq!(w.history(run_id).await, [scheduled]);
    assert_eq!(w.store.count_pending_tasks().await.expect("count"), 1);
    let lease = claim(w).await;
    assert_eq!((lease.task_id, lease.attempt), (task_id, 1));
    assert_eq!(w.store.count_pending_tasks().await.expect("count"), 0);
    let done = w.store.complete_task(&lease, json("2")).await;
    done.expect("complete_task");
    let event = WorkflowEvent::ActivityCompleted {
        activity_id: "a".into(),
        result: json("2"),
    };
    assert_eq!(w.waiting_events(run_id).await, [event]);
}

async fn a_failed_task_is_retried_then_moved_to_the_dead_letters(w: &World) {
    let run_id = create(w).await;
    let lease = claimed(w, definition(run_id)).await;
    let failure = Failure::new("Boom", "it broke");
    let retried = w.store.fail_task(&lease, failure.clone()).await;
    let Ok(TaskFailureOutcome::WillRetry { visible_at }) = retried else {
        panic!("{retried:?}");
    };
    let task = w.queued(run_id, "a").await.expect("queued");
    assert_eq!(
        (task.status, task.visible_at),
        (TaskStatus::Delayed, visible_at)
    );

    let other = create(w).await;
    let mut task = definition(other);
    task.options.retry_policy = RetryPolicy::never();
    let lease = claimed(w, task).await;
    let dead = w.store.fail_task(&lease, failure).await;
    assert_eq!(dead.expect("fail_task"), TaskFailureOutcome::MovedToDlq);
    assert_eq!(w.letters().await.len(), 1);
}

async fn move_to_dlq_is_final_and_requeue_brings_it_back(w: &World) {
    let run_id = create(w).await;
    let mut task = definition(run_id);
    task.options.on_exhausted = ExhaustedPolicy::Park;
    let lease = claimed(w, task).await;
    let failure = Failure::new("Boom", "it broke");
    w.store
        .move_to_dlq(&lease, failure.clone())
        .await
        .expect("move_to_dlq");
    let letter = w.letters().await.remove(0);
    assert_eq!(letter.last_error, failure.non_retryable());
    let requeued = w.store.requeue_from_dlq(run_id, letter.id).await;
    assert_eq!(requeued.expect("requeue_from_dlq"), lease.task_id);
    assert_eq!(w.letters().await[0].state, DeadLetterState::Requeued);
    assert_eq!(claim(w).await.task_id, lease.task_id);
    let again = w.store.requeue_from_dlq(run_id, letter.id).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))));
    let unknown = w.store.requeue_from_dlq(run_id, w.id()).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })));
}

async fn a_task_with_a_lost_lease_takes_no_result(w: &World) {
    let run_id = create(w).await;
    let mut lease = claimed(w, definition(run_id)).await;
    lease.token = w.id();
    let is_lost =
        |lost: &StoreError| matches!(lost, StoreError::LeaseLost(id) if *id == lease.task_id);
    let completed = w.store.complete_task(&lease, json("2")).await;
    assert!(is_lost(&completed.expect_err("lost")));
    let failure = Failure::new("Boom", "it broke");
    let failed = w.store.fail_task(&lease, failure.clone()).await;
    assert!(is_lost(&failed.expect_err("lost")));
    let moved = w.store.move_to_dlq(&lease, failure).await;
    assert!(is_lost(&moved.expect_err("lost")));
    let released = w.store.release_task(&lease).await;
    assert!(is_lost(&released.expect_err("lost")));
    assert_eq!(w.letters().await, []);
}

async fn a_released_task_can_be_claimed_at_once(w: &World) {
    let run_id = create(w).await;
    let lease = claimed(w, definition(run_id)).await;
    w.store.release_task(&lease).await.expect("release_task");
    let again = claim(w).await;
    assert_eq!((again.task_id, again.attempt), (lease.task_id, 1));
}

async fn heartbeats_keep_tasks_and_tell_when_to_stop(w: &World) {
    let (run_id, other) = (create(w).await, create(w).await);
    let lease = claimed(w, definition(run_id)).await;
    let cancelled = claimed(w, definition(other)).await;
    w.terminate(other, "stop").await;
    let beats = vec![(lease.clone(), json("\"a\"")), (cancelled, json("1"))];
    let answers = w.store.batch_heartbeat(beats).await.expect("heartbeats");
    let goes_on = HeartbeatResponse {
        accepted: true,
        should_cancel: false,
    };
    let stop = HeartbeatResponse {
        accepted: false,
        should_cancel: true,
    };
    assert_eq!(answers, [goes_on, stop]);
    let task = w.queued(run_id, "a").await.expect("queued");
    assert_eq!(task.heartbeat_details, json("\"a\""));
    assert!(task.heartbeat_at.is_some());
    let answer = w.store.heartbeat_task(&lease, Some(json("\"b\""))).await;
    assert_eq!(answer.expect("heartbeat_task"), goes_on);
    let task = w.queued(run_id, "a").await.expect("queued");
    assert_eq!(task.heartbeat_details, json("\"b\""));
}

async fn stale_tasks_are_reclaimed(w: &World) {
    let run_id = create(w).await;
    let task_id = w.store.enqueue_task(definition(run_id)).await;
    let task_id = task_id.expect("enqueue_task");
    // A lease that ran out decades before the store's own clock.
    let claim = ClaimTasks {
        now: Some(Timestamp::UNIX_EPOCH),
        ..w.new_claim(1)
    };
    assert_eq!(w.store.claim_tasks(claim).await.expect("claim").len(), 1);
    let reclaimed = w.store.reclaim_stale_tasks().await;
    assert_eq!(reclaimed.expect("reclaim_stale_tasks"), [task_id]);
    let none = w.store.reclaim_stale_tasks().await;
    assert_eq!(none.expect("reclaim_stale_tasks"), Vec::<Uuid>::new());
}

async fn signals_wait_until_a_turn_took_them(w: &World) {
    let run_id = create(w).await;
    let signal = |name: &str| WorkflowSignal {
        signal_id: None,
        signal_type: name.into(),
        payload: json("{\"a\":1}"),
        sent_at: Timestamp::UNIX_EPOCH,
    };
    for name in ["a", "b"] {
        let sent = w.store.send_signal(run_id, signal(name)).await;
        sent.expect("send_signal");
    }
    let pending = w.store.get_pending_signals(run_id).await.expect("pending");
    let names: Vec<&str> = pending.iter().map(|s| s.signal_type.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(
        pending[0].sent_at > Timestamp::UNIX_EPOCH,
        "the store's clock"
    );
    w.complete(run_id).await;
    let pending = w.store.get_pending_signals(run_id).await;
    assert_eq!(pending.expect("pending"), []);
    let late = w.store.send_signal(run_id, signal("c")).await;
    assert!(matches!(late, Err(StoreError::RunFinished { .. })));
    let nobody = w.store.send_signal(w.id(), signal("c")).await;
    assert!(matches!(nobody, Err(StoreError::NotFound { .. })));
}

async fn pending_stale_and_overtime_tasks_are_found(w: &World) {
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(w.start_with_tasks(vec![w.task("a")]).await);
        w.advance(Duration::from_secs(10));
    }
    let stale = async |threshold: u64| -> Vec<Uuid> {
        let threshold = Duration::from_secs(threshold);
        let tasks = w.store.find_stale_pending_tasks(threshold, w.instant());
        let tasks = tasks.await.expect("find_stale_pending_tasks");
        tasks.into_iter().map(|task| task.run_id).collect()
    };
    assert_eq!(stale(10).await, waiting, "longest first");
    assert_eq!(stale(20).await, waiting[..1]);
    assert_eq!(stale(21).await, Vec::<Uuid>::new());
    assert_eq!(w.store.count_pending_tasks().await.expect("count"), 2);

    w.claim(2).await;
    let overtime = async || {
        let tasks = w.store.find_overtime_tasks(w.instant()).await;
        tasks.expect("find_overtime_tasks").len()
    };
    w.advance(Duration::from_secs(599));
    assert_eq!(overtime().await, 0);
    w.advance(Duration::from_secs(1));
    assert_eq!(overtime().await, 2);
}
