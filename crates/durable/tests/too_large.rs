//! What a workflow asks for and no store keeps fails its run, with a type.

use everruns_durable::persistence::limits::{
    ATTRIBUTES_MAX, HISTORY_READ_BYTES_MAX, PAYLOAD_BYTES_MAX,
};
use everruns_durable::persistence::model::WorkflowStatus;
use everruns_durable::prelude::*;

#[activity]
async fn swallow(_ctx: ActivityContext, _text: String) -> ActivityResult<()> {
    Ok(())
}

/// Brings a payload that is too large to a place.
#[workflow]
async fn too_much(ctx: WorkflowContext, place: String) -> WorkflowResult<String> {
    let text = "x".repeat(PAYLOAD_BYTES_MAX);
    ctx.activity::<swallow>("small".to_owned()).await?;
    if place == "an activity" {
        ctx.activity::<swallow>(text.clone()).await?;
    }
    if place == "the next iteration" {
        return ctx.continue_as_new(text);
    }
    Ok(text)
}

#[tokio::test]
async fn payload_over_the_limit_fails_the_run_with_a_type_and_does_not_block_it() {
    let engine = Engine::in_memory()
        .workflow::<too_much>()
        .activity(swallow)
        .start()
        .await
        .unwrap();
    for place in ["the result", "an activity", "the next iteration"] {
        let run = engine.client().start::<too_much>(place.to_owned());
        let run = run.await.unwrap();
        let error = run.result().await.expect_err("too large");
        assert!(!error.is_blocked(), "{place}: {error}");
        let record = engine.client().get(run.id()).await.unwrap();
        assert_eq!(record.status, WorkflowStatus::Failed, "{place}");
        let failure = record.error.expect("it says why");
        assert_eq!(
            failure.error_type, "PayloadTooLarge",
            "{place}: {failure:?}"
        );
        assert!(!failure.retryable, "{place}");
    }
    engine.shutdown().await.unwrap();
}

/// Sets so many search attributes, a turn for each half, and ends in a turn of its own.
#[workflow]
async fn tag(ctx: WorkflowContext, count: usize) -> WorkflowResult<()> {
    for i in 0..count {
        if i == count / 2 {
            ctx.activity::<swallow>("between".to_owned()).await?;
        }
        ctx.set_attribute(format!("tag {i}"), 1_i64);
    }
    ctx.activity::<swallow>("after".to_owned()).await?;
    Ok(())
}

#[tokio::test]
async fn search_attributes_of_all_turns_over_the_limit_fail_the_run_with_a_type() {
    let engine = Engine::in_memory()
        .workflow::<tag>()
        .activity(swallow)
        .start()
        .await
        .unwrap();
    let fits = engine.client().start::<tag>(ATTRIBUTES_MAX).await.unwrap();
    fits.result().await.expect("as many as a run may have");
    let over = engine.client().start::<tag>(ATTRIBUTES_MAX + 1);
    let over = over.await.unwrap();
    let error = over.result().await.expect_err("one too many");
    assert!(!error.is_blocked(), "{error}");
    let record = engine.client().get(over.id()).await.unwrap();
    assert_eq!(record.status, WorkflowStatus::Failed);
    let failure = record.error.expect("it says why");
    assert_eq!(failure.error_type, "LimitExceeded", "{failure:?}");
    assert!(!failure.retryable);
    let kept = engine.client().attributes(over.id()).await.unwrap();
    assert_eq!(
        kept.len(),
        ATTRIBUTES_MAX.div_ceil(2),
        "those of the first turn"
    );
    engine.shutdown().await.unwrap();
}

/// Waits until it is told to end, then reads so many signals.
#[workflow]
async fn collect(ctx: WorkflowContext, count: usize) -> WorkflowResult<usize> {
    ctx.signal::<()>("end").await?;
    for _ in 0..count {
        ctx.signal::<String>("large").await?;
    }
    Ok(count)
}

#[tokio::test]
async fn history_that_does_not_fit_into_memory_is_refused_and_its_run_goes_on() {
    let engine = Engine::in_memory()
        .workflow::<collect>()
        .start()
        .await
        .unwrap();
    let count = HISTORY_READ_BYTES_MAX / PAYLOAD_BYTES_MAX + 1;
    let run = engine.client().start::<collect>(count).await.unwrap();
    let large = "x".repeat(PAYLOAD_BYTES_MAX - 2);
    for _ in 0..count {
        run.signal("large", &large).await.unwrap();
    }
    let sequence = async || engine.client().get(run.id()).await.unwrap().sequence;
    while sequence().await < i64::try_from(count).unwrap() {
        tokio::task::yield_now().await;
    }
    let error = engine.client().history(run.id()).await.expect_err("large");
    assert!(error.is_invalid(), "{error}");
    assert!(
        error.to_string().contains("bytes of the history"),
        "{error}"
    );
    // Payloads are not needed to tell what the run waits for.
    let why = engine.client().why(run.id()).await;
    assert!(why.is_ok(), "{why:?}");
    run.signal("end", &()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), count);
    engine.shutdown().await.unwrap();
}
