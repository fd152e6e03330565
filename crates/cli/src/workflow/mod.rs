//! `durable workflow`: runs, from their start to their end.

mod again;
mod end;
mod find;
mod look;
mod mend;
mod start;
mod talk;
mod watch;

use clap::{Args, Subcommand};

use crate::exit::Result;
use crate::session::Session;

pub(crate) use find::Filter;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Start a run.
    Start(start::Options),
    /// List runs, the newest first.
    List(find::Options),
    /// Show a run.
    Get(Named),
    /// Show a run's history.
    Events(look::Events),
    /// Wait for a run's end and print its result. Ends with 7 if the run failed.
    Result(end::Options),
    /// Send a signal to a run.
    Signal(talk::Signal),
    /// Ask a run something.
    Query(talk::Query),
    /// Change something in a run, and print its answer.
    Update(talk::Update),
    /// Ask a run to end; it may clean up first.
    Cancel(mend::Reasoned),
    /// End a run at once, without clean-up.
    Terminate(mend::Reasoned),
    /// Take a failed run back to just before what failed.
    Retry(Named),
    /// Take a run back to just after one of its events.
    Reset(mend::Reset),
    /// Delete a run that has ended, with its history and payloads, for good.
    Delete(mend::Delete),
    /// Tell what a run waits for.
    Why(Named),
    /// Print a run's history as a file that `durable replay` reads.
    Export(look::Export),
    /// Follow a run until it ends. Ends with 7 if the run failed.
    Watch(Named),
}

/// Which run.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The run's id, or a workflow id, which means its newest run.
    #[arg(value_name = "RUN")]
    run: String,
}

/// Carries it out.
pub(crate) async fn run(action: &Action, session: &Session) -> Result<()> {
    match action {
        Action::Start(options) => start::run(options, session).await,
        Action::List(options) => find::run(options, session).await,
        Action::Get(named) => look::get(named, session).await,
        Action::Events(options) => look::events(options, session).await,
        Action::Result(options) => end::run(options, session).await,
        Action::Signal(options) => talk::signal(options, session).await,
        Action::Query(options) => talk::query(options, session).await,
        Action::Update(options) => talk::update(options, session).await,
        Action::Cancel(options) => mend::cancel(options, session).await,
        Action::Terminate(options) => mend::terminate(options, session).await,
        Action::Retry(named) => mend::retry(named, session).await,
        Action::Reset(options) => mend::reset(options, session).await,
        Action::Delete(options) => mend::delete(options, session).await,
        Action::Why(named) => look::why(named, session).await,
        Action::Export(options) => look::export(options, session).await,
        Action::Watch(named) => watch::run(named, session).await,
    }
}
