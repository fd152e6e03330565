//! `durable workflow cancel`, `terminate`, `retry`, `reset`, `delete`.

use clap::Args;
use serde_json::json;

use super::Named;
use crate::exit::{Failure, Result};
use crate::session::Session;

/// Which run, and why.
#[derive(Debug, Args)]
pub(crate) struct Reasoned {
    #[command(flatten)]
    named: Named,
    /// Why: kept in the history.
    #[arg(long, value_name = "TEXT", default_value = "by an operator")]
    reason: String,
}

/// Which run, and to where.
#[derive(Debug, Args)]
pub(crate) struct Reset {
    #[command(flatten)]
    named: Named,
    /// The sequence number of the last event that still counts.
    #[arg(long, value_name = "SEQ")]
    to: i64,
}

/// Which run.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    named: Named,
    /// Do it.
    #[arg(long)]
    yes: bool,
}

/// Deletes a run.
pub(crate) async fn delete(options: &Delete, session: &Session) -> Result<()> {
    if !options.yes {
        let usage = Failure::usage("this deletes a run with its history and payloads for good");
        return Err(usage.hint("add --yes to do it"));
    }
    let id = session.run(&options.named.run).await?;
    let answer = session.api.delete(&["workflows", &id]).await?;
    session.output.one(&answer, || {
        if answer["complete"] == true {
            format!("deleted {id}")
        } else {
            format!("deleted {id}; rows of its history are still being deleted")
        }
    })
}

/// Asks a run to end.
pub(crate) async fn cancel(options: &Reasoned, session: &Session) -> Result<()> {
    let id = session.run(&options.named.run).await?;
    let body = json!({"reason": options.reason});
    session
        .do_and_say(
            &["workflows", &id, "cancel"],
            &body,
            &format!("asked {id} to end"),
        )
        .await
}

/// Ends a run.
pub(crate) async fn terminate(options: &Reasoned, session: &Session) -> Result<()> {
    let id = session.run(&options.named.run).await?;
    let body = json!({"reason": options.reason});
    session
        .do_and_say(
            &["workflows", &id, "terminate"],
            &body,
            &format!("terminated {id}"),
        )
        .await
}

/// Takes a run back to before what failed.
pub(crate) async fn retry(named: &Named, session: &Session) -> Result<()> {
    let id = session.run(&named.run).await?;
    session
        .do_and_say(
            &["workflows", &id, "retry"],
            &json!({}),
            &format!("{id} tries again"),
        )
        .await
}

/// Takes a run back.
pub(crate) async fn reset(options: &Reset, session: &Session) -> Result<()> {
    let id = session.run(&options.named.run).await?;
    let body = json!({"to_sequence": options.to});
    session
        .do_and_say(
            &["workflows", &id, "reset"],
            &body,
            &format!("{id} goes on from event {}", options.to),
        )
        .await
}
