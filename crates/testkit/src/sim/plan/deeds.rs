//! How each deed is done.

use std::cell::Cell;
use std::time::Duration;

use durable_core::ActivityOptions;
use everruns_durable::prelude::*;
use serde_json::{Value, json};

use super::perform::{Applied, Done, Release, Setting, planned};
use super::{Deed, Plan, races};
use crate::sim::activities::{Echo, Flaky, PATIENT};

thread_local! {
    /// Side effects of the seed that this thread plays: the world outside, as it were.
    static SIDE_EFFECTS: Cell<u64> = const { Cell::new(0) };
}

/// Another seed begins.
pub(in crate::sim) fn forget_side_effects() {
    SIDE_EFFECTS.set(0);
}

/// Another value each time, and the same ones when a seed is played again.
fn next_side_effect() -> u64 {
    SIDE_EFFECTS.set(SIDE_EFFECTS.get() + 1);
    SIDE_EFFECTS.get()
}

pub(super) fn perform<'a>(setting: &'a Setting, deed: &'a Deed) -> Done<'a> {
    let Setting {
        ctx,
        applied,
        release,
    } = setting;
    match deed {
        Deed::Activity {
            name,
            input,
            options,
            tolerates,
        } => Box::pin(activity(ctx, name, input, options, *tolerates)),
        Deed::Local { fails } => Box::pin(local(ctx, *fails)),
        Deed::Sleep { millis } => Box::pin(sleep(ctx, *millis)),
        Deed::Signal { name } => Box::pin(ctx.signal(name)),
        Deed::SignalTwice { name, millis } => Box::pin(signal_twice(ctx, name, *millis)),
        Deed::Handle { name, count } => Box::pin(handle(ctx, name, *count)),
        Deed::Updates { name, count } => Box::pin(updates(ctx, applied, name, *count)),
        Deed::Fixed => Box::pin(fixed(ctx)),
        Deed::Gather { branches } => Box::pin(gather(setting, branches)),
        Deed::FailFast => Box::pin(fail_fast(ctx)),
        Deed::Race(race) => races::run(ctx, race),
        Deed::Scope { signal } => Box::pin(scope(ctx, signal)),
        Deed::Child { plan } => Box::pin(child(ctx, plan)),
        Deed::Detached { plan } => Box::pin(detached(ctx, plan)),
        Deed::Patched { change } => Box::pin(patched(ctx, *release, change)),
        Deed::Attribute { name, value } => {
            ctx.set_attribute(name, value.clone());
            Box::pin(async { Ok(Value::Null) })
        }
        Deed::Saga { steps, fails } => Box::pin(saga(ctx, *steps, *fails)),
        Deed::Fail { message } => {
            Box::pin(async move { Err(WorkflowError::new("Planned", message)) })
        }
        Deed::ContinueAsNew { plan } => Box::pin(async move { ctx.continue_as_new(plan) }),
    }
}

/// The type of the failure at the bottom of an error.
fn root(error: &WorkflowError) -> &str {
    let mut failure: &durable_core::Failure = error;
    while let Some(cause) = &failure.cause {
        failure = cause;
    }
    &failure.error_type
}

/// Writes a failure down, unless the run was asked to stop.
fn tolerated(outcome: WorkflowResult<Value>) -> WorkflowResult<Value> {
    match outcome {
        Err(error) if !error.is_cancelled() => Ok(json!({ "failed": root(&error) })),
        other => other,
    }
}

async fn activity(
    ctx: &WorkflowContext,
    name: &str,
    input: &Value,
    options: &ActivityOptions,
    tolerates: bool,
) -> WorkflowResult<Value> {
    let call = ctx.activity_named(name, input).options(options.clone());
    let outcome = call.await;
    if tolerates {
        tolerated(outcome)
    } else {
        outcome
    }
}

async fn local(ctx: &WorkflowContext, fails: u64) -> WorkflowResult<Value> {
    if fails == 0 {
        return ctx.local_activity::<Echo>(json!("local")).await;
    }
    let policy = RetryPolicy {
        max_attempts: 5,
        initial_interval: Duration::from_millis(5),
        ..RetryPolicy::default()
    };
    let call = ctx.local_activity::<Flaky>(json!(fails + 1));
    call.retry(policy).await
}

async fn sleep(ctx: &WorkflowContext, millis: u64) -> WorkflowResult<Value> {
    if millis.is_multiple_of(2) {
        ctx.sleep(Duration::from_millis(millis)).await?;
    } else {
        let text = format!("PT{}.{:03}S", millis / 1000, millis % 1000);
        ctx.sleep(text.as_str()).await?;
    }
    Ok(json!("slept"))
}

/// A late signal stays for the next who waits.
async fn signal_twice(ctx: &WorkflowContext, name: &str, millis: u64) -> WorkflowResult<Value> {
    let wait = ctx.signal(name).timeout(Duration::from_millis(millis));
    match wait.await? {
        Some(payload) => Ok(payload),
        None => ctx.signal(name).await,
    }
}

