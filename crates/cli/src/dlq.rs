//! `durable dlq`: activities that failed for good.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use durable_server::config::Period;
use jiff::Timestamp;
use serde_json::json;

use crate::exit::{Failure, Result};
use crate::input;
use crate::output::{Table, ago, failure, plain};
use crate::session::Session;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List dead letters.
    List(List),
    /// Try it again; a run that failed of it goes back to just before.
    Requeue(Letter),
    /// Give its result by hand; the run goes on as if the activity had answered.
    Complete(Complete),
    /// Give it up; a run that waits for it sees the failure.
    Discard(Letter),
    /// Delete decided letters.
    Purge(Purge),
}

/// Which ones.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only of this activity type.
    #[arg(long = "type", value_name = "TYPE")]
    activity_type: Option<String>,
    /// At most so many, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Go on where a page ended.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Letter {
    /// The letter's id.
    id: String,
}

/// Which one, with what.
#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// The letter's id.
    id: String,
    /// The result: JSON, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
}

/// Which ones.
#[derive(Debug, Args)]
pub(crate) struct Purge {
    /// Only older than this, such as 30d.
    #[arg(long, value_name = "TIME")]
    older_than: Option<Period>,
    /// Only of this activity type.
    #[arg(long = "type", value_name = "TYPE")]
    activity_type: Option<String>,
    /// Do it.
    #[arg(long)]
    yes: bool,
}

/// Carries it out.
pub(crate) async fn run(action: &Action, session: &Session) -> Result<()> {
    match action {
        Action::List(options) => list(options, session).await,
        Action::Requeue(letter) => {
            session
                .do_and_say(
                    &["dlq", &letter.id, "requeue"],
                    &json!({}),
                    &format!("requeued {}", letter.id),
                )
                .await
        }
        Action::Complete(options) => {
            let result = input::json(options.result.as_deref())?;
            let body = BTreeMap::from([("result", result)]);
            session
                .do_and_say(
                    &["dlq", &options.id, "complete"],
                    &body,
                    &format!("completed {}", options.id),
                )
                .await
        }
        Action::Discard(letter) => {
            session
                .do_and_say(
                    &["dlq", &letter.id, "discard"],
                    &json!({}),
                    &format!("discarded {}", letter.id),
                )
                .await
        }
        Action::Purge(options) => purge(options, session).await,
    }
}

async fn list(options: &List, session: &Session) -> Result<()> {
    let texts = [
        ("activity_type", options.activity_type.clone()),
        ("cursor", options.cursor.clone()),
    ];
    let mut query: Vec<(&str, String)> = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)))
        .collect();
    query.push(("limit", options.limit.to_string()));
    let answer = session.api.get(&["dlq"], &query).await?;
    session.output.page(&answer, "dead_letters", |letters| {
        let mut table = Table::new(["ID", "ACTIVITY", "RUN", "ATTEMPTS", "DEAD", "ERROR"]);
        for letter in letters {
            table.row([
                plain(&letter["id"]).into(),
                plain(&letter["activity_type"]).into(),
                plain(&letter["run_id"]).into(),
                plain(&letter["attempts"]).into(),
                ago(&letter["dead_at"]).into(),
                failure(&letter["last_error"]).into(),
            ]);
        }
        table
    })
}

async fn purge(options: &Purge, session: &Session) -> Result<()> {
    if !options.yes {
        return Err(Failure::usage("this deletes dead letters for good").hint("add --yes to do it"));
    }
    let mut body = json!({});
    if let Some(activity_type) = &options.activity_type {
        body["activity_type"] = json!(activity_type);
    }
    if let Some(age) = options.older_than {
        let before = Timestamp::now()
            .checked_sub(age.0)
            .map_err(|error| Failure::usage(format!("--older-than: {error}")))?;
        body["dead_before"] = json!(before.to_string());
    }
    let answer = session.api.post(&["dlq", "purge"], &body).await?;
    session
        .output
        .one(&answer, || format!("deleted {}", plain(&answer["purged"])))
}
