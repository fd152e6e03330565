//! A look at a database.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::Timestamp;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::instant::Instant;
use super::migrate::connect;
use super::options::PostgresOptions;
use super::schema::Schema;
use super::sql::{checkup as sql, clock};
use super::sqlstate::store_error;
use super::statement::Statement;
use crate::persistence::StoreResult;
use crate::persistence::checkup::{Finding, OVERDUE_AFTER, Verdict, Work};
use crate::persistence::limits::PAGE_ROWS_MAX;

/// The oldest version that is tried.
const VERSION_MIN: i64 = 140_000;
/// Settings, what they must be, and what happens otherwise.
const SETTINGS: [(&str, &[&str], Verdict, &str); 5] = [
    (
        "fsync",
        &["on"],
        Verdict::Bad,
        "a crash of the machine can destroy the database",
    ),
    (
        "full_page_writes",
        &["on"],
        Verdict::Bad,
        "a crash of the machine can destroy pages",
    ),
    (
        "synchronous_commit",
        &["on", "remote_apply", "remote_write", "local"],
        Verdict::Bad,
        "what was acknowledged can be lost in a crash",
    ),
    (
        "autovacuum",
        &["on"],
        Verdict::Bad,
        "the task queue slows down as dead rows pile up",
    ),
    (
        "track_counts",
        &["on"],
        Verdict::Bad,
        "autovacuum does not know what to clean",
    ),
];
/// Clocks further apart than this are worth mending: leases and timers go by the database's, log lines by ours.
const SKEW_MS_MAX: i64 = 1_000;
/// Dead rows in a table beyond which it is looked at at all.
const DEAD_ROWS_MIN: i64 = 10_000;

/// Looks at a database; changes nothing.
pub(in crate::persistence) async fn checkup(url: &str) -> StoreResult<Vec<Finding>> {
    let (client, options) = connect(url, &PostgresOptions::default()).await?;
    let schema = Schema::new(&options.schema)?;
    let mut findings = Vec::new();
    let settings = settings(&client).await?;
    findings.push(version(&settings));
    for (name, wanted, verdict, otherwise) in SETTINGS {
        let found = settings.get(name).map_or("unknown", String::as_str);
        findings.push(if wanted.contains(&found) {
            Finding::new(name, Verdict::Ok, found)
        } else {
            Finding::new(
                name,
                verdict,
                format!("{found}: {otherwise}; set it to {}", wanted[0]),
            )
        });
    }
    findings.push(clock_skew(&client).await?);
    findings.push(connections(&client, &settings, &options).await?);
    findings.push(long_transactions(&client).await?);
    let tables = ask(&client, &sql::DEAD_ROWS, &[&schema.name()]).await?;
    findings.push(dead_rows(&tables));
    if !tables.is_empty() {
        for work in Work::ALL {
            findings.push(overdue(&client, &schema, work).await?);
        }
    }
    Ok(findings)
}

/// Sent unnamed and typed, so that it works through a transaction pooler too.
async fn ask(
    client: &Client,
    statement: &Statement,
    values: &[&(dyn ToSql + Sync)],
) -> StoreResult<Vec<Row>> {
    let types = statement.params.iter().cloned();
    let params: Vec<(&(dyn ToSql + Sync), Type)> = values.iter().copied().zip(types).collect();
    client
        .query_typed(statement.sql, &params)
        .await
        .map_err(store_error)
}