async fn handle(ctx: &WorkflowContext, name: &str, count: usize) -> WorkflowResult<Value> {
    let heard = ctx.state(Vec::<Value>::new());
    let (of_handler, of_wait) = (heard.clone(), heard.clone());
    ctx.on_signal(name, move |payload: Value| {
        of_handler.update(|all| all.push(payload));
    });
    ctx.until(move || of_wait.with(|all| all.len() >= count))
        .await?;
    Ok(json!(heard.get()))
}

async fn updates(
    ctx: &WorkflowContext,
    applied: &Applied,
    name: &str,
    count: usize,
) -> WorkflowResult<Value> {
    let Some(applied) = applied.get(name).cloned() else {
        let message = format!("no update {name} was set up");
        return Err(WorkflowError::new("Planned", message));
    };
    let of_wait = applied.clone();
    ctx.until(move || of_wait.with(|all| all.len() >= count))
        .await?;
    Ok(json!(applied.get()))
}

async fn fixed(ctx: &WorkflowContext) -> WorkflowResult<Value> {
    let before = (
        ctx.now(),
        ctx.uuid(),
        ctx.random_u64(),
        ctx.side_effect(next_side_effect)?,
    );
    let text = format!("{before:?}");
    let told: String = ctx.activity_named("echo", &text).await?;
    Ok(json!(told == format!("{before:?}")))
}

async fn gather(setting: &Setting, branches: &[Vec<Deed>]) -> WorkflowResult<Value> {
    let branch = |deeds: &'_ [Deed]| {
        let deeds = deeds.to_vec();
        async move {
            let mut results = Vec::new();
            for deed in &deeds {
                results.push(perform(setting, deed).await?);
            }
            Ok::<Value, WorkflowError>(json!(results))
        }
    };
    let outcomes = join_all(branches.iter().map(|deeds| branch(deeds))).await;
    let outcomes: Vec<Value> = outcomes.into_iter().collect::<WorkflowResult<_>>()?;
    Ok(json!(outcomes))
}

async fn fail_fast(ctx: &WorkflowContext) -> WorkflowResult<Value> {
    let outcome = try_join!(
        ctx.activity_named::<Value>(PATIENT, json!(null)),
        ctx.activity_named::<Value>("fatal", json!(null)),
    );
    tolerated(outcome.map(|_| json!("nothing failed")))
}

/// The first release sleeps here; the second runs an activity instead, where the run was not past this line before.
async fn patched(ctx: &WorkflowContext, release: Release, change: &str) -> WorkflowResult<Value> {
    let patched = release == Release::Second && ctx.patched(change);
    if patched {
        ctx.activity_named::<Value>("echo", json!("patched"))
            .await?;
    } else {
        ctx.sleep(Duration::from_millis(700)).await?;
    }
    Ok(json!(patched))
}

async fn scope(ctx: &WorkflowContext, signal: &str) -> WorkflowResult<Value> {
    let scope = ctx.scope();
    let abort = scope.clone();
    ctx.on_signal(signal, move |_: Value| abort.cancel());
    let part = ctx.activity_named::<Value>(PATIENT, json!(null));
    match scope.run(part).await {
        None => Ok(json!("abandoned")),
        Some(outcome) => outcome,
    }
}

async fn child(ctx: &WorkflowContext, plan: &Plan) -> WorkflowResult<Value> {
    // Every other one under a name that only the catch-all hosts.
    let outcome = if plan.number.is_multiple_of(2) {
        let name = format!("plan-{}", plan.number);
        ctx.child_named::<Value>(name, plan).await
    } else {
        let results = ctx.child::<planned>(plan.clone()).await;
        results.map(|results| json!(results))
    };
    tolerated(outcome)
}

async fn detached(ctx: &WorkflowContext, plan: &Plan) -> WorkflowResult<Value> {
    ctx.child::<planned>(plan.clone()).detach()?;
    Ok(json!("detached"))
}

/// What was undone, in the order in which it was.
async fn saga(ctx: &WorkflowContext, steps: u64, fails: bool) -> WorkflowResult<Value> {
    let undone = ctx.state(Vec::<u64>::new());
    let saga = ctx.saga();
    let outcome = saga
        .run(async {
            for step in 0..steps {
                ctx.activity_named::<Value>("echo", step).await?;
                let undone = undone.clone();
                saga.compensate(move |ctx| async move {
                    ctx.activity_named::<Value>("echo", format!("undo {step}"))
                        .await?;
                    undone.update(|all| all.push(step));
                    Ok(())
                });
            }
            if fails {
                ctx.activity_named::<Value>("fatal", json!(null)).await?;
            }
            Ok(json!("kept"))
        })
        .await;
    match (outcome, ctx.cancel_reason()) {
        // A request to stop that came while it was undone.
        (Err(_), Some(reason)) => Err(WorkflowError::cancelled(reason)),
        (Err(_), None) => Ok(json!({ "undone": undone.get() })),
        (kept, _) => kept,
    }
}
