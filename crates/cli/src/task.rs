//! `durable task`: the queue.

use clap::{Args, Subcommand};

use crate::exit::Result;
use crate::output::{Cell, Table, ago, plain};
use crate::session::Session;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List tasks, in the order in which they are taken.
    List(Options),
    /// Count them by activity type, with how long they take.
    Stats,
}

/// Which tasks.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only in this status.
    #[arg(long, value_name = "STATUS", value_parser = ["pending", "claimed", "delayed", "in_line", "parked", "dead"])]
    status: Option<String>,
    /// Only of this activity type.
    #[arg(long = "type", value_name = "TYPE")]
    activity_type: Option<String>,
    /// Only of this run.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// At most so many, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Go on where a page ended.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(action: &Action, session: &Session) -> Result<()> {
    match action {
        Action::List(options) => list(options, session).await,
        Action::Stats => stats(session).await,
    }
}

async fn list(options: &Options, session: &Session) -> Result<()> {
    let run = match &options.run {
        Some(named) => Some(session.run(named).await?),
        None => None,
    };
    let texts = [
        ("status", options.status.clone()),
        ("activity_type", options.activity_type.clone()),
        ("run_id", run),
        ("cursor", options.cursor.clone()),
    ];
    let mut query: Vec<(&str, String)> = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)))
        .collect();
    query.push(("limit", options.limit.to_string()));
    let answer = session.api.get(&["tasks"], &query).await?;
    session.output.page(&answer, "tasks", |tasks| {
        let mut table = Table::new(["ID", "STATUS", "ACTIVITY", "ATTEMPT", "RUN", "QUEUED"]);
        for task in tasks {
            table.row([
                plain(&task["id"]).into(),
                Cell::status(plain(&task["status"])),
                plain(&task["activity_type"]).into(),
                format!(
                    "{}/{}",
                    plain(&task["attempt"]),
                    plain(&task["max_attempts"])
                )
                .into(),
                plain(&task["run_id"]).into(),
                ago(&task["scheduled_at"]).into(),
            ]);
        }
        table
    })
}

async fn stats(session: &Session) -> Result<()> {
    let answer = session.api.get(&["tasks", "stats"], &[]).await?;
    let colourless = |value: &serde_json::Value| Cell::from(plain(value));
    let types = answer["by_activity_type"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    session.output.table_of(&answer, || {
        let mut table = Table::new([
            "ACTIVITY",
            "PENDING",
            "CLAIMED",
            "COMPLETED/H",
            "FAILED/H",
            "AVG MS",
            "P99 MS",
        ]);
        for (name, stats) in &types {
            table.row([
                name.as_str().into(),
                colourless(&stats["pending"]),
                colourless(&stats["claimed"]),
                colourless(&stats["completed_last_hour"]),
                colourless(&stats["failed_last_hour"]),
                colourless(&stats["avg_duration_ms"]),
                colourless(&stats["p99_duration_ms"]),
            ]);
        }
        table
    })
}
