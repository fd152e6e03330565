//! `durable schedule`: runs that start by the clock.

use clap::{Args, Subcommand};
use durable_server::config::Period;
use serde::Serialize;
use serde_json::json;

use crate::exact::Exact;
use crate::exit::Result;
use crate::input;
use crate::output::{Cell, Table, ago, plain, until};
use crate::session::Session;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Make a schedule.
    Create(Create),
    /// List schedules.
    List,
    /// Show a schedule.
    Get(Named),
    /// Start nothing until it is resumed.
    Pause(Named),
    /// Go on.
    Resume(Named),
    /// Delete it; runs it has started go on.
    Delete(Named),
    /// Start a run now.
    Trigger(Named),
    /// Start what it would have started between two instants.
    Backfill(Backfill),
}

/// What, and when.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its id. Making it again is making it once.
    id: String,
    /// Five fields: minute, hour, day of month, month, day of week.
    #[arg(long, value_name = "CRON")]
    cron: String,
    /// The workflow's type.
    #[arg(long = "type", value_name = "TYPE")]
    workflow_type: String,
    /// The workflow's input: JSON, @FILE, or - for standard input.
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
    /// The zone of the clock, such as Europe/Berlin.
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// What to do where the run before has not ended.
    #[arg(long, value_name = "POLICY", ignore_case = true, value_parser = ["allow", "skip", "replace", "terminate", "buffer_one"])]
    overlap: Option<String>,
    /// Start what was missed while nothing ran, as far back as this.
    #[arg(long, value_name = "TIME")]
    catchup: Option<Period>,
}

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Its id.
    id: String,
}

/// Which one, between which instants.
#[derive(Debug, Args)]
pub(crate) struct Backfill {
    /// Its id.
    id: String,
    /// From this instant on (RFC 3339).
    #[arg(long, value_name = "INSTANT", value_parser = input::instant)]
    from: String,
    /// Until this one.
    #[arg(long, value_name = "INSTANT", value_parser = input::instant)]
    until: String,
}

/// Carries it out.
pub(crate) async fn run(action: &Action, session: &Session) -> Result<()> {
    let api = &session.api;
    let order = async |named: &Named, verb: &str, done: &str| {
        let done = format!("{done} {}", named.id);
        session
            .do_and_say(&["schedules", &named.id, verb], &json!({}), &done)
            .await
    };
    match action {
        Action::Create(options) => create(options, session).await,
        Action::List => {
            let answer = api
                .get(&["schedules"], &[("limit", "1000".to_owned())])
                .await?;
            session.output.page(&answer, "schedules", table)
        }
        Action::Get(named) => {
            let schedule = api.get(&["schedules", &named.id], &[]).await?;
            session.output.fields(&schedule, || {
                let names = schedule.as_object().into_iter().flatten();
                names
                    .map(|(name, _)| (name.clone(), schedule.field(name).plain().into()))
                    .collect()
            })
        }
        Action::Pause(named) => order(named, "pause", "paused").await,
        Action::Resume(named) => order(named, "resume", "resumed").await,
        Action::Delete(named) => {
            let answer = api.delete(&["schedules", &named.id]).await?;
            session
                .output
                .one(&answer, || format!("deleted {}", named.id))
        }
        Action::Trigger(named) => {
            let answer = api
                .post(&["schedules", &named.id, "trigger"], &json!({}))
                .await?;
            session.output.one(&answer, || plain(&answer["id"]))
        }
        Action::Backfill(options) => {
            let body = json!({"from": options.from, "to": options.until});
            let answer = api
                .post(&["schedules", &options.id, "backfill"], &body)
                .await?;
            session.output.one(&answer, || {
                format!(
                    "started {} runs",
                    answer["ids"].as_array().map_or(0, Vec::len)
                )
            })
        }
    }
}

/// A schedule, as the server reads it.
#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    cron: &'a str,
    workflow_type: &'a str,
    input: Exact,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    catchup_window_ms: Option<u64>,
}

async fn create(options: &Create, session: &Session) -> Result<()> {
    let millis = |window: Period| u64::try_from(window.0.as_millis()).unwrap_or(u64::MAX);
    let body = Body {
        id: &options.id,
        cron: &options.cron,
        workflow_type: &options.workflow_type,
        input: input::json(options.input.as_deref())?,
        time_zone: options.time_zone.as_deref(),
        overlap: options.overlap.as_deref().map(str::to_uppercase),
        catchup_window_ms: options.catchup.map(millis),
    };
    let answer = session.api.post(&["schedules"], &body).await?;
    session.output.one(&answer, || {
        format!(
            "{} starts next {}",
            options.id,
            until(&answer["next_fire_at"])
        )
    })
}

fn table(schedules: &[Exact]) -> Table {
    let mut table = Table::new(["ID", "STATUS", "CRON", "ZONE", "TYPE", "NEXT", "LAST"]);
    for schedule in schedules {
        let paused = schedule["paused"].as_bool() == Some(true);
        table.row([
            plain(&schedule["id"]).into(),
            Cell::status(if paused { "paused" } else { "active" }),
            plain(&schedule["cron"]).into(),
            plain(&schedule["time_zone"]).into(),
            plain(&schedule["workflow_type"]).into(),
            until(&schedule["next_fire_at"]).into(),
            ago(&schedule["last_fire_at"]).into(),
        ]);
    }
    table
}
