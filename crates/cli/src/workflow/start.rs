//! `durable workflow start`.

use clap::Args;
use durable_server::config::Period;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::exact::Exact;
use crate::exit::Result;
use crate::input;
use crate::output::plain;
use crate::session::Session;

/// What to start, and how.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The workflow's type, such as `durable.program`.
    #[arg(value_name = "TYPE")]
    workflow_type: String,
    /// Its input: JSON, @FILE, or - for standard input.
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
    /// Your own id for it.
    #[arg(long = "id", value_name = "ID")]
    workflow_id: Option<String>,
    /// What to do where the id is in use.
    #[arg(long, value_name = "POLICY", ignore_case = true, value_parser = ["allow_duplicate", "reject_duplicate", "allow_duplicate_failed_only", "terminate_if_running"])]
    reuse_policy: Option<String>,
    /// Starting again with the same key is starting once.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// A search attribute, NAME=VALUE. May be given again.
    #[arg(short, long = "attribute", value_name = "NAME=VALUE", value_parser = input::attribute)]
    attributes: Vec<(String, Value)>,
    /// Metadata to keep with it: JSON.
    #[arg(long, value_name = "JSON")]
    memo: Option<String>,
    /// Fails after this long, continuations included.
    #[arg(long, value_name = "TIME")]
    execution_timeout: Option<Period>,
    /// Fails after this long, counted anew at each continuation.
    #[arg(long, value_name = "TIME")]
    run_timeout: Option<Period>,
    /// Wait for its end and print the result. Ends with 7 if the run failed.
    #[arg(short, long)]
    wait: bool,
}

/// Starts it.
pub(crate) async fn run(options: &Options, session: &Session) -> Result<()> {
    let answer = session.api.post(&["workflows"], &body(options)?).await?;
    if options.wait {
        return super::end::follow(&plain(&answer["id"]), None, session).await;
    }
    session.output.one(&answer, || plain(&answer["id"]))
}

/// A start, as the server reads it.
#[derive(Serialize)]
struct Body {
    workflow_type: String,
    input: Exact,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reuse_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memo: Option<Exact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    search_attributes: Map<String, Value>,
}

fn body(options: &Options) -> Result<Body> {
    let millis = |period: Option<Period>| {
        period.map(|period| u64::try_from(period.0.as_millis()).unwrap_or(u64::MAX))
    };
    let memo = input::json(options.memo.as_deref())?;
    Ok(Body {
        workflow_type: options.workflow_type.clone(),
        input: input::json(options.input.as_deref())?,
        workflow_id: options.workflow_id.clone(),
        reuse_policy: options.reuse_policy.as_deref().map(str::to_uppercase),
        idempotency_key: options.idempotency_key.clone(),
        memo: Some(memo).filter(|memo| !memo.is_null()),
        execution_timeout_ms: millis(options.execution_timeout),
        run_timeout_ms: millis(options.run_timeout),
        search_attributes: options.attributes.iter().cloned().collect(),
    })
}
