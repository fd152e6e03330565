//! Races: the first one wins, for ever, and the others are given up.

use std::time::Duration;

use everruns_durable::prelude::*;
use serde_json::{Value, json};

use super::perform::{Done, planned};
use super::{Plan, Race};
use crate::sim::activities::PATIENT;

pub(super) fn run<'a>(ctx: &'a WorkflowContext, race: &'a Race) -> Done<'a> {
    match race {
        Race::SignalFirst { name } => Box::pin(signal_first(ctx, name)),
        Race::TimerFirst { millis } => Box::pin(timer_first(ctx, *millis)),
        Race::SignalOrTimer { name, millis } => Box::pin(signal_or_timer(ctx, name, *millis)),
        Race::ActivityOrTimer { slow, millis } => Box::pin(activity_or_timer(ctx, *slow, *millis)),
        Race::SignalOrChild { name, plan } => Box::pin(signal_or_child(ctx, name, plan)),
    }
}

fn timer(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Writes the winner down outside; on every replay it must be the same one again.
async fn stays(ctx: &WorkflowContext, winner: &str) -> WorkflowResult<bool> {
    let told: String = ctx.activity_named("echo", winner).await?;
    Ok(told == winner)
}

async fn signal_first(ctx: &WorkflowContext, name: &str) -> WorkflowResult<Value> {
    select! {
        signal = ctx.signal(name) => signal,
        ran = ctx.activity_named::<Value>(PATIENT, json!("patient")) => ran,
    }
}

async fn timer_first(ctx: &WorkflowContext, millis: u64) -> WorkflowResult<Value> {
    select! {
        ran = ctx.activity_named::<Value>(PATIENT, json!("patient")) => ran,
        slept = ctx.sleep(timer(millis)) => slept.map(|()| json!("time")),
    }
}

async fn signal_or_timer(ctx: &WorkflowContext, name: &str, millis: u64) -> WorkflowResult<Value> {
    let signal = select! {
        signal = ctx.signal::<Value>(name) => Some(signal?),
        slept = ctx.sleep(timer(millis)) => slept.map(|()| None)?,
    };
    let winner = if signal.is_some() { "signal" } else { "timer" };
    if !stays(ctx, winner).await? {
        return Ok(json!("the winner changed"));
    }
    match signal {
        Some(payload) => Ok(payload),
        None => ctx.signal(name).await,
    }
}

async fn activity_or_timer(ctx: &WorkflowContext, slow: u64, millis: u64) -> WorkflowResult<Value> {
    let winner = select! {
        ran = ctx.activity_named::<Value>("slow", slow) => ran.map(|_| "activity")?,
        slept = ctx.sleep(timer(millis)) => slept.map(|()| "timer")?,
    };
    if stays(ctx, winner).await? {
        Ok(json!(winner))
    } else {
        Ok(json!("the winner changed"))
    }
}

async fn signal_or_child(ctx: &WorkflowContext, name: &str, plan: &Plan) -> WorkflowResult<Value> {
    select! {
        ended = ctx.child::<planned>(plan.clone()) => ended.map(|_| json!("child")),
        signal = ctx.signal(name) => signal,
    }
}
