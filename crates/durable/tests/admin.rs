//! What operators ask: why a run waits, how its queues do.

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::admin::{HealthStatus, LedgerReader, Wait};
use everruns_durable::core::WorkflowEvent;
use everruns_durable::persistence::model::TaskStatus;
use everruns_durable::prelude::*;
use tokio::sync::Notify;
use uuid::Uuid;

#[activity]
async fn double(_ctx: ActivityContext, n: u64) -> ActivityResult<u64> {
    Ok(n * 2)
}

#[activity]
async fn stumble(_ctx: ActivityContext, _input: ()) -> ActivityResult<()> {
    Err(ActivityError::new("Stumbled", "over itself"))
}

#[workflow]
async fn doubling(ctx: WorkflowContext, n: u64) -> WorkflowResult<u64> {
    ctx.activity::<double>(n).await
}

#[workflow]
async fn stumbling(ctx: WorkflowContext, policy: RetryPolicy) -> WorkflowResult<()> {
    let call = ctx.activity::<stumble>(()).retry(policy);
    call.on_exhausted(ExhaustedPolicy::Park).await
}

#[workflow]
async fn unheard(ctx: WorkflowContext, _input: ()) -> WorkflowResult<()> {
    ctx.activity_named("nobody_has_it", ()).await
}

#[workflow]
async fn waiting(ctx: WorkflowContext, _input: ()) -> WorkflowResult<()> {
    let child = ctx.child::<patient>(());
    let sleep = ctx.sleep(Duration::from_secs(3_600));
    let signal = ctx.signal::<()>("go");
    let (child, slept, told) = join!(child, sleep, signal);
    child.and(slept).and(told)
}

#[workflow]
async fn patient(ctx: WorkflowContext, _input: ()) -> WorkflowResult<()> {
    ctx.signal::<()>("never").await
}

#[workflow]
async fn collecting(ctx: WorkflowContext, _input: ()) -> WorkflowResult<()> {
    let items = ctx.state(Vec::<u64>::new());
    let (told, plain) = (items.clone(), items);
    let enough = move || told.with(|items| items.len() >= 3);
    let some = move || plain.with(|items| !items.is_empty());
    let enough = ctx.until(enough).described("three items");
    let (enough, some) = join!(enough, ctx.until(some));
    enough.and(some)
}

/// Looks until what the run waits for satisfies the test.
async fn until(client: &Client, run: Uuid, enough: impl Fn(&[Wait]) -> bool) -> Vec<Wait> {
    loop {
        let why = client.why(run).await.unwrap();
        if enough(&why.waits) {
            return why.waits;
        }
        tokio::task::yield_now().await;
    }
}

fn activity_in(waits: &[Wait], status: TaskStatus) -> bool {
    matches!(waits, [Wait::Activity(wait)] if wait.status == status)
}

#[tokio::test]
async fn timers_signals_and_children_are_all_named() {
    let engine = Engine::in_memory()
        .workflow::<waiting>()
        .workflow::<patient>()
        .start()
        .await
        .unwrap();
    let client = engine.client();
    let run = client.start::<waiting>(()).await.unwrap();
    let waits = until(&client, run.id(), |waits| {
        waits.len() == 3
            && waits.iter().any(|wait| {
                matches!(
                    wait,
                    Wait::Child {
                        status: Some(_),
                        ..
                    }
                )
            })
    })
    .await;
    assert!(
        waits.iter().any(|wait| matches!(
            wait,
            Wait::Timer {
                fires_at: Some(_),
                ..
            }
        )),
        "{waits:?}"
    );
    assert!(
        waits.contains(&Wait::Signal {
            name: "go".to_owned()
        }),
        "{waits:?}"
    );
    let why = client.why(run.id()).await.unwrap();
    assert!(why.code.is_some_and(|code| code.contains("admin.rs:")));
}

#[tokio::test]
async fn conditions_are_told_as_the_code_describes_them() {
    let engine = Engine::in_memory().workflow::<collecting>();
    let engine = engine.start().await.unwrap();
    let client = engine.client();
    let run = client.start::<collecting>(()).await.unwrap();
    let waits = until(&client, run.id(), |waits| {
        !matches!(waits, [] | [Wait::Turn { .. }])
    });
    let waits = waits.await;
    let what = Some("three items".to_owned());
    assert_eq!(
        waits,
        [Wait::Condition { what }, Wait::Condition { what: None }]
    );
    assert_eq!(waits[0].to_string(), "three items");
}

#[tokio::test]
async fn where_the_code_cannot_be_asked_that_is_said_beside_what_is_known() {
    let engine = Engine::in_memory()
        .workflow::<waiting>()
        .workflow::<patient>()
        .start()
        .await
        .unwrap();
    let run = engine.client().start::<waiting>(()).await.unwrap();
    until(&engine.client(), run.id(), |waits| waits.len() == 3).await;
    let elsewhere = Client::on(Arc::clone(engine.client().store()));
    let waits = elsewhere.why(run.id()).await.unwrap().waits;
    assert!(
        waits.iter().any(|wait| matches!(wait, Wait::Timer { .. })),
        "{waits:?}"
    );
    let Some(Wait::Unknown { reason }) = waits.last() else {
        panic!("{waits:?}");
    };
    assert_eq!(reason, "workflow \"waiting\" is not hosted here");
}

