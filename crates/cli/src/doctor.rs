//! `durable doctor`: looks at the server and its database, and tells what wants attention.

use clap::Args;
use durable_server::config::DatabaseUrl;
use everruns_durable::persistence::checkup::{Finding, Verdict, checkup};
use everruns_durable::persistence::migrations::{MigrationState, validate};
use everruns_durable::persistence::schema;
use serde_json::Value;

use crate::api::Api;
use crate::exit::{Exit, Failure, Result};
use crate::output::{Cell, Output, Table, plain};
use crate::session::Session;

/// Clocks further apart than this make relative times and token expiry wrong.
const CLOCK_SECONDS_MAX: i64 = 2;

/// What to look at.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Look at this database too: `sqlite:PATH` or `postgres://…`; its settings, and work that is overdue by more than five minutes (turns, tasks, timers). Without it, the server only.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    db: Option<DatabaseUrl>,
}

/// What was found, and how the command ends if something of it is bad.
struct Findings {
    all: Vec<Finding>,
    exit: Exit,
}

impl Findings {
    const fn of(all: Vec<Finding>) -> Self {
        Self {
            all,
            exit: Exit::Failure,
        }
    }

    /// Nothing, since what was to be looked at cannot be.
    fn none(check: &str, why: String, exit: Exit) -> Self {
        let all = vec![Finding::new(check, Verdict::Bad, why)];
        Self { all, exit }
    }
}

/// Looks. Ends with 1 if something is bad, with 6 if the server or the database cannot be reached.
pub(crate) async fn run(options: &Options, api: Result<Api>, output: &Output) -> Result<()> {
    let Findings {
        all: mut findings,
        mut exit,
    } = server(api, output).await;
    if let Some(db) = &options.db {
        let found = database(db).await;
        findings.extend(found.all);
        if found.exit == Exit::Unreachable {
            exit = Exit::Unreachable;
        }
    }
    output.list(&findings, || {
        let mut table = Table::new(["CHECK", "VERDICT", "FOUND"]);
        for finding in &findings {
            let verdict = match finding.verdict {
                Verdict::Ok => Cell::status("ok"),
                Verdict::Warn => Cell::status("warn"),
                Verdict::Bad => Cell::from("BAD").colour(crate::output::Colour::Bad),
            };
            table.row([
                finding.check.as_str().into(),
                verdict,
                finding.text.as_str().into(),
            ]);
        }
        table
    })?;
    let bad = findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Bad)
        .count();
    if bad > 0 {
        return Err(Failure::new(
            exit,
            format!("{bad} of {} checks are bad", findings.len()),
        ));
    }
    Ok(())
}

async fn database(db: &DatabaseUrl) -> Findings {
    let mut findings = match checkup(db.expose()).await {
        Ok(found) => Findings::of(found),
        Err(error) => {
            let why = crate::exit::chain(&error);
            Findings::none("database", why, Failure::from(error).exit())
        }
    };
    findings.all.push(match schema::status(db.expose()).await {
        Err(error) => Finding::new("schema", Verdict::Bad, error.to_string()),
        Ok(status) => {
            let pending = status
                .iter()
                .filter(|migration| migration.state == MigrationState::Pending)
                .count();
            match validate(&status) {
                Err(error) => Finding::new("schema", Verdict::Bad, error.to_string()),
                Ok(()) if pending > 0 => Finding::new(
                    "schema",
                    Verdict::Warn,
                    format!(
                        "{pending} migrations are pending; run `durable migrate up --db …` with this database"
                    ),
                ),
                Ok(()) => Finding::new(
                    "schema",
                    Verdict::Ok,
                    format!("{} migrations applied", status.len()),
                ),
            }
        }
    });
    findings
}

async fn server(api: Result<Api>, output: &Output) -> Findings {
    let seen = async {
        let session = Session {
            api: api?,
            output: *output,
        };
        Ok::<_, Failure>((look(&session).await?, session.api.base().to_string()))
    };
    match seen.await {
        Ok((mut findings, base)) => {
            findings.insert(0, Finding::new("server", Verdict::Ok, base));
            Findings::of(findings)
        }
        Err(failure) => {
            let why = failure.to_string();
            let why = why.trim_start_matches("error: ").replace('\n', "; ");
            Findings::none("server", why, failure.exit())
        }
    }
}

