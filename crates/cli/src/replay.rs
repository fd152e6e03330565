//! `durable replay FILE`: can this build carry on a recorded run?

use std::path::PathBuf;

use clap::Args;
use durable_program::ProgramWorkflow;
use everruns_durable::client::verify::{Verifier, VerifyError};
use serde_json::json;

use crate::exit::{Exit, Failure, Result};
use crate::output::Output;

/// Which histories.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Histories, as `durable workflow export` writes them. Of workflows in this binary only, that is of `durable.program`: for your
    /// own, `everruns_durable::testing::verify` does the same in a test.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Replays them, inputs and options compared too. Ends with 1 at the first that this build would not carry on.
pub(crate) fn run(options: &Options, output: &Output) -> Result<()> {
    let verifier = Verifier::new().workflow::<ProgramWorkflow>();
    for file in &options.files {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| {
            let exit = if error.kind() == std::io::ErrorKind::NotFound {
                Exit::NotFound
            } else {
                Exit::Failure
            };
            Failure::new(exit, format!("{shown}: {error}"))
        })?;
        let verified = verifier
            .history(&text)
            .map_err(|error| refused(&shown.to_string(), &error))?;
        let answer = json!({"file": shown.to_string(), "id": verified.run_id, "workflow_type": verified.workflow_type, "events": verified.events});
        output.one(&answer, || {
            format!(
                "{shown}: {} events of run {} replay",
                verified.events, verified.run_id
            )
        })?;
    }
    Ok(())
}

fn refused(file: &str, error: &VerifyError) -> Failure {
    match error {
        VerifyError::Unreadable(_) => Failure::usage(format!("{file}: {error}")).hint("`durable workflow export RUN` writes such files"),
        VerifyError::NotRegistered { .. } => {
            Failure::usage(format!("{file}: {error}")).hint("this binary has durable.program; replay your own workflows in a test with everruns_durable::testing::verify")
        }
        _ => Failure::new(Exit::Failure, format!("{file}: {error}")),
    }
}
