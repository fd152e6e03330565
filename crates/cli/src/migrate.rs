//! `durable migrate`: the schema of a database.

use clap::{Args, Subcommand};
use durable_server::config::DatabaseUrl;
use everruns_durable::persistence::migrations::{MigrationState, MigrationStatus, validate};
use everruns_durable::persistence::schema;
use serde_json::json;

use crate::exit::{Exit, Failure, Result};
use crate::output::{Cell, Output, Table, print};

/// What to do with which database.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Option<Action>,
    /// The database: `sqlite:PATH` or `postgres://…`.
    #[arg(
        long,
        env = "DATABASE_URL",
        hide_env_values = true,
        global = true,
        default_value = "sqlite:durable.db"
    )]
    db: DatabaseUrl,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run what is pending. Safe at every start and by many at once. What happens without a further word.
    Up,
    /// Show every migration and where it stands.
    Status,
    /// Fail unless this build can work with the schema and no migration is pending.
    Validate,
    /// Print the statements without running them.
    Print,
}

/// Carries it out.
pub(crate) async fn run(options: &Options, output: &Output) -> Result<()> {
    let db = options.db.expose();
    match options.action.as_ref().unwrap_or(&Action::Up) {
        Action::Up => show(&schema::up(db).await?, output),
        Action::Status => show(&schema::status(db).await?, output),
        Action::Validate => {
            let status = schema::status(db).await?;
            show(&status, output)?;
            validate(&status)?;
            if status
                .iter()
                .any(|migration| migration.state == MigrationState::Pending)
            {
                return Err(Failure::new(Exit::Conflict, "migrations are pending")
                    .hint("run `durable migrate up`"));
            }
            Ok(())
        }
        Action::Print => print(&schema::print(db)?),
    }
}

fn show(status: &[MigrationStatus], output: &Output) -> Result<()> {
    let state = |migration: &MigrationStatus| migration.state.as_str();
    let rows: Vec<_> = status
        .iter()
        .map(|migration| json!({"version": migration.version, "name": migration.name, "state": state(migration)}))
        .collect();
    output.list(&rows, || {
        let mut table = Table::new(["VERSION", "NAME", "STATE"]);
        for migration in status {
            table.row([
                migration.version.to_string().into(),
                migration.name.clone().into(),
                Cell::status(state(migration)),
            ]);
        }
        table
    })
}
