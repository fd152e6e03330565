//! `durable workflow result`: waits for a run's end.

use std::time::{Duration, Instant};

use clap::Args;
use durable_server::config::Period;

use super::Named;
use super::again::{Again, pause};
use crate::exact::Exact;
use crate::exit::{Exit, Failure, Result};
use crate::output::{during, failure, plain};
use crate::session::Session;

/// How long one request waits; the command asks again.
const WAIT_EACH: Duration = Duration::from_secs(20);

/// Which run, and how patiently.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    named: Named,
    /// Wait at most this long; without it, until the run ends. 0s only looks.
    #[arg(long, value_name = "TIME")]
    wait: Option<Period>,
}

/// Waits and prints.
pub(crate) async fn run(options: &Options, session: &Session) -> Result<()> {
    let id = session.run(&options.named.run).await?;
    follow(&id, options.wait.map(|wait| wait.0), session).await
}

/// Waits for the end of a run and prints how it ended.
pub(super) async fn follow(id: &str, patience: Option<Duration>, session: &Session) -> Result<()> {
    let ended = during(
        &format!("waiting for run {id}"),
        wait(id, patience, session),
    )
    .await?;
    conclude(id, &ended, session)
}

async fn wait(id: &str, patience: Option<Duration>, session: &Session) -> Result<Exact> {
    let begun = Instant::now();
    let mut again = Again::default();
    loop {
        let left = patience.map(|patience| patience.saturating_sub(begun.elapsed()));
        let wait = left.map_or(WAIT_EACH, |left| left.min(WAIT_EACH));
        let asked = Instant::now();
        let path = ["workflows", id, "result"];
        let (ended, answer) = match session.api.get_within(&path, wait).await {
            Ok(answered) => answered,
            Err(failure) => {
                again.after(failure).await?;
                continue;
            }
        };
        again.well();
        if ended {
            return Ok(answer);
        }
        if left.is_some_and(|left| left <= wait) {
            let text = format!("run {id} has not ended; it is {}", plain(&answer["status"]));
            return Err(Failure::new(Exit::Failure, text).hint(format!(
                "`durable workflow why {id}` tells what it waits for"
            )));
        }
        // A server that stops answers as things stand instead of waiting.
        if asked.elapsed() < wait / 2 {
            pause().await;
        }
    }
}

/// Prints a result; a run that ended without one makes the command end with 7.
pub(super) fn conclude(id: &str, answer: &Exact, session: &Session) -> Result<()> {
    let error = answer.get("error").filter(|error| !error.is_null());
    let status = plain(&answer["status"]);
    if status == "completed" {
        return session
            .output
            .one(answer, || answer.field("result").pretty());
    }
    // Programs read how it ended from standard output, people from the error.
    if !session.output.is_table() {
        session.output.one(answer, String::new)?;
    }
    let why = error.map_or_else(String::new, |error| format!(": {}", failure(error)));
    let ended = Failure::new(Exit::WorkflowFailed, format!("run {id} {status}{why}"));
    let mut hint = format!("`durable workflow events {id}` shows its history");
    // What was cancelled was meant to end.
    if status == "failed" {
        hint += &format!(", `durable workflow retry {id}` tries again");
    }
    Err(ended.hint(hint))
}
