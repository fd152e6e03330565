//! Local activities: run in the process that takes the turn, outside any transaction.

use std::time::Duration;

use everruns_durable::Engine;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::prelude::*;
use everruns_durable::runtime::Runtime;
use uuid::Uuid;

use super::functions::{Noted, greet, hello};
use super::{Arena, Effects, claims};

claims! { "locals":
    a_local_activity_is_tried_again_as_its_policy_says,
    a_local_activity_without_a_policy_is_tried_once,
    a_crash_within_a_local_activity_runs_it_again_and_records_it_once,
    a_slow_local_activity_delays_no_other_runs_commits,
}

fn engine(arena: &Arena, effects: &Effects) -> EngineBuilder {
    arena
        .engine(effects)
        .workflow::<hello>()
        .workflow::<persistent>()
        .workflow::<slow>()
        .activity(greet)
        .activity(Noted(effects.clone()))
        .activity(Moody(effects.clone()))
        .activity(Slow(effects.clone()))
}

/// Fails until its third attempt.
struct Moody(Effects);

#[async_trait]
impl Activity for Moody {
    const TYPE: &'static str = "moody";
    type Input = ();
    type Output = u32;

    async fn execute(&self, ctx: &ActivityContext, (): ()) -> ActivityResult<u32> {
        self.0.note(format!("attempt {}", ctx.attempt));
        if ctx.attempt < 3 {
            return Err(ActivityError::new("Moody", "not yet"));
        }
        Ok(ctx.attempt)
    }
}

/// Notes that it began, and ends when the gate is open.
struct Slow(Effects);

#[async_trait]
impl Activity for Slow {
    const TYPE: &'static str = "slow";
    type Input = ();
    type Output = ();

    async fn execute(&self, _ctx: &ActivityContext, (): ()) -> ActivityResult<()> {
        self.0.note("slow began");
        self.0.pass_gate().await;
        self.0.note("slow ended");
        Ok(())
    }
}

#[workflow]
async fn persistent(ctx: WorkflowContext, attempts: u32) -> WorkflowResult<u32> {
    let policy = RetryPolicy {
        max_attempts: attempts,
        initial_interval: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    let call = ctx.local_activity::<Moody>(());
    if attempts == 0 {
        return call.await;
    }
    call.retry(policy).await
}

async fn a_local_activity_is_tried_again_as_its_policy_says(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    assert_eq!(engine.run::<persistent>(5).await.expect("completes"), 3);
    assert_eq!(effects.all(), ["attempt 1", "attempt 2", "attempt 3"]);
    let error = engine.run::<persistent>(2).await.expect_err("exhausted");
    assert!(error.failure().expect("why").is("Moody"), "{error}");
    assert_eq!(effects.all().len(), 5);
    engine.shutdown().await.expect("stops");
}

async fn a_local_activity_without_a_policy_is_tried_once(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).start().await.expect("starts");
    let error = engine.run::<persistent>(0).await.expect_err("fails");
    assert!(error.failure().expect("why").is("Moody"), "{error}");
    assert_eq!(effects.all(), ["attempt 1"]);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn slow(ctx: WorkflowContext) -> WorkflowResult<()> {
    ctx.activity::<Noted>("before".to_owned()).await?;
    ctx.local_activity::<Slow>(())
        .start_to_close(Duration::from_secs(60))
        .await?;
    ctx.activity::<Noted>("after".to_owned()).await?;
    Ok(())
}

async fn recorded(engine: &Engine, run_id: Uuid) -> usize {
    let history = engine.client().history(run_id).await.expect("there");
    let locals = history
        .events
        .iter()
        .filter(|event| event.event.event_type() == "local_activity.completed");
    locals.count()
}

async fn a_crash_within_a_local_activity_runs_it_again_and_records_it_once(arena: &Arena) {
    let effects = Effects::new();
    let runtime = Runtime::real();
    let first = engine(arena, &effects).runtime(runtime.clone());
    let first = first.start().await.expect("starts");
    let run = first.client().start::<slow>(()).await.expect("starts");
    effects.reached("slow began", 1).await;
    runtime.kill();
    let second = engine(arena, &effects).start().await.expect("starts");
    // Nothing was recorded of it, so it is run again.
    effects.reached("slow began", 2).await;
    effects.open_gate();
    let run = second.client().run::<slow>(run.id());
    run.result().await.expect("completes");
    assert_eq!(recorded(&second, run.id()).await, 1);
    assert_eq!(effects.count("after"), 1);
    drop(first);
    second.shutdown().await.expect("stops");
}

async fn a_slow_local_activity_delays_no_other_runs_commits(arena: &Arena) {
    let effects = Effects::new();
    // One committer: it must not be the one who waits.
    let engine = engine(arena, &effects).configure(|settings| settings.turns.committers = 1);
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start::<slow>(()).await.expect("starts");
    effects.reached("slow began", 1).await;
    for _ in 0..20 {
        let answer = engine.run::<hello>("World".to_owned()).await;
        assert_eq!(answer.expect("completes"), "Hello, World!");
    }
    assert_eq!(effects.count("slow ended"), 0);
    effects.open_gate();
    run.result().await.expect("completes");
    assert_eq!(recorded(&engine, run.id()).await, 1);
    engine.shutdown().await.expect("stops");
}
