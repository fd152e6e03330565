//! What activities do once: keys, and results kept under them.

use everruns_durable::Engine;
use everruns_durable::activity::ActivityContext;
use everruns_durable::core::ActivityError;
use serde_json::{Value, json};

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "once":
    what_was_done_once_is_not_done_by_the_next_attempt,
    a_failure_is_not_kept,
    the_first_result_under_a_key_is_everybodys,
    a_key_is_the_same_for_all_attempts_and_for_nothing_else,
}

/// `charge` does its deed once under its key and then fails at its first attempt; `key` tells its key; `named` does its deed under a key
/// from its input.
async fn engine(arena: &Arena, effects: &Effects) -> Engine {
    let (charge, named, key) = (effects.clone(), effects.clone(), effects.clone());
    arena
        .engine(effects)
        .activity_fn("charge", move |ctx: ActivityContext, _: Value| {
            let effects = charge.clone();
            async move {
                let deed = || async {
                    effects.note("charged");
                    Ok(format!("receipt of attempt {}", ctx.attempt))
                };
                let receipt = ctx.run_once(ctx.idempotency_key(), deed).await?;
                if ctx.attempt == 1 {
                    return Err(ActivityError::new("Mail", "the mail was not sent"));
                }
                Ok(receipt)
            }
        })
        .activity_fn("named", move |ctx: ActivityContext, key: String| {
            let effects = named.clone();
            async move {
                let deed = || async {
                    effects.note("tried");
                    if ctx.attempt == 1 {
                        return Err(ActivityError::new("Declined", "not yet"));
                    }
                    Ok(ctx.activity_id.clone())
                };
                ctx.run_once(key, deed).await
            }
        })
        .activity_fn("key", move |ctx: ActivityContext, succeeds_at: u32| {
            let effects = key.clone();
            async move {
                let info = ctx.info();
                assert_eq!(info.idempotency_key, ctx.idempotency_key());
                assert_eq!((info.run_id, info.attempt), (ctx.workflow_id, ctx.attempt));
                effects.note(info.idempotency_key);
                if info.attempt < succeeds_at {
                    return Err(ActivityError::new("Early", "again"));
                }
                Ok(())
            }
        })
        .start()
        .await
        .expect("starts")
}

async fn what_was_done_once_is_not_done_by_the_next_attempt(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).await;
    let script = Script::of([
        Step::tried("charge", json!(0), 3),
        Step::tried("charge", json!(0), 3),
    ]);
    let result = engine.run::<Scripted>(script).await.expect("completes");
    let receipt = "receipt of attempt 1";
    assert_eq!(result, json!([receipt, receipt]));
    assert_eq!(effects.count("charged"), 2, "once for each activity");
    engine.shutdown().await.expect("stops");
}

async fn a_failure_is_not_kept(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).await;
    let script = Script::of([Step::tried("named", json!("deed-1"), 3)]);
    let result = engine.run::<Scripted>(script).await.expect("completes");
    assert_eq!(result, json!(["s0-0"]));
    assert_eq!(effects.count("tried"), 2);
    engine.shutdown().await.expect("stops");
}

async fn the_first_result_under_a_key_is_everybodys(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).await;
    let deed = || Step::tried("named", json!("deed-2"), 3);
    let first = Script::of([deed(), deed()]);
    let first = engine.run::<Scripted>(first).await.expect("completes");
    let second = Script::of([Step::activity("echo", json!(0)), deed()]);
    let second = engine.run::<Scripted>(second).await.expect("completes");
    assert_eq!(first, json!(["s0-0", "s0-0"]));
    assert_eq!(second, json!([0, "s0-0"]), "another run's result");
    assert_eq!(effects.count("tried"), 2);
    engine.shutdown().await.expect("stops");
}

async fn a_key_is_the_same_for_all_attempts_and_for_nothing_else(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).await;
    let key = || Step::tried("key", json!(3), 3);
    let next = Script::of([key()]);
    let script = Script::of([
        key(),
        key(),
        Step::ContinueAsNew {
            script: Box::new(next),
        },
    ]);
    engine.run::<Scripted>(script).await.expect("completes");
    engine.shutdown().await.expect("stops");
    let keys = effects.all();
    assert_eq!(keys.len(), 9, "three activities, three attempts each");
    for attempts in keys.chunks(3) {
        assert_eq!(attempts[0], attempts[1]);
        assert_eq!(attempts[0], attempts[2]);
        assert_eq!(effects.count(&attempts[0]), 3, "nobody else has it");
    }
}
