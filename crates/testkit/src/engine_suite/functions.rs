//! Workflows as async functions: what users write most.

use std::time::Duration;

use everruns_durable::engine::EngineBuilder;
use everruns_durable::persistence::model::WorkflowStatus;
use everruns_durable::prelude::*;

use uuid::Uuid;

use super::{Arena, Effects, claims};

claims! { "functions":
    hello_world_greets,
    branches_run_beside_each_other_and_answer_in_call_order,
    a_failed_branch_gives_up_the_others,
    the_first_of_a_race_wins_and_the_loser_is_cancelled,
    a_timeout_leaves_the_late_signal_to_the_next_wait,
    a_side_effect_and_the_clock_are_the_same_after_every_step,
    a_query_sees_the_state_of_a_live_and_of_a_finished_run,
    an_update_is_checked_applied_and_answered,
    a_cancelled_run_cleans_up_and_ends_cancelled,
    a_continued_run_finds_its_unread_signals,
    a_child_that_is_dropped_is_cancelled,
    an_abandoned_child_outlives_its_parent,
    a_local_activity_is_recorded_and_not_run_again,
    a_local_activity_past_its_time_fails,
    a_saga_undoes_its_steps_in_reverse_order,
    awaiting_something_foreign_blocks_the_run,
    a_scope_is_abandoned_by_a_signal,
}

#[activity]
pub(super) async fn greet(name: String) -> ActivityResult<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow]
pub(super) async fn hello(ctx: WorkflowContext, name: String) -> WorkflowResult<String> {
    ctx.activity::<greet>(name).await
}

fn engine(arena: &Arena, effects: &Effects) -> EngineBuilder {
    arena
        .engine(effects)
        .workflow::<hello>()
        .workflow::<fan_out>()
        .workflow::<fail_fast>()
        .workflow::<race>()
        .workflow::<patient>()
        .workflow::<stable>()
        .workflow::<account>()
        .workflow::<tidy>()
        .workflow::<collector>()
        .workflow::<sleeper>()
        .workflow::<impatient_parent>()
        .workflow::<leaving_parent>()
        .workflow::<with_local>()
        .workflow::<with_slow_local>()
        .workflow::<booking>()
        .workflow::<foreign>()
        .workflow::<watched>()
        .activity(greet)
        .activity(Noted(effects.clone()))
        .activity(Gate(effects.clone()))
        .activity(Never)
        .activity(Fails)
}

/// Notes that it ran, and answers what it was given.
pub(super) struct Noted(pub(super) Effects);

#[async_trait]
impl Activity for Noted {
    const TYPE: &'static str = "noted";
    type Input = String;
    type Output = String;

    async fn execute(&self, _ctx: &ActivityContext, text: String) -> ActivityResult<String> {
        self.0.note(text.clone());
        Ok(text)
    }
}

/// Runs until it is cancelled, and notes both.
pub(super) struct Gate(pub(super) Effects);

#[async_trait]
impl Activity for Gate {
    const TYPE: &'static str = "gate";
    type Input = ();
    type Output = ();

    async fn execute(&self, ctx: &ActivityContext, (): ()) -> ActivityResult<()> {
        self.0.note("gate began");
        ctx.cancelled().await;
        self.0.note("gate stopped");
        Err(ActivityError::new("Stopped", "asked to"))
    }
}

/// Never answers.
pub(super) struct Never;

#[async_trait]
impl Activity for Never {
    const TYPE: &'static str = "never";
    type Input = ();
    type Output = ();

    async fn execute(&self, _ctx: &ActivityContext, (): ()) -> ActivityResult<()> {
        std::future::pending().await
    }
}

/// Fails for good.
pub(super) struct Fails;

#[async_trait]
impl Activity for Fails {
    const TYPE: &'static str = "fails";
    type Input = String;
    type Output = ();

    async fn execute(&self, _ctx: &ActivityContext, message: String) -> ActivityResult<()> {
        Err(ActivityError::new("Refused", message).non_retryable())
    }
}