async fn look(session: &Session) -> Result<Vec<Finding>> {
    let ahead = session.api.clock_ahead().await?.unwrap_or(0);
    let clock = if ahead.abs() <= CLOCK_SECONDS_MAX {
        Verdict::Ok
    } else {
        Verdict::Warn
    };
    let health = session.api.get(&["health"], &[]).await?;
    let number = |key: &str| health[key].as_u64().unwrap_or(0);
    let status = if health["status"] == "healthy" {
        Verdict::Ok
    } else {
        Verdict::Warn
    };
    let workers = if number("active_workers") > 0 {
        Verdict::Ok
    } else {
        Verdict::Warn
    };
    let letters = if number("dlq_size") == 0 {
        Verdict::Ok
    } else {
        Verdict::Warn
    };
    let breakers = health["open_circuit_breakers"]
        .as_array()
        .map_or(0, Vec::len);
    let breaker = if breakers == 0 {
        Verdict::Ok
    } else {
        Verdict::Warn
    };
    let failing = health["failing_chores"].as_array();
    let failing = failing.map_or(&[][..], Vec::as_slice);
    let chore = if failing.is_empty() {
        Finding::new("chores", Verdict::Ok, "none fails".to_owned())
    } else {
        let text = |chore: &Value| {
            let times = plain(&chore["failures_in_a_row"]);
            let (name, error) = (plain(&chore["chore"]), plain(&chore["last_error"]));
            format!("{name} failed {times} times in a row: {error}")
        };
        let texts: Vec<String> = failing.iter().map(text).collect();
        Finding::new("chores", Verdict::Bad, texts.join("; "))
    };
    let aside = health["set_aside"].as_array();
    let aside = aside.map_or(&[][..], Vec::as_slice);
    let aside = if aside.is_empty() {
        Finding::new("set aside", Verdict::Ok, "nothing")
    } else {
        let text = |aside: &Value| {
            let (kind, run) = (plain(&aside["kind"]), plain(&aside["workflow_id"]));
            format!("{kind} of {run}: {}", plain(&aside["reason"]))
        };
        let first: Vec<String> = aside.iter().take(SET_ASIDE_SHOWN).map(text).collect();
        let (count, first) = (aside.len(), first.join("; "));
        let hint = "`durable set-aside list` shows all, `durable set-aside retry RUN` tries again";
        Finding::new(
            "set aside",
            Verdict::Bad,
            format!("{count}: {first}; {hint}"),
        )
    };
    Ok(vec![
        chore,
        aside,
        Finding::new(
            "server clock",
            clock,
            format!("{ahead} s ahead of this machine's"),
        ),
        Finding::new(
            "health",
            status,
            format!(
                "{}, load {} %",
                plain(&health["status"]),
                plain(&health["load_percentage"])
            ),
        ),
        Finding::new(
            "workers",
            workers,
            format!(
                "{} active of {}",
                number("active_workers"),
                number("total_workers")
            ),
        ),
        versions(session).await?,
        Finding::new(
            "dead letters",
            letters,
            format!("{}; `durable dlq list` shows them", number("dlq_size")),
        ),
        Finding::new("breakers", breaker, format!("{breakers} open")),
        stuck(session).await?,
    ])
}

/// Most items that are set aside of which the report gives the reason.
const SET_ASIDE_SHOWN: usize = 5;

/// Workers of several builds at once are fine during a deploy, and worth knowing otherwise.
async fn versions(session: &Session) -> Result<Finding> {
    let answer = session.api.get(&["workers"], &[]).await?;
    let workers = answer["workers"].as_array().into_iter().flatten();
    let mut versions: Vec<String> = workers.map(|worker| plain(&worker["version"])).collect();
    versions.sort();
    versions.dedup();
    let verdict = if versions.len() <= 1 {
        Verdict::Ok
    } else {
        Verdict::Warn
    };
    Ok(Finding::new(
        "versions",
        verdict,
        match versions.as_slice() {
            [] => "no workers".to_owned(),
            [one] => format!("all workers have {one}"),
            several => format!("workers have {}", several.join(", ")),
        },
    ))
}

async fn stuck(session: &Session) -> Result<Finding> {
    let query = [("blocked", "true".to_owned()), ("limit", "1000".to_owned())];
    let answer = session.api.get(&["workflows"], &query).await?;
    let runs = answer["workflows"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    Ok(match runs.first() {
        None => Finding::new("stuck runs", Verdict::Ok, "none"),
        Some(first) => {
            let more = if answer["next_cursor"].is_null() {
                ""
            } else {
                " or more"
            };
            let why = first["blocked"]["reason"]
                .as_str()
                .unwrap_or("no reason given");
            let id = first
                .get("id")
                .map_or_else(String::new, |id: &Value| plain(id));
            let text = format!(
                "{}{more} are blocked, such as {id}: {why}; `durable workflow why {id}` tells more",
                runs.len()
            );
            Finding::new("stuck runs", Verdict::Bad, text)
        }
    })
}
