//! The workflows and activities that the suites' worker process hosts.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everruns_durable::core::Payload;
use everruns_durable::prelude::*;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Hosts everything on a builder. `effects` is the file in which `suite_hold` notes each execution.
pub(crate) fn host(builder: EngineBuilder, effects: PathBuf) -> EngineBuilder {
    let effects = Arc::new(effects);
    builder
        .workflow::<suite_copy>()
        .workflow::<suite_sink>()
        .workflow::<suite_relay>()
        .workflow::<suite_updates>()
        .workflow::<suite_parent>()
        .workflow::<suite_beat>()
        .workflow::<suite_doomed>()
        .workflow::<suite_held>()
        .workflow::<suite_baton>()
        .workflow::<suite_once>()
        .workflow::<suite_side_effect>()
        .workflow::<suite_local>()
        .workflow::<suite_asked>()
        .workflow::<suite_failing>()
        .activity(copy)
        .activity(beat)
        .activity(doom)
        .activity(once)
        .activity(fail)
        .activity_fn("suite_hold", move |ctx: ActivityContext, ms: u64| {
            let effects = Arc::clone(&effects);
            async move {
                note(&effects, ctx.workflow_id)?;
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
        })
}

/// One line for each execution: written with one call, so that lines of several processes do not
/// mix.
fn note(effects: &PathBuf, run: Uuid) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(effects)?;
    file.write_all(format!("{run}\n").as_bytes())
}

#[activity]
async fn copy(text: String) -> ActivityResult<String> {
    Ok(text)
}

/// The first attempt leaves a large detail and fails; the second one answers how much of it was
/// kept.
#[activity(heartbeat = "60s", attempts = 2)]
async fn beat(ctx: ActivityContext, bytes: usize) -> ActivityResult<usize> {
    if ctx.attempt > 1 {
        let kept: Option<String> = ctx.heartbeat_details();
        return Ok(kept.map_or(0, |kept| kept.len()));
    }
    ctx.heartbeat_with(&"h".repeat(bytes))?;
    // Heartbeats are sent in batches: long enough for the batch to be sent, also on a slow machine.
    tokio::time::sleep(Duration::from_secs(5)).await;
    Err(ActivityError::new(
        "Again",
        "the second attempt reads what the first one left",
    ))
}

#[activity(exhausted = "park")]
async fn doom(text: String) -> ActivityResult<()> {
    drop(text);
    Err(ActivityError::new("Doomed", "this activity always fails").non_retryable())
}

/// Keeps its input as the result of `run_once`, reads it back and answers its length.
#[activity]
async fn once(ctx: ActivityContext, text: String) -> ActivityResult<usize> {
    let key = ctx.idempotency_key();
    let kept = text.clone();
    ctx.run_once(&key, || async { Ok(kept) }).await?;
    let again: String = ctx.run_once(&key, || async { Ok(String::new()) }).await?;
    Ok(again.len())
}

/// Fails with its input as the details.
#[activity(attempts = 1)]
async fn fail(text: String) -> ActivityResult<()> {
    let details = Payload::from_value(&text)?;
    Err(ActivityError::new("Detailed", "this activity always fails").with_details(details))
}

/// Run input, activity input, activity result and run result.
#[workflow]
async fn suite_copy(ctx: WorkflowContext, text: String) -> WorkflowResult<String> {
    ctx.activity::<copy>(text).await
}

/// Takes so many signals and ends; answers the sum of the numbers at their beginnings.
#[workflow]
async fn suite_sink(ctx: WorkflowContext, signals: usize) -> WorkflowResult<u64> {
    let mut sum = 0;
    for _ in 0..signals {
        let text: String = ctx.signal("item").await?;
        sum += number(&text);
    }
    Ok(sum)
}

/// What one iteration of `suite_relay` hands to the next.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Relay {
    left: usize,
    per_iteration: usize,
    sum: u64,
}

