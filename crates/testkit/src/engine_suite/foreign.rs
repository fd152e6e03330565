//! Workflows that wait for something no fact brings, and what those who wait for them are told.

use std::time::Duration;

use everruns_durable::Engine;
use everruns_durable::client::RunHandle;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::persistence::model::Blocked;
use everruns_durable::prelude::*;

use super::functions::{greet, hello};
use super::{Arena, Effects, claims};

claims! { "foreign":
    a_foreign_await_beside_a_durable_one_blocks_the_run,
    a_foreign_wake_is_noticed_before_the_next_fact,
    whoever_waits_for_a_blocked_run_is_told_and_why,
    a_blocked_run_is_waited_for_where_another_build_can_go_on,
}

fn engine(arena: &Arena) -> EngineBuilder {
    arena
        .engine(&Effects::new())
        .workflow::<hello>()
        .workflow::<joined>()
        .workflow::<raced>()
        .activity(greet)
}

#[workflow]
async fn joined(ctx: WorkflowContext) -> WorkflowResult<()> {
    let foreign = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(())
    };
    try_join!(ctx.sleep(Duration::from_millis(20)), foreign)?;
    Ok(())
}

#[workflow]
async fn raced(ctx: WorkflowContext) -> WorkflowResult<String> {
    select! {
        () = tokio::time::sleep(Duration::from_millis(1)) => Ok("foreign".to_owned()),
        signal = ctx.signal("go") => signal,
    }
}

/// Another run's turns pass the time.
async fn blocked<W>(engine: &Engine, run: &RunHandle<W>) -> Blocked {
    loop {
        let answer = engine.run::<hello>("World".to_owned()).await;
        answer.expect("completes");
        if let Some(blocked) = run.get().await.expect("there").blocked {
            return blocked;
        }
    }
}

async fn a_foreign_await_beside_a_durable_one_blocks_the_run(arena: &Arena) {
    let engine = engine(arena).start().await.expect("starts");
    let run = engine.client().start::<joined>(()).await.expect("starts");
    let blocked = blocked(&engine, &run).await;
    assert!(blocked.reason.contains("ctx.sleep"), "{}", blocked.reason);
    assert!(blocked.reason.contains("foreign.rs:"), "{}", blocked.reason);
    engine.shutdown().await.expect("stops");
}

async fn a_foreign_wake_is_noticed_before_the_next_fact(arena: &Arena) {
    let engine = engine(arena).start().await.expect("starts");
    let run = engine.client().start::<raced>(()).await.expect("starts");
    if arena.always_replay {
        // Nothing of the program is left between two turns that could be woken, and no replay takes the foreign branch.
        run.signal("go", "signal").await.expect("sends");
        assert_eq!(run.result().await.expect("completes"), "signal");
    } else {
        let blocked = blocked(&engine, &run).await;
        assert!(blocked.reason.contains("ctx.sleep"), "{}", blocked.reason);
    }
    engine.shutdown().await.expect("stops");
}

async fn whoever_waits_for_a_blocked_run_is_told_and_why(arena: &Arena) {
    let engine = engine(arena).start().await.expect("starts");
    let run = engine.client().start::<joined>(()).await.expect("starts");
    let error = run.result().await.expect_err("it cannot go on");
    assert!(error.is_blocked() && !error.is_retryable(), "{error}");
    assert_eq!(error.run_id(), Some(run.id()));
    assert!(error.to_string().contains("ctx.sleep"), "{error}");
    let update = run.update("any", &()).await_result::<()>().await;
    let error = update.expect_err("nobody takes it");
    assert!(error.is_blocked(), "{error}");
    engine.shutdown().await.expect("stops");
}

/// The same type, mended.
#[workflow(name = "joined")]
async fn mended(ctx: WorkflowContext) -> WorkflowResult<()> {
    ctx.sleep(Duration::from_millis(20)).await
}

async fn a_blocked_run_is_waited_for_where_another_build_can_go_on(arena: &Arena) {
    let old = engine(arena).build_id("old").start().await.expect("starts");
    let run = old.client().start::<joined>(()).await.expect("starts");
    let error = run.result().await.expect_err("it cannot go on");
    assert!(error.is_blocked(), "{error}");
    let new = arena.engine(&Effects::new()).workflow::<mended>();
    let new = new.build_id("new").start().await.expect("starts");
    let run = new.client().run::<mended>(run.id());
    run.result().await.expect("completes");
    old.shutdown().await.expect("stops");
    new.shutdown().await.expect("stops");
}