async fn hello_world_greets(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let answer = engine.run::<hello>("World".to_owned()).await;
    assert_eq!(answer.expect("completes"), "Hello, World!");
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn fan_out(ctx: WorkflowContext, names: Vec<String>) -> WorkflowResult<Vec<String>> {
    try_join_all(names.into_iter().map(|name| ctx.activity::<Noted>(name))).await
}

async fn branches_run_beside_each_other_and_answer_in_call_order(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
    let answer = engine.run::<fan_out>(names.clone()).await;
    assert_eq!(answer.expect("completes"), names);
    assert!(names.iter().all(|name| effects.count(name) == 1));
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn fail_fast(ctx: WorkflowContext) -> WorkflowResult<()> {
    let outcome = try_join!(ctx.activity::<Gate>(()), async {
        ctx.signal::<()>("fail").await?;
        ctx.activity::<Fails>("no".to_owned()).await
    });
    outcome.map(|_| ())
}

async fn a_failed_branch_gives_up_the_others(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine
        .client()
        .start::<fail_fast>(())
        .await
        .expect("starts");
    effects.reached("gate began", 1).await;
    run.signal("fail", &()).await.expect("sends");
    let error = run.result().await.expect_err("fails");
    assert!(error.failure().expect("a failure").is("Refused"), "{error}");
    effects.reached("gate stopped", 1).await;
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn race(ctx: WorkflowContext) -> WorkflowResult<String> {
    select! {
        ran = ctx.activity::<Gate>(()) => ran.map(|()| "gate".to_owned()),
        signal = ctx.signal::<String>("go") => signal,
        slept = ctx.sleep("PT1H") => slept.map(|()| "time".to_owned()),
    }
}

async fn the_first_of_a_race_wins_and_the_loser_is_cancelled(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<race>(()).await.expect("starts");
    effects.reached("gate began", 1).await;
    run.signal("go", "signal").await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), "signal");
    effects.reached("gate stopped", 1).await;
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn patient(ctx: WorkflowContext) -> WorkflowResult<(Option<u32>, u32)> {
    let early = ctx.signal("n").timeout(Duration::from_millis(1)).await?;
    ctx.activity::<Noted>("timed out".to_owned()).await?;
    let late = ctx.signal("n").await?;
    Ok((early, late))
}

async fn a_timeout_leaves_the_late_signal_to_the_next_wait(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<patient>(()).await.expect("starts");
    effects.reached("timed out", 1).await;
    run.signal("n", &7).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), (None, 7));
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn stable(ctx: WorkflowContext) -> WorkflowResult<bool> {
    let before = (
        ctx.now(),
        ctx.uuid(),
        ctx.random_u64(),
        ctx.side_effect(std::process::id)?,
    );
    let text = format!("{before:?}");
    let mut same = true;
    for _ in 0..3 {
        let told = ctx.activity::<Noted>(text.clone()).await?;
        same &= told == format!("{before:?}");
    }
    Ok(same && ctx.now() >= before.0)
}

async fn a_side_effect_and_the_clock_are_the_same_after_every_step(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    assert!(engine.run::<stable>(()).await.expect("completes"));
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn account(ctx: WorkflowContext, opening: i64) -> WorkflowResult<i64> {
    let balance = ctx.state(opening);
    let seen = balance.clone();
    ctx.on_query("balance", move |()| seen.get());
    let (of_update, inner) = (balance.clone(), ctx.clone());
    ctx.on_update("deposit", move |amount: i64| {
        let (balance, ctx) = (of_update.clone(), inner.clone());
        async move {
            ctx.activity::<Noted>(format!("deposit {amount}")).await?;
            Ok(balance.update(|total| {
                *total += amount;
                *total
            }))
        }
    })
    .validate(|amount| {
        if *amount > 0 {
            Ok(())
        } else {
            Err(WorkflowError::new("NotPositive", "must be positive"))
        }
    });
    ctx.signal::<()>("close").await?;
    Ok(balance.get())
}

async fn a_query_sees_the_state_of_a_live_and_of_a_finished_run(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let run = engine.client().start::<account>(5).await.expect("starts");
    assert_eq!(run.query::<i64>("balance", &()).await.expect("answers"), 5);
    let error = run.query::<i64>("colour", &()).await.expect_err("none");
    assert!(error.is_query_not_found(), "{error}");
    let update = engine.client().update(run.id(), "deposit", &3);
    assert_eq!(update.await_result::<i64>().await.expect("answers"), 8);
    assert_eq!(run.query::<i64>("balance", &()).await.expect("answers"), 8);
    run.signal("close", &()).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), 8);
    assert_eq!(run.query::<i64>("balance", &()).await.expect("answers"), 8);
    engine.shutdown().await.expect("stops");
}

