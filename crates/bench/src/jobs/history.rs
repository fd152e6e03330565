//! J4: one workflow of many sequential steps; what a step costs must not grow with the history behind it.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use everruns_durable::prelude::*;
use parking_lot::Mutex;

use crate::bench::Bench;
use crate::database::Database;
use crate::figures::{Figures, histogram, note, percentile_ms};
use crate::options::Mode;
use crate::output::Bar;
use crate::raw;

/// Parts whose time per step is told apart: with 10,000 steps a thousand each.
const PARTS: usize = 10;

/// Single commits that the steps are compared with.
const COMMITS: usize = 1_000;

#[workflow]
async fn long_history(ctx: WorkflowContext, steps: u32) -> WorkflowResult<u32> {
    for step in 0..steps {
        ctx.activity_named::<()>("step", step).await?;
    }
    Ok(steps)
}

/// One run.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    let figures = bench
        .case(async |database| measure(bench, database).await)
        .await?;
    if let Some(max) = bench.options.sizes.max_ratio {
        // Not there where there are too few steps: that is no proof either.
        let ratio = figures
            .values
            .get("last_to_first")
            .and_then(serde_json::Value::as_f64);
        let ratio = ratio.context("there are too few steps for --max-ratio")?;
        ensure!(
            ratio <= max,
            "a step of the last part costs {ratio:.2} of one of the first, {max} is allowed"
        );
    }
    Ok(())
}

async fn measure(bench: &Bench, database: &Database) -> anyhow::Result<Figures> {
    let steps = bench.options.steps();
    let bar = Arc::new(Bar::new(format!("J4, {steps} steps"), steps));
    let starts: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (of_activity, shown) = (Arc::clone(&starts), Arc::clone(&bar));
    let engine = Engine::open(&database.url)
        .workflow::<long_history>()
        .activity_fn("step", move |_ctx, step: u32| {
            of_activity.lock().push(Instant::now());
            shown.set(step as usize);
            async { Ok(()) }
        })
        .start()
        .await?;
    engine.run::<long_history>(10).await?;
    starts.lock().clear();
    engine.run::<long_history>(u32::try_from(steps)?).await?;
    starts.lock().push(Instant::now());
    engine.shutdown().await?;
    let starts = std::mem::take(&mut *starts.lock());
    ensure!(starts.len() == steps + 1, "a step ran more than once");
    let mut figures = figures(steps, &starts)?;
    if let Some(commit) = raw::commit::latency(database, steps.min(COMMITS)).await? {
        figures.raw = Some(percentile_ms(&commit, 50.0));
    }
    Ok(figures)
}

fn figures(steps: usize, starts: &[Instant]) -> anyhow::Result<Figures> {
    let mut all = histogram()?;
    let mut by_part = Vec::new();
    let times: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for part in times.chunks(steps.div_ceil(PARTS).max(1)) {
        let mut of_part = histogram()?;
        for time in part {
            note(&mut of_part, *time);
            note(&mut all, *time);
        }
        by_part.push(percentile_ms(&of_part, 50.0));
    }
    let p50 = percentile_ms(&all, 50.0);
    let mut figures = Figures::time("J4", Mode::Embedded, "p50_ms", p50).with("steps", steps);
    figures.add_latency("", all);
    figures.add_list("step_ms_by_tenth", &by_part);
    if let (Some(first), Some(last)) = (by_part.first(), by_part.last())
        && by_part.len() == PARTS
    {
        figures.add("last_to_first", last / first);
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn growth_shows_in_the_last_part() {
        let mut at = Instant::now();
        let mut starts = vec![at];
        for step in 0..1_000_u64 {
            at += Duration::from_micros(1_000 + step);
            starts.push(at);
        }
        let figures = figures(1_000, &starts).expect("bounds");
        let ratio = figures.values["last_to_first"].as_f64().expect("ten parts");
        assert!((1.8..2.0).contains(&ratio), "{ratio}");
    }
}
