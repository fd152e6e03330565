//! `durable worker`: hosts `durable.program` and the built-in activities, or looks after those who host something.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::exit::{Exit, Failure, Result};
use crate::host::{self, Hosting};
use crate::output::{Cell, Table, ago, plain};
use crate::session::Session;

/// Host, or look after those who do.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Options {
    #[command(flatten)]
    hosting: Hosting,
    #[command(subcommand)]
    action: Option<Action>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List workers.
    List(List),
    /// Let a worker finish what it does and take nothing new.
    Drain {
        /// Its id.
        id: String,
    },
}

/// Which ones.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only of this group.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(
    options: Options,
    ca: Option<&Path>,
    session: impl FnOnce() -> Result<Session>,
) -> Result<()> {
    match options.action {
        // Not by `args_conflicts_with_subcommands`: that refuses the flags of all commands, such as `-o json`, too.
        Some(_) if options.hosting.is_given() => Err(Failure::usage(
            "hosting and looking after workers are two things: leave out the flags, or the command behind them",
        )),
        Some(action) => look_after(&action, &session()?).await,
        None => host::run(options.hosting, ca).await,
    }
}

async fn look_after(action: &Action, session: &Session) -> Result<()> {
    match action {
        Action::List(options) => list(options, session).await,
        Action::Drain { id } => {
            session
                .do_and_say(
                    &["workers", id, "drain"],
                    &json!({}),
                    &format!("{id} is asked to finish what it does and to take nothing new"),
                )
                .await
        }
    }
}

async fn list(options: &List, session: &Session) -> Result<()> {
    let mut answer = session.api.get(&["workers"], &[]).await?;
    if let Some(group) = &options.group {
        let mut workers = answer.field("workers").items();
        workers.retain(|worker| worker["worker_group"] == group.as_str());
        answer = answer
            .with_items("workers", &workers)
            .map_err(|error| Failure::new(Exit::Failure, error))?;
    }
    session.output.page(&answer, "workers", |workers| {
        let mut table = Table::new(["ID", "STATUS", "GROUP", "LOAD", "LAST SEEN", "ACTIVITIES"]);
        for worker in workers {
            let types = worker["activity_types"].as_array().into_iter().flatten();
            let types = types
                .filter_map(|name| name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            table.row([
                plain(&worker["id"]).into(),
                Cell::status(plain(&worker["status"])),
                plain(&worker["worker_group"]).into(),
                format!(
                    "{}/{}",
                    plain(&worker["current_load"]),
                    plain(&worker["max_concurrency"])
                )
                .into(),
                ago(&worker["last_heartbeat_at"]).into(),
                types.into(),
            ]);
        }
        table
    })
}
