//! `durable audit`: checks the invariants of a database, or lists who changed what.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use durable_server::config::DatabaseUrl;
use everruns_durable::audit::walk::{WalkOptions, Walked, walk};
use everruns_durable::persistence::StoreError;
use serde_json::json;

use crate::exit::{Exit, Failure, Result, chain};
use crate::input;
use crate::output::{Output, Table, ago, announce_aside, plain};
use crate::session::Session;

/// How often a walk tells how far it has come.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Which database to check, or what else to do.
#[derive(Debug, Args)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    check: CheckOptions,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Action {
    /// List changes, newest first. Takes the role admin.
    List(ListOptions),
}

/// Which database, and for how long.
#[derive(Debug, Args)]
struct CheckOptions {
    /// Check the invariants of this database, `sqlite:PATH` or `postgres://…`, run by run and with little memory. It may be in use; nothing is changed. Ends with 1 if an invariant is broken.
    #[arg(
        long,
        required = true,
        env = "DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    db: Option<DatabaseUrl>,
    /// Report work that is overdue by more than so many seconds as stuck; 0 for a database that nothing works on, such as a backup.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    stuck_after: u64,
    /// Stop after so many seconds, with what was found so far.
    #[arg(long, value_name = "SECONDS")]
    time_max: Option<u64>,
    /// Stop after so many violations.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    violations_max: u32,
}

/// Which changes.
#[derive(Debug, Args)]
struct ListOptions {
    /// Only by whoever has this name: a token's.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only by this operation, such as `terminate_workflow`.
    #[arg(long, value_name = "OPERATION")]
    action: Option<String>,
    /// Only of this kind of thing.
    #[arg(long, value_name = "KIND", value_parser = ["run", "dead_letter", "dead_letters", "schedule", "worker", "breaker"])]
    kind: Option<String>,
    /// Only of what has this id.
    #[arg(long, value_name = "ID")]
    target: Option<String>,
    /// Only at or after this instant (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = input::instant)]
    from: Option<String>,
    /// Only before this instant (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = input::instant)]
    until: Option<String>,
    /// At most so many, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u16,
    /// Go on where a page ended.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(
    options: &Options,
    session: impl FnOnce() -> Result<Session>,
    output: &Output,
) -> Result<()> {
    match (&options.action, &options.check.db) {
        (Some(Action::List(options)), _) => list(options, &session()?).await,
        (None, Some(db)) => check(db, &options.check, output).await,
        (None, None) => Err(Failure::usage("name a database with --db")),
    }
}

/// Exit code 1 says that an invariant is broken: a database that cannot be opened has another one.
fn cannot_check(error: StoreError) -> Failure {
    match error {
        StoreError::Open { .. } => Failure::new(Exit::Unreachable, chain(&error)),
        other => other.into(),
    }
}

async fn check(db: &DatabaseUrl, options: &CheckOptions, output: &Output) -> Result<()> {
    let walk_options = WalkOptions {
        stuck_after: (options.stuck_after > 0).then(|| Duration::from_secs(options.stuck_after)),
        time_max: options.time_max.map(Duration::from_secs),
        violations_max: usize::try_from(options.violations_max).unwrap_or(usize::MAX),
    };
    let mut told = Instant::now();
    let walked = walk(db.expose(), walk_options, |so_far| {
        if told.elapsed() >= PROGRESS_INTERVAL {
            told = Instant::now();
            announce_aside(&summary(so_far));
        }
    })
    .await
    .map_err(cannot_check)?;
    let violations: Vec<_> = walked
        .report
        .violations
        .iter()
        .map(|found| json!({"invariant": found.invariant.id(), "run": found.run, "message": found.message}))
        .collect();
    output.list(&violations, || {
        let mut table = Table::new(["INVARIANT", "RUN", "FOUND"]);
        for found in &walked.report.violations {
            let run = found.run.map_or_else(String::new, |run| run.to_string());
            table.row([
                found.invariant.id().into(),
                run.into(),
                found.message.as_str().into(),
            ]);
        }
        table
    })?;
    announce_aside(&summary(&walked));
    if let Some(run) = walked.first_too_large {
        announce_aside(&format!(
            "{} runs are too large to be checked, the first of them {run}",
            walked.too_large
        ));
    }
    if !walked.complete {
        announce_aside("the check was stopped before its end");
    }
    if walked.report.is_clean() {
        return Ok(());
    }
    let count = walked.report.violations.len();
    Err(Failure::new(
        Exit::Failure,
        format!("{count} violations were found"),
    ))
}

fn summary(walked: &Walked) -> String {
    format!(
        "{} runs, {} events and {} keys checked, {} violations",
        walked.report.runs,
        walked.report.events,
        walked.keys,
        walked.report.violations.len()
    )
}

async fn list(options: &ListOptions, session: &Session) -> Result<()> {
    let texts = [
        ("actor", &options.actor),
        ("action", &options.action),
        ("target_kind", &options.kind),
        ("target_id", &options.target),
        ("from", &options.from),
        ("until", &options.until),
        ("cursor", &options.cursor),
    ];
    let mut query: Vec<(&str, String)> = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text.clone()?)))
        .collect();
    query.push(("limit", options.limit.to_string()));
    let answer = session.api.get(&["audit"], &query).await?;
    session.output.page(&answer, "audit", |rows| {
        let mut table = Table::new(["AT", "ACTOR", "ROLE", "ACTION", "KIND", "TARGET", "DETAIL"]);
        for row in rows {
            table.row([
                ago(&row["at"]).into(),
                plain(&row["actor"]).into(),
                plain(&row["role"]).into(),
                plain(&row["action"]).into(),
                plain(&row["target_kind"]).into(),
                plain(&row["target_id"]).into(),
                plain(&row["detail"]).into(),
            ]);
        }
        table
    })
}
