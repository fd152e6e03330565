//! `durable batch`: the same to many runs at once. Looks first; acts when told to.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::exit::{Failure, Result};
use crate::output::{during, plain};
use crate::session::Session;
use crate::workflow::Filter;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Ask all of them to end.
    Cancel(Options),
    /// End all of them at once.
    Terminate(Options),
}

/// To which runs, and why.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    filter: Filter,
    /// Why: kept in their histories.
    #[arg(long, value_name = "TEXT", default_value = "by an operator")]
    reason: String,
    /// At most so many.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Do it. Without this the command only counts whom it would concern.
    #[arg(long)]
    yes: bool,
}

/// Counts, or acts.
pub(crate) async fn run(action: &Action, session: &Session) -> Result<()> {
    let (verb, options) = match action {
        Action::Cancel(options) => ("cancel", options),
        Action::Terminate(options) => ("terminate", options),
    };
    let filter = filter(&options.filter);
    if filter.is_empty() {
        return Err(Failure::usage(
            "a batch needs a filter, so that it cannot concern every run by accident",
        )
        .hint("for instance --type TYPE or --status running"));
    }
    let mut body = json!({"action": verb, "filter": filter, "reason": options.reason, "dry_run": !options.yes});
    if let Some(limit) = options.limit {
        body["limit"] = json!(limit);
    }
    let answer = during(verb, session.api.post(&["workflows", "batch"], &body)).await?;
    session.output.one(&answer, || {
        if options.yes {
            format!("{verb}: {} runs", plain(&answer["affected"]))
        } else {
            format!(
                "{verb} would concern {} runs; add --yes to do it",
                plain(&answer["affected"])
            )
        }
    })
}

fn filter(filter: &Filter) -> Map<String, Value> {
    let fields = [
        (
            "status",
            if filter.status.is_empty() {
                Value::Null
            } else {
                json!(filter.status)
            },
        ),
        ("workflow_type", json!(filter.workflow_type)),
        ("workflow_id", json!(filter.workflow_id)),
        ("created_from", json!(filter.created_from)),
        ("created_until", json!(filter.created_until)),
        (
            "search_attributes",
            if filter.attributes.is_empty() {
                Value::Null
            } else {
                Value::Object(filter.attributes.iter().cloned().collect())
            },
        ),
    ];
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