/// Takes signals, so many an iteration, and continues as new until none is left.
#[workflow]
async fn suite_relay(ctx: WorkflowContext, mut relay: Relay) -> WorkflowResult<u64> {
    for _ in 0..relay.per_iteration.min(relay.left) {
        let text: String = ctx.signal("item").await?;
        relay.sum += number(&text);
        relay.left -= 1;
    }
    if relay.left == 0 {
        return Ok(relay.sum);
    }
    ctx.continue_as_new(relay)
}

/// Answers each update with its input; ends with the signal `close` and answers how many there
/// were.
#[workflow]
async fn suite_updates(ctx: WorkflowContext, (): ()) -> WorkflowResult<u64> {
    let sum = ctx.state(0_u64);
    let taken = sum.clone();
    ctx.on_update("take", move |text: String| {
        let taken = taken.clone();
        async move {
            taken.update(|sum| *sum += number(&text));
            Ok(text)
        }
    });
    ctx.signal::<()>("close").await?;
    Ok(sum.get())
}

/// A child's input and result, and with them the messages between runs.
#[workflow]
async fn suite_parent(ctx: WorkflowContext, text: String) -> WorkflowResult<usize> {
    let answer = ctx.child::<suite_copy>(text).await?;
    Ok(answer.len())
}

#[workflow]
async fn suite_beat(ctx: WorkflowContext, bytes: usize) -> WorkflowResult<usize> {
    ctx.activity::<beat>(bytes).await
}

#[workflow]
async fn suite_doomed(ctx: WorkflowContext, text: String) -> WorkflowResult<()> {
    ctx.activity::<doom>(text).await
}

/// An activity that takes long, for leases that have to be renewed; ends with the activity.
#[workflow]
async fn suite_held(ctx: WorkflowContext, ms: u64) -> WorkflowResult<()> {
    ctx.activity_named("suite_hold", ms).await
}

/// What `suite_baton` puts before the input of its second iteration.
pub(crate) const HANDED_ON: &str = "again ";

/// Hands its input to a second iteration, which answers its length.
#[workflow]
async fn suite_baton(ctx: WorkflowContext, text: String) -> WorkflowResult<usize> {
    if text.starts_with(HANDED_ON) {
        return Ok(text.len());
    }
    ctx.continue_as_new(format!("{HANDED_ON}{text}"))
}

#[workflow]
async fn suite_once(ctx: WorkflowContext, text: String) -> WorkflowResult<usize> {
    ctx.activity::<once>(text).await
}

/// Records its input as a side effect, and reads it back after a turn.
#[workflow]
async fn suite_side_effect(ctx: WorkflowContext, text: String) -> WorkflowResult<usize> {
    let kept: String = ctx.side_effect(|| text)?;
    ctx.sleep(Duration::from_millis(1)).await?;
    Ok(kept.len())
}

#[workflow]
async fn suite_local(ctx: WorkflowContext, text: String) -> WorkflowResult<usize> {
    let answer = ctx.local_activity::<copy>(text).await?;
    Ok(answer.len())
}

/// Answers the query `text` with its input until the signal `close`.
#[workflow]
async fn suite_asked(ctx: WorkflowContext, text: String) -> WorkflowResult<()> {
    ctx.on_query("text", move |(): ()| text.clone());
    ctx.signal("close").await
}

/// Answers the length of the details with which its activity failed.
#[workflow]
async fn suite_failing(ctx: WorkflowContext, text: String) -> WorkflowResult<usize> {
    match ctx.activity::<fail>(text).await {
        Ok(()) => Ok(0),
        Err(error) => {
            let cause = error.cause.as_deref();
            match cause.map(|cause| cause.details.to_value::<String>()) {
                Some(Ok(details)) => Ok(details.len()),
                _ => Err(error),
            }
        }
    }
}

/// The number at the beginning of a payload.
fn number(text: &str) -> u64 {
    let digits = text.split(' ').next().unwrap_or_default();
    digits.parse().unwrap_or_default()
}