async fn an_update_is_checked_applied_and_answered(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let client = engine.client();
    let run = client.start::<account>(0).await.expect("starts");
    let refused = client
        .update(run.id(), "deposit", &-1)
        .await_result::<i64>()
        .await;
    let error = refused.expect_err("refused");
    assert!(error.failure().expect("why").is("NotPositive"), "{error}");
    let unknown = client
        .update(run.id(), "withdraw", &1)
        .await_result::<i64>()
        .await;
    let error = unknown.expect_err("refused");
    assert!(error.to_string().contains("deposit"), "{error}");
    let history = client.history(run.id()).await.expect("there");
    let updates = history
        .events
        .iter()
        .filter(|event| event.event.event_type().starts_with("update."));
    assert_eq!(updates.count(), 0, "a refused update leaves no trace");
    let update = client.update(run.id(), "deposit", &3);
    assert_eq!(update.await_result::<i64>().await.expect("answers"), 3);
    assert_eq!(effects.count("deposit 3"), 1);
    run.signal("close", &()).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), 3);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn tidy(ctx: WorkflowContext) -> WorkflowResult<()> {
    match ctx.activity::<Gate>(()).await {
        Err(error) if error.is_cancelled() => {
            ctx.activity::<Noted>("cleaned".to_owned()).await?;
            Err(error)
        }
        other => other,
    }
}

