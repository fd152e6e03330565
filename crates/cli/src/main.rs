//! The `durable` binary: one command for development, servers, workers and operations.

mod api;
mod audit;
mod batch;
mod breaker;
mod config;
mod dev;
mod dlq;
mod doctor;
mod exact;
mod exit;
mod health;
mod host;
mod input;
mod logging;
mod migrate;
mod output;
mod reference;
mod replay;
mod schedule;
mod server;
mod session;
mod set_aside;
mod settings;
mod signals;
mod task;
mod token;
mod worker;
mod workflow;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use api::{Api, ServerFlags};
use exit::Result;
use output::{Format, Output, announce_aside, print};
use session::Session;

/// Many small things are made on one thread and dropped on another; this one is good at that. Measured: half as many activities again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable execution: programs whose progress survives crashes, restarts and deploys.
///
/// Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 not allowed, 6 unreachable, 7 the workflow failed.
#[derive(Debug, Parser)]
#[command(name = "durable", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How data is printed: a table for people, JSON for programs.
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything on this machine, with nothing to set up.
    Dev(Box<dev::Options>),
    /// Run a server.
    Server(Box<server::Options>),
    /// Runs: start, find, talk to, mend, watch.
    #[command(subcommand)]
    Workflow(workflow::Action),
    /// The same to many runs at once.
    #[command(subcommand)]
    Batch(batch::Action),
    /// The task queue.
    #[command(subcommand)]
    Task(task::Action),
    /// Activities that failed for good.
    #[command(subcommand)]
    Dlq(dlq::Action),
    /// Runs that start by the clock.
    #[command(subcommand)]
    Schedule(schedule::Action),
    /// Host `durable.program` and the built-in activities for a server, or look after those who host something.
    Worker(Box<worker::Options>),
    /// Circuit breakers.
    #[command(subcommand)]
    Breaker(breaker::Action),
    /// Work of single runs that the store cannot handle, set aside so that the rest goes on.
    #[command(subcommand)]
    SetAside(set_aside::Action),
    /// Check the invariants of a database run by run; or list who changed what.
    Audit(audit::Options),
    /// How the system stands.
    Health,
    /// Look at the server and its database, and tell what wants attention.
    Doctor(doctor::Options),
    /// Replay recorded histories: can this build carry them on?
    Replay(replay::Options),
    /// The schema of a database.
    Migrate(migrate::Options),
    /// The server's settings.
    #[command(subcommand)]
    Config(config::Action),
    /// Who may come in: the token file.
    Token(token::Options),
    /// Print a script that completes commands in a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the version.
    Version,
    /// Print a reference page.
    #[command(hide = true)]
    Reference {
        /// Which one.
        page: reference::Page,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            announce_aside(&failure.to_string());
            failure.code()
        }
    }
}

async fn run(cli: Cli) -> Result<()> {
    let output = Output::new(cli.output);
    let session = || {
        Ok::<_, exit::Failure>(Session {
            api: Api::new(&cli.server)?,
            output,
        })
    };
    match cli.command {
        Command::Workflow(action) => workflow::run(&action, &session()?).await,
        Command::Batch(action) => batch::run(&action, &session()?).await,
        Command::Task(action) => task::run(&action, &session()?).await,
        Command::Dlq(action) => dlq::run(&action, &session()?).await,
        Command::Schedule(action) => schedule::run(&action, &session()?).await,
        Command::Worker(options) => worker::run(*options, cli.server.ca(), session).await,
        Command::SetAside(action) => set_aside::run(&action, &session()?).await,
        Command::Breaker(action) => breaker::run(&action, &session()?).await,
        Command::Audit(options) => audit::run(&options, session, &output).await,
        Command::Health => health::run(&session()?).await,
        Command::Doctor(options) => doctor::run(&options, Api::new(&cli.server), &output).await,
        Command::Replay(options) => replay::run(&options, &output),
        Command::Dev(options) => dev::run(*options).await,
        Command::Server(options) => server::run(*options).await,
        Command::Migrate(options) => migrate::run(&options, &output).await,
        Command::Config(action) => config::run(&action, &output),
        Command::Token(options) => token::run(&options, &output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "durable", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Reference { page } => reference::run(page, Cli::command()),
        Command::Version => {
            let version = env!("CARGO_PKG_VERSION");
            output.one(&serde_json::json!({"version": version}), || {
                format!("durable {version}")
            })
        }
    }
}
