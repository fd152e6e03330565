//! Async workflows where the world around them is the difficulty: a used-up budget, a host that does not answer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use everruns_durable::Client;
use everruns_durable::core::{Fact, Timestamp, WorkflowAction};
use everruns_durable::persistence::model::{WorkerInfo, WorkerStatus};
use everruns_durable::persistence::{MemoryStore, WorkflowEventStore};
use everruns_durable::prelude::*;
use everruns_durable::workflow::{Birth, Program, WorkflowDefinition};
use serde_json::json;
use uuid::Uuid;

fn birth() -> Birth {
    Birth {
        info: RunInfo {
            run_id: Uuid::from_u128(1),
            workflow_type: "any".to_owned(),
            version: String::new(),
            parent_run_id: None,
            attempt: 1,
            iteration: 0,
            workflow_id: None,
            memo: Payload::ABSENT,
        },
        clock: Arc::new(|| Timestamp::UNIX_EPOCH),
    }
}

/// Takes a fact in a task whose budget is used up, as at the end of a large set of turns.
async fn take_without_budget(program: &mut dyn Program, fact: Fact) -> Vec<WorkflowAction> {
    let taken = poll_fn(|cx| {
        while tokio::task::coop::has_budget_remaining() {
            assert!(pin!(tokio::task::consume_budget()).poll(cx).is_ready());
        }
        Poll::Ready(program.apply(&fact))
    });
    taken.await.expect("it goes on")
}

#[workflow]
async fn racing(ctx: WorkflowContext) -> WorkflowResult<String> {
    let inner = ctx.clone();
    ctx.on_update("race", move |(): ()| {
        let ctx = inner.clone();
        async move {
            select! {
                slept = ctx.sleep("PT1H") => slept,
                signal = ctx.signal::<()>("never") => signal,
            }
        }
    });
    select! {
        signal = ctx.signal::<String>("go") => signal,
        slept = ctx.sleep("PT1H") => slept.map(|()| "slept".to_owned()),
    }
}

#[tokio::test]
async fn race_is_run_though_the_budget_of_the_task_is_used_up() {
    let mut program = racing::program(birth());
    let input = Payload::null();
    let actions = take_without_budget(&mut *program, Fact::Started { input }).await;
    assert!(
        matches!(&actions[..], [WorkflowAction::StartTimer { timer_id, .. }] if timer_id == "1"),
        "{actions:?}"
    );
    let update = Fact::UpdateAccepted {
        update_id: "u".to_owned(),
        name: "race".to_owned(),
        input: Payload::null(),
    };
    let actions = take_without_budget(&mut *program, update).await;
    assert!(
        matches!(&actions[..], [WorkflowAction::StartTimer { timer_id, .. }] if timer_id == "2"),
        "{actions:?}"
    );
    let fired = Fact::TimerFired {
        timer_id: "1".to_owned(),
    };
    let actions = take_without_budget(&mut *program, fired).await;
    assert!(
        matches!(
            actions.last(),
            Some(WorkflowAction::CompleteWorkflow { .. })
        ),
        "{actions:?}"
    );
}

/// A process that says it hosts the workflow and does nothing.
fn idle_host(now: Timestamp) -> WorkerInfo {
    WorkerInfo {
        id: "idle".to_owned(),
        worker_group: "default".to_owned(),
        activity_types: Vec::new(),
        max_concurrency: 1,
        current_load: 0,
        status: WorkerStatus::Active,
        accepting_tasks: true,
        backpressure_reason: None,
        started_at: now,
        last_heartbeat_at: now,
        hostname: None,
        version: None,
        metadata: Payload::from_value(&json!({ "workflow_types": ["racing"] })).expect("JSON"),
        tasks_completed: 0,
        tasks_failed: 0,
        avg_task_duration_ms: 0.0,
    }
}

#[tokio::test(start_paused = true)]
async fn question_that_its_host_does_not_answer_ends() {
    let store = Arc::new(MemoryStore::new());
    let now = store.clock(None).await.expect("it has one");
    let registered = store.register_worker(idle_host(now), None).await;
    registered.expect("registers");
    let client = Client::on(store);
    let run = client.start::<racing>(()).await.expect("starts");
    let error = run
        .query::<()>("any", &())
        .await
        .expect_err("nobody answers");
    assert!(error.is_retryable(), "{error}");
    assert_eq!(error.run_id(), Some(run.id()));
}
