//! J2: one workflow with many parallel activities.

use std::time::Instant;

use anyhow::ensure;
use everruns_durable::prelude::*;

use crate::bench::Bench;
use crate::database::{Database, Kind};
use crate::figures::{Figures, per_second};
use crate::options::Mode;
use crate::output::Bar;
use crate::process::resident_mib;
use crate::raw;

#[workflow]
async fn fan(ctx: WorkflowContext, width: u32) -> WorkflowResult<u64> {
    let calls = (0..width).map(|n| ctx.activity_named::<u32>("echo", n));
    let answers = try_join_all(calls).await?;
    Ok(answers.into_iter().map(u64::from).sum())
}

/// Every width.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    for width in bench.options.widths() {
        let bar = Bar::new(format!("J2, {width} activities"), 1);
        bench
            .case(async |database| measure(database, width).await)
            .await?;
        bar.set(1);
    }
    Ok(())
}

async fn measure(database: &Database, width: usize) -> anyhow::Result<Figures> {
    let engine = Engine::open(&database.url)
        .workflow::<fan>()
        .activity_fn("echo", |_ctx, n: u32| async move { Ok(n) })
        .start()
        .await?;
    engine.run::<fan>(10).await?;
    let before = resident_mib()?;
    let began = Instant::now();
    let sum = engine.run::<fan>(u32::try_from(width)?).await?;
    let took = began.elapsed();
    let expected = (width as u64) * (width as u64).saturating_sub(1) / 2;
    ensure!(sum == expected, "an answer is missing");
    let seconds = took.as_secs_f64();
    let mut figures = Figures::time("J2", Mode::Embedded, "seconds", seconds).with("width", width);
    figures.add("activities_per_s", per_second(width, took));
    figures.add("resident_mib_grown", (resident_mib()? - before).max(0.0));
    engine.shutdown().await?;
    if database.kind == Kind::Postgres {
        figures.raw = Some(
            raw::fan_out::took(&database.url, width)
                .await?
                .as_secs_f64(),
        );
    }
    Ok(figures)
}