#[tokio::test]
async fn activity_that_runs_names_its_worker_and_attempt() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (seen, gate) = (Arc::clone(&begun), Arc::clone(&go_on));
    let engine = Engine::in_memory()
        .workflow::<doubling>()
        .activity_fn("double", move |_ctx, n: u64| {
            let (seen, gate) = (Arc::clone(&seen), Arc::clone(&gate));
            async move {
                seen.notify_one();
                gate.notified().await;
                Ok(n * 2)
            }
        })
        .start()
        .await
        .unwrap();
    let client = engine.client();
    let run = client.start::<doubling>(4).await.unwrap();
    begun.notified().await;
    let waits = until(&client, run.id(), |waits| {
        activity_in(waits, TaskStatus::Claimed)
    })
    .await;
    let Wait::Activity(wait) = &waits[0] else {
        unreachable!()
    };
    assert_eq!(
        (wait.attempt, wait.claimed_by.as_deref()),
        (1, Some(engine.worker_id()))
    );
    assert!(
        waits[0].to_string().contains("attempt 1 of 3 runs on"),
        "{}",
        waits[0]
    );
    go_on.notify_one();
    assert_eq!(run.result().await.unwrap(), 8);
    let why = client.why(run.id()).await.unwrap();
    assert!(matches!(why.waits[..], [Wait::Ended { .. }]));
}

#[tokio::test]
async fn retry_says_when_and_dead_letter_says_which() {
    let engine = Engine::in_memory()
        .workflow::<stumbling>()
        .activity(stumble)
        .start()
        .await
        .unwrap();
    let client = engine.client();
    let slow = RetryPolicy {
        initial_interval: Duration::from_secs(3_600),
        max_interval: Duration::from_secs(3_600),
        ..RetryPolicy::default()
    };
    let run = client.start::<stumbling>(slow).await.unwrap();
    let waits = until(&client, run.id(), |waits| {
        activity_in(waits, TaskStatus::Delayed)
    })
    .await;
    let Wait::Activity(wait) = &waits[0] else {
        unreachable!()
    };
    assert_eq!(wait.attempt, 2);
    assert!(wait.next_at.is_some());
    assert_eq!(wait.last_error.as_ref().unwrap().error_type, "Stumbled");

    let run = client
        .start::<stumbling>(RetryPolicy::never())
        .await
        .unwrap();
    let waits = until(&client, run.id(), |waits| {
        activity_in(waits, TaskStatus::Dead)
    })
    .await;
    let letters = client
        .list_dead_letters(Default::default(), Page::default())
        .await
        .unwrap();
    let sentence = waits[0].to_string();
    assert!(sentence.contains(&letters[0].id.to_string()), "{sentence}");
}

#[tokio::test]
async fn what_nobody_hosts_is_said_to_be_hosted_by_nobody() {
    let engine = Engine::in_memory()
        .workflow::<unheard>()
        .activity(double)
        .start()
        .await
        .unwrap();
    let client = engine.client();
    let run = client.start::<unheard>(()).await.unwrap();
    let waits = until(&client, run.id(), |waits| {
        activity_in(waits, TaskStatus::Pending)
    })
    .await;
    assert!(
        waits[0]
            .to_string()
            .contains("no live worker runs this type"),
        "{}",
        waits[0]
    );
    let run = client
        .start_named("nobody_knows_it", Payload::null())
        .await
        .unwrap();
    let waits = until(&client, run.id(), |waits| !waits.is_empty()).await;
    assert!(
        matches!(waits[..], [Wait::Turn { hosted: false, .. }]),
        "{waits:?}"
    );
    let health = client.system_health(Duration::from_secs(60)).await.unwrap();
    assert_eq!((health.pending_tasks, health.pending_workflows), (1, 1));
    assert_eq!(health.queue_depth_by_type["nobody_has_it"], 1);
    assert_eq!(
        health.status,
        HealthStatus::Healthy,
        "a worker takes tasks, if not these"
    );
}

#[tokio::test]
async fn statistics_are_what_the_events_say() {
    let engine = Engine::in_memory()
        .workflow::<doubling>()
        .workflow::<stumbling>()
        .activity(double)
        .activity(stumble)
        .start()
        .await
        .unwrap();
    let client = engine.client();
    let mut runs = Vec::new();
    for n in 0..7 {
        runs.push(client.start::<doubling>(n).await.unwrap());
    }
    let (mut completed, mut took_ms) = (0, 0);
    for run in &runs {
        run.result().await.unwrap();
        let mut started = None;
        for event in client.history(run.id()).await.unwrap().events {
            match event.event {
                WorkflowEvent::ActivityStarted { started_at, .. } => started = started_at,
                WorkflowEvent::ActivityCompleted { .. } => {
                    completed += 1;
                    let took =
                        event.created_at.as_millisecond() - started.unwrap().as_millisecond();
                    took_ms += u64::try_from(took).unwrap();
                }
                _ => {}
            }
        }
    }
    let now = client.store().clock(None).await.unwrap();
    let ledger = LedgerReader::default()
        .read(&**client.store(), now)
        .await
        .unwrap();
    let totals = ledger.totals();
    assert_eq!(
        (totals.tasks_completed, totals.tasks_failed),
        (completed, 0)
    );
    assert_eq!(
        (totals.workflows_completed, totals.workflows_failed),
        (7, 0)
    );
    let stats = client.task_stats().await.unwrap();
    let double = &stats.by_activity_type["double"];
    assert_eq!(
        (double.completed_last_hour, double.failed_last_hour),
        (completed, 0)
    );
    // Each instant is cut to a millisecond on one side and not on the other, so each of them may be off by one.
    let mean = took_ms as f64 / completed as f64;
    assert!(
        (double.avg_duration_ms - mean).abs() <= 1.0,
        "{} {mean}",
        double.avg_duration_ms
    );
}