async fn settings(client: &Client) -> StoreResult<BTreeMap<String, String>> {
    let mut names: Vec<&str> = SETTINGS.iter().map(|(name, ..)| *name).collect();
    names.extend(["server_version", "server_version_num", "max_connections"]);
    let rows = ask(client, &sql::SETTINGS, &[&names]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

fn number(settings: &BTreeMap<String, String>, name: &str) -> i64 {
    let text = settings.get(name).map_or("", String::as_str);
    text.parse().unwrap_or(0)
}

fn version(settings: &BTreeMap<String, String>) -> Finding {
    let shown = settings
        .get("server_version")
        .map_or("unknown", String::as_str);
    if number(settings, "server_version_num") >= VERSION_MIN {
        return Finding::new("version", Verdict::Ok, format!("PostgreSQL {shown}"));
    }
    Finding::new(
        "version",
        Verdict::Bad,
        format!("PostgreSQL {shown}; 14 or later is needed"),
    )
}

async fn clock_skew(client: &Client) -> StoreResult<Finding> {
    let before = Timestamp::now();
    let rows = ask(client, &clock::CLOCK, &[]).await?;
    let after = Timestamp::now();
    let theirs = rows
        .first()
        .map_or(before, |row| row.get::<_, Instant>(0).0);
    // Read somewhere between our two readings: only what lies outside of them is a difference.
    let behind = before.as_millisecond() - theirs.as_millisecond();
    let ahead = theirs.as_millisecond() - after.as_millisecond();
    let skew = behind.max(ahead).max(0);
    let text = format!("{skew} ms apart from this machine's");
    Ok(if skew <= SKEW_MS_MAX {
        Finding::new("clock", Verdict::Ok, text)
    } else {
        Finding::new("clock", Verdict::Warn, format!("{text}; run NTP on both"))
    })
}

async fn connections(
    client: &Client,
    settings: &BTreeMap<String, String>,
    options: &PostgresOptions,
) -> StoreResult<Finding> {
    let rows = ask(client, &sql::CONNECTIONS, &[]).await?;
    let used: i64 = rows.first().map_or(0, |row| row.get(0));
    let max = number(settings, "max_connections");
    let pools = &options.pools;
    let own = [
        pools.task_pool_size,
        pools.event_pool_size,
        pools.result_pool_size,
        pools.registry_pool_size,
        pools.operator_pool_size,
        pools.activity_pool_size,
    ];
    let own: i64 = own.into_iter().map(i64::from).sum();
    let text = format!("{used} of {max} in use; one server takes up to {own}");
    Ok(if max < own {
        Finding::new(
            "connections",
            Verdict::Warn,
            format!("{text}: raise max_connections, or put a pooler in between"),
        )
    } else if used * 10 >= max * 9 {
        Finding::new(
            "connections",
            Verdict::Warn,
            format!("{text}: few are left"),
        )
    } else {
        Finding::new("connections", Verdict::Ok, text)
    })
}

async fn long_transactions(client: &Client) -> StoreResult<Finding> {
    let rows = ask(client, &sql::LONG_TRANSACTIONS, &[]).await?;
    let (count, longest): (i64, f64) = rows
        .first()
        .map_or((0, 0.0), |row| (row.get(0), row.get(1)));
    Ok(if count == 0 {
        Finding::new("long_transactions", Verdict::Ok, "none")
    } else {
        let text = format!(
            "{count} are open for more than 5 minutes, the longest for {longest:.0} s: dead rows cannot be cleaned up; end them"
        );
        Finding::new("long_transactions", Verdict::Warn, text)
    })
}

async fn overdue(client: &Client, schema: &Schema, work: Work) -> StoreResult<Finding> {
    let late = late(client, schema, work, OVERDUE_AFTER, PAGE_ROWS_MAX).await?;
    Ok(work.finding(&late, PAGE_ROWS_MAX))
}

/// Runs whose work is overdue by more than so long, and by how many seconds, the longest first.
pub(super) async fn late(
    client: &Client,
    schema: &Schema,
    work: Work,
    after: Duration,
    max: usize,
) -> StoreResult<Vec<(Uuid, i64)>> {
    let statement = match work {
        Work::Turns => &sql::LIST_OVERDUE_TURNS,
        Work::Tasks => &sql::LIST_OVERDUE_TASKS,
        Work::Unclaimed => &sql::LIST_UNCLAIMED_TASKS,
        Work::Timers => &sql::LIST_OVERDUE_TIMERS,
    };
    let (after, rows) = (after.as_secs_f64(), i64::try_from(max).unwrap_or(i64::MAX));
    let params: [(&(dyn ToSql + Sync), Type); 2] = [(&after, Type::FLOAT8), (&rows, Type::INT8)];
    let rows = client
        .query_typed(&schema.render(statement.sql), &params)
        .await
        .map_err(store_error)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

fn dead_rows(tables: &[Row]) -> Finding {
    let (mut total, mut worst) = (0, Vec::new());
    for row in tables {
        let (table, live, dead): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
        total += dead;
        if dead > DEAD_ROWS_MIN && dead > live {
            worst.push(format!("{table} ({dead} dead, {live} live)"));
        }
    }
    if worst.is_empty() {
        Finding::new("bloat", Verdict::Ok, format!("{total} dead rows"))
    } else {
        let text = format!(
            "{}: autovacuum does not keep up; lower autovacuum_vacuum_scale_factor for them",
            worst.join(", ")
        );
        Finding::new("bloat", Verdict::Warn, text)
    }
}
