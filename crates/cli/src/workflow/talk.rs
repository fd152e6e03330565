//! `durable workflow signal`, `query`, `update`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::Named;
use crate::exact::Exact;
use crate::exit::Result;
use crate::input;
use crate::output::plain;
use crate::session::Session;

/// How long an update's answer is waited for.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// What to send.
#[derive(Debug, Args)]
pub(crate) struct Signal {
    #[command(flatten)]
    named: Named,
    /// The signal's name.
    name: String,
    /// What it carries: JSON, @FILE, or - for standard input.
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
    /// Sending again with the same id is sending once.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

/// What to ask.
#[derive(Debug, Args)]
pub(crate) struct Query {
    #[command(flatten)]
    named: Named,
    /// The query's name.
    name: String,
    /// Its arguments: JSON, @FILE, or - for standard input.
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
}

/// What to change.
#[derive(Debug, Args)]
pub(crate) struct Update {
    #[command(flatten)]
    named: Named,
    /// The update's name.
    name: String,
    /// What it carries: JSON, @FILE, or - for standard input.
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
    /// Sending again with the same id is sending once.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Do not wait for the answer.
    #[arg(long)]
    no_wait: bool,
}

/// A signal, as the server reads it.
#[derive(Serialize)]
struct SignalBody<'a> {
    signal_type: &'a str,
    payload: Exact,
}

/// A query or an update, as the server reads it.
#[derive(Serialize)]
struct AskBody<'a> {
    name: &'a str,
    input: Exact,
    #[serde(skip_serializing_if = "Option::is_none")]
    update_id: Option<&'a str>,
}

/// Sends a signal.
pub(crate) async fn signal(options: &Signal, session: &Session) -> Result<()> {
    let id = session.run(&options.named.run).await?;
    let body = SignalBody {
        signal_type: &options.name,
        payload: input::json(options.input.as_deref())?,
    };
    let answer = session
        .api
        .post_once(&["workflows", &id, "signal"], options.id.as_deref(), &body)
        .await?;
    session
        .output
        .one(&answer, || format!("sent {} to {id}", options.name))
}

/// Asks.
pub(crate) async fn query(options: &Query, session: &Session) -> Result<()> {
    let id = session.run(&options.named.run).await?;
    let body = AskBody {
        name: &options.name,
        input: input::json(options.input.as_deref())?,
        update_id: None,
    };
    let answer = session
        .api
        .post(&["workflows", &id, "query"], &body)
        .await?;
    session
        .output
        .one(&answer, || answer.field("result").pretty())
}

/// Changes.
pub(crate) async fn update(options: &Update, session: &Session) -> Result<()> {
    let id = session.run(&options.named.run).await?;
    let body = AskBody {
        name: &options.name,
        input: input::json(options.input.as_deref())?,
        update_id: options.id.as_deref(),
    };
    let wait = if options.no_wait {
        Duration::ZERO
    } else {
        ANSWER_WAIT
    };
    let answer = session
        .api
        .post_within(&["workflows", &id, "update"], &body, wait)
        .await?;
    let status = plain(&answer["status"]);
    session.output.one(&answer, || match answer.get("result") {
        Some(_) => answer.field("result").pretty(),
        None => format!("update {} of {id} is {status}", plain(&answer["update_id"])),
    })
}
