//! `durable migrate`: the schema of a database.

use clap::{Args, Subcommand};
use everruns_durable::persistence::migrations::{MigrationState, MigrationStatus, validate};
use everruns_durable::persistence::schema;

/// What to do with which database.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
    /// The database: `sqlite:PATH` or `postgres://…`.
    #[arg(
        long,
        env = "DATABASE_URL",
        global = true,
        default_value = "sqlite:durable.db"
    )]
    db: String,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run what is pending. Safe at every start and by many at once.
    Up,
    /// Show every migration and where it stands.
    Status,
    /// Fail unless the schema is exactly this build's.
    Validate,
    /// Print the statements without running them.
    Print,
}

/// Carries it out.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    match options.action {
        Action::Up => show(&schema::up(&options.db).await?),
        Action::Status => show(&schema::status(&options.db).await?),
        Action::Validate => {
            let status = schema::status(&options.db).await?;
            show(&status);
            validate(&status)?;
            if status.iter().any(|m| m.state == MigrationState::Pending) {
                anyhow::bail!("migrations are pending; run `durable migrate up`");
            }
        }
        Action::Print => println!("{}", schema::print(&options.db)?),
    }
    Ok(())
}

fn show(status: &[MigrationStatus]) {
    for migration in status {
        println!(
            "{:>4}  {:<40} {:?}",
            migration.version, migration.name, migration.state
        );
    }
}
