//! J4: one workflow of many sequential steps; what a step costs must not grow with the history behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use everruns_durable::prelude::*;
use serde_json::json;

/// How J4 is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which store: `memory:`, `sqlite:PATH`, `postgres://…`.
    #[arg(long, env = "DATABASE_URL")]
    db: String,
    /// Steps of the workflow.
    #[arg(long, default_value_t = 10_000)]
    steps: u32,
    /// Steps whose mean time is one figure.
    #[arg(long, default_value_t = 1_000)]
    every: u32,
    /// Ends with an error where a step of the last part costs more than this many of the first part's.
    #[arg(long, value_name = "RATIO")]
    max_ratio: Option<f64>,
    /// One JSON object instead of lines for people.
    #[arg(long)]
    json: bool,
}

#[workflow]
async fn long_history(ctx: WorkflowContext, steps: u32) -> WorkflowResult<u32> {
    for step in 0..steps {
        ctx.activity_named::<()>("step", step).await?;
    }
    Ok(steps)
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let began = Instant::now();
    let marks: Arc<Vec<AtomicU64>> = Arc::new(
        (0..=options.steps / options.every)
            .map(|_| AtomicU64::new(0))
            .collect(),
    );
    let (of_activity, every) = (Arc::clone(&marks), options.every);
    let engine = Engine::open(&options.db)
        .workflow::<long_history>()
        .activity_fn("step", move |_ctx, step: u32| {
            let marks = Arc::clone(&of_activity);
            async move {
                if step.is_multiple_of(every) {
                    let now = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                    marks[(step / every) as usize].store(now, Ordering::Relaxed);
                }
                Ok(())
            }
        })
        .start()
        .await?;
    engine.run::<long_history>(1).await?;
    engine.run::<long_history>(options.steps).await?;
    let end = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    if let Some(last) = marks.last() {
        last.store(end, Ordering::Relaxed);
    }
    let ratio = report(&options, &marks);
    engine.shutdown().await?;
    if let Some(max) = options.max_ratio {
        // Not a number where there are too few parts: that is no proof either.
        anyhow::ensure!(
            ratio <= max,
            "the last part costs {ratio:.2} of the first, {max} is allowed"
        );
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "means for people")]
fn report(options: &Options, marks: &[AtomicU64]) -> f64 {
    let at: Vec<u64> = marks.iter().map(|m| m.load(Ordering::Relaxed)).collect();
    let per_step: Vec<f64> = at
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]) as f64 / f64::from(options.every))
        .collect();
    let ratio = match (per_step.first(), per_step.last()) {
        (Some(first), Some(last)) => last / first,
        _ => f64::NAN,
    };
    if options.json {
        let figures = json!({
            "job": "J4", "db": options.db.split(':').next(), "mode": "embedded",
            "steps": options.steps, "step_us_by_part": per_step, "last_to_first": ratio,
        });
        println!("{figures}");
        return ratio;
    }
    for (part, micros) in per_step.iter().enumerate() {
        println!(
            "J4: steps from {:>6}: {micros:>8.1} µs each",
            part as u64 * u64::from(options.every)
        );
    }
    println!("J4: last part to first: {ratio:.2}");
    ratio
}
