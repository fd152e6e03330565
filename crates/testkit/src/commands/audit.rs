//! `audit --db URL`

use std::process::ExitCode;

use durable_testkit::audit;
use everruns_durable::persistence::{OpenOptions, open};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database, such as sqlite:app.db
    #[arg(long, value_name = "URL")]
    db: String,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // A look must not change the schema.
    let options = OpenOptions {
        migrate: false,
        ..OpenOptions::default()
    };
    let store = open(&args.db, options).await?;
    let report = audit::audit(store.as_ref(), None).await?;
    println!("{report}");
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
