//! `faults --stores memory --plans N`

use std::process::ExitCode;

use durable_testkit::Flavour;
use durable_testkit::faults::drive;

use super::kind;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stores of memory, sqlite, postgres, pgbouncer
    #[arg(long, value_delimiter = ',', default_value = "memory")]
    stores: Vec<String>,
    /// Plans of faults tried on each
    #[arg(long, default_value_t = 200)]
    plans: u64,
    /// The first plan
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    for name in &args.stores {
        let kind = kind(name)?;
        for seed in args.seed..args.seed + args.plans {
            let shards = if seed % 2 == 0 { 1 } else { 4 };
            let under_test = Flavour { kind, shards }.open().await?;
            if let Err(problem) = drive(under_test.store.clone(), seed).await {
                println!("FAILED {name} plan {seed}: {problem:#}");
                return Ok(ExitCode::FAILURE);
            }
        }
        println!("{name}: {} plans came through", args.plans);
    }
    Ok(ExitCode::SUCCESS)
}
