//! `durable workflow get`, `events`, `why`, `export`.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::Named;
use crate::exact::Exact;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Cell, Table, ago, brief, note, plain, print};
use crate::session::Session;

/// Which part of which history.
#[derive(Debug, Args)]
pub(crate) struct Events {
    #[command(flatten)]
    named: Named,
    /// At most so many, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u16,
    /// Go on where a page ended.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Which history, to where.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    named: Named,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// What a person looks for first.
const FIRST: [&str; 8] = [
    "id",
    "workflow_id",
    "workflow_type",
    "status",
    "result",
    "error",
    "blocked",
    "input",
];

/// Shows a run.
pub(crate) async fn get(named: &Named, session: &Session) -> Result<()> {
    let id = session.run(&named.run).await?;
    let run = session.api.get(&["workflows", &id], &[]).await?;
    session.output.fields(&run, || {
        let object = run.as_object();
        let rest = object.into_iter().flatten().map(|(name, _)| name.as_str());
        let rest = rest.filter(|name| !FIRST.contains(name));
        let names = FIRST.into_iter().chain(rest);
        let shown = names.filter(|name| !matches!(&run[*name], Value::Null));
        shown
            .map(|name| (name.to_owned(), field(name, &run.field(name))))
            .collect()
    })
}

fn field(name: &str, value: &Exact) -> Cell {
    match name {
        "status" => Cell::status(plain(value)),
        _ if name.ends_with("_at") => format!("{} ({})", plain(value), ago(value)).into(),
        _ => value.plain().into(),
    }
}

/// Shows a history.
pub(crate) async fn events(options: &Events, session: &Session) -> Result<()> {
    let id = session.run(&options.named.run).await?;
    let mut query = vec![("limit", options.limit.to_string())];
    query.extend(options.cursor.clone().map(|cursor| ("cursor", cursor)));
    let answer = session
        .api
        .get(&["workflows", &id, "events"], &query)
        .await?;
    session.output.page(&answer, "events", |events| {
        let mut table = Table::new(["SEQ", "WHEN", "EVENT", "DETAILS"]);
        for event in events {
            let [sequence, when, name, details] = row(event);
            table.row([sequence, when, name, details]);
        }
        table
    })
}

/// The same for a line of its own, which no table aligns: the columns have the widths that most need.
pub(super) fn line(event: &Exact) -> Vec<Cell> {
    let [sequence, when, name, details] = row(event);
    vec![sequence.wide(4), when.wide(10), name.wide(20), details]
}

/// An event as a row: its number, when, its name, and the rest.
pub(super) fn row(event: &Exact) -> [Cell; 4] {
    let name = plain(&event["event_type"]);
    let name = match name.rsplit('.').next() {
        Some("completed") => Cell::from(name).colour(crate::output::Colour::Good),
        Some("failed" | "cancelled" | "timed_out") => {
            Cell::from(name).colour(crate::output::Colour::Bad)
        }
        _ => name.into(),
    };
    [
        plain(&event["sequence_num"]).into(),
        ago(&event["created_at"]).into(),
        name,
        brief(&event.field("event_data")).into(),
    ]
}

/// Tells what a run waits for.
pub(crate) async fn why(named: &Named, session: &Session) -> Result<()> {
    let id = session.run(&named.run).await?;
    let answer = session.api.get(&["workflows", &id, "why"], &[]).await?;
    session.output.one(&answer, || {
        let waits = answer["waits_for"].as_array().into_iter().flatten();
        let waits = waits.map(|wait| format!("  - {}", plain(&wait["description"])));
        let lines: Vec<String> = std::iter::once(plain(&answer["summary"]))
            .chain(waits)
            .collect();
        lines.join("\n")
    })
}

/// Prints a history as a file, exactly as the server gives it: a replay needs every digit.
pub(crate) async fn export(options: &Export, session: &Session) -> Result<()> {
    let id = session.run(&options.named.run).await?;
    let text = session.api.get_text(&["workflows", &id, "history"]).await?;
    match &options.file {
        None => print(&text),
        Some(path) => {
            std::fs::write(path, text).map_err(|error| {
                Failure::new(Exit::Failure, format!("{}: {error}", path.display()))
            })?;
            note(&format!("wrote {}", path.display()))
        }
    }
}
