//! `audit --db URL`

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use durable_testkit::audit;
use everruns_durable::persistence::WorkflowEventStore;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database, such as sqlite:app.db
    #[arg(long, value_name = "URL")]
    db: String,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let store = open(&args.db)?;
    let report = audit::audit(store.as_ref(), None).await?;
    println!("{report}");
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Opens any store by its URL.
fn open(url: &str) -> anyhow::Result<Arc<dyn WorkflowEventStore>> {
    bail!("{url}: stores cannot be opened by their URL yet")
}