async fn a_cancelled_run_cleans_up_and_ends_cancelled(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<tidy>(()).await.expect("starts");
    effects.reached("gate began", 1).await;
    run.cancel("enough").await.expect("sends");
    let ended = run.ended().await.expect("there");
    assert_eq!(ended.status, WorkflowStatus::Cancelled);
    assert_eq!(effects.count("cleaned"), 1);
    effects.reached("gate stopped", 1).await;
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn collector(ctx: WorkflowContext, mut seen: Vec<u32>) -> WorkflowResult<Vec<u32>> {
    let n: u32 = ctx.signal("n").await?;
    seen.push(n);
    if seen.len() == 3 {
        return Ok(seen);
    }
    ctx.activity::<Noted>(format!("iteration {}", ctx.info().iteration))
        .await?;
    ctx.continue_as_new(seen)
}

async fn a_continued_run_finds_its_unread_signals(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine
        .client()
        .start::<collector>(vec![])
        .signal("n", &1)
        .signal("n", &2)
        .signal("n", &3)
        .await
        .expect("starts");
    assert_eq!(run.result().await.expect("completes"), [1, 2, 3]);
    assert_eq!(effects.count("iteration 1"), 1);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn sleeper(ctx: WorkflowContext) -> WorkflowResult<()> {
    // A request to stop may come at either of these.
    let slept = match ctx.activity::<Noted>("child began".to_owned()).await {
        Ok(_) => ctx.signal::<()>("wake").await,
        Err(error) => Err(error),
    };
    let note = if slept.is_ok() {
        "child woken"
    } else {
        "child stopped"
    };
    ctx.activity::<Noted>(note.to_owned()).await?;
    slept
}

#[workflow]
async fn impatient_parent(ctx: WorkflowContext) -> WorkflowResult<String> {
    select! {
        ended = ctx.child::<sleeper>(()) => ended.map(|()| "child".to_owned()),
        signal = ctx.signal::<String>("go") => signal,
    }
}

async fn a_child_that_is_dropped_is_cancelled(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<impatient_parent>(()).await;
    let run = run.expect("starts");
    effects.reached("child began", 1).await;
    run.signal("go", "on").await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), "on");
    effects.reached("child stopped", 1).await;
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn leaving_parent(ctx: WorkflowContext) -> WorkflowResult<Uuid> {
    let child = ctx.child::<sleeper>(()).detach()?;
    ctx.activity::<Noted>("parent left".to_owned()).await?;
    Ok(child)
}

async fn an_abandoned_child_outlives_its_parent(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let child = engine.run::<leaving_parent>(()).await.expect("completes");
    effects.reached("child began", 1).await;
    let child = engine.client().run::<sleeper>(child);
    child.signal("wake", &()).await.expect("sends");
    child.result().await.expect("completes");
    assert_eq!(effects.count("child woken"), 1);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn with_local(ctx: WorkflowContext) -> WorkflowResult<String> {
    let a = ctx.local_activity::<Noted>("local".to_owned()).await?;
    let b = ctx.activity::<Noted>("queued".to_owned()).await?;
    let c = ctx.local_activity::<Noted>("again".to_owned()).await?;
    Ok(format!("{a} {b} {c}"))
}

async fn a_local_activity_is_recorded_and_not_run_again(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let answer = engine.run::<with_local>(()).await.expect("completes");
    assert_eq!(answer, "local queued again");
    for name in ["local", "queued", "again"] {
        assert_eq!(effects.count(name), 1, "{name}");
    }
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn with_slow_local(ctx: WorkflowContext) -> WorkflowResult<()> {
    ctx.local_activity::<Never>(())
        .start_to_close(Duration::from_millis(1))
        .await
}

async fn a_local_activity_past_its_time_fails(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let error = engine.run::<with_slow_local>(()).await.expect_err("fails");
    let failure = error.failure().expect("a failure");
    assert!(failure.is("StartToCloseTimeout"), "{error}");
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn booking(ctx: WorkflowContext) -> WorkflowResult<()> {
    let saga = ctx.saga();
    saga.run(async {
        for step in ["flight", "hotel"] {
            ctx.activity::<Noted>(step.to_owned()).await?;
            saga.compensate_with::<Noted>(format!("undo {step}"));
        }
        ctx.activity::<Fails>("no cars".to_owned()).await
    })
    .await
}

async fn a_saga_undoes_its_steps_in_reverse_order(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let error = engine.run::<booking>(()).await.expect_err("fails");
    assert!(error.failure().expect("a failure").is("Refused"), "{error}");
    let notes = effects.all();
    assert_eq!(notes, ["flight", "hotel", "undo hotel", "undo flight"]);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn foreign(_ctx: WorkflowContext) -> WorkflowResult<()> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(())
}

async fn awaiting_something_foreign_blocks_the_run(arena: &Arena) {
    let engine = engine(arena, &Effects::new())
        .start()
        .await
        .expect("starts");
    let run = engine.client().start::<foreign>(()).await.expect("starts");
    let blocked = loop {
        // Another run's turns pass the time.
        let answer = engine.run::<hello>("World".to_owned()).await;
        answer.expect("completes");
        if let Some(blocked) = run.get().await.expect("there").blocked {
            break blocked;
        }
    };
    assert!(blocked.reason.contains("ctx.sleep"), "{}", blocked.reason);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn watched(ctx: WorkflowContext) -> WorkflowResult<bool> {
    let scope = ctx.scope();
    let abort = scope.clone();
    ctx.on_signal("abort", move |(): ()| abort.cancel());
    let finished = scope.run(ctx.activity::<Gate>(())).await;
    Ok(finished.is_some())
}

async fn a_scope_is_abandoned_by_a_signal(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let run = engine.client().start::<watched>(()).await.expect("starts");
    effects.reached("gate began", 1).await;
    run.signal("abort", &()).await.expect("sends");
    assert!(!run.result().await.expect("completes"));
    effects.reached("gate stopped", 1).await;
    engine.shutdown().await.expect("stops");
}
