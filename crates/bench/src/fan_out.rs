//! J2: one workflow with many parallel activities.

use std::time::Instant;

use clap::Args;
use everruns_durable::prelude::*;
use serde_json::json;

/// How J2 is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which store: `memory:`, `sqlite:PATH`, `postgres://…`.
    #[arg(long, env = "DATABASE_URL")]
    db: String,
    /// Activities at once.
    #[arg(long, default_value_t = 10_000)]
    width: u32,
    /// One JSON object instead of a line for people.
    #[arg(long)]
    json: bool,
}

#[workflow]
async fn fan(ctx: WorkflowContext, width: u32) -> WorkflowResult<u64> {
    let calls = (0..width).map(|n| ctx.activity_named::<u32>("echo", n));
    let answers = try_join_all(calls).await?;
    Ok(answers.into_iter().map(u64::from).sum())
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let engine = Engine::open(&options.db)
        .workflow::<fan>()
        .activity_fn("echo", |_ctx, n: u32| async move { Ok(n) })
        .start()
        .await?;
    engine.run::<fan>(10).await?;
    let before = resident_mib();
    let began = Instant::now();
    let sum = engine.run::<fan>(options.width).await?;
    let took = began.elapsed();
    let width = u64::from(options.width);
    anyhow::ensure!(sum == width * (width - 1) / 2, "an answer is missing");
    let rate = f64::from(options.width) / took.as_secs_f64();
    let grown = resident_mib().saturating_sub(before);
    if options.json {
        let figures = json!({
            "job": "J2", "db": options.db.split(':').next(), "mode": "embedded",
            "width": options.width, "activities_per_s": rate, "resident_mib_grown": grown,
        });
        println!("{figures}");
    } else {
        println!(
            "J2: {} activities in {took:.2?}: {rate:.0} activities/s, memory grew by {grown} MiB",
            options.width
        );
    }
    engine.shutdown().await?;
    Ok(())
}

/// What the process holds in memory, as the kernel says; 0 where it does not.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
