//! A look at a file.

use std::path::Path;
use std::time::Duration;

use durable_core::Timestamp;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, params};
use uuid::Uuid;

use super::connect;
use super::sql::{counts, meta as sql};
use crate::persistence::StoreResult;
use crate::persistence::checkup::{Finding, OVERDUE_AFTER, Verdict, Work};
use crate::persistence::limits::PAGE_ROWS_MAX;

/// Share of free pages from which a file is worth making smaller.
const FREE_PERCENT_MAX: i64 = 50;
/// Below so many pages the share says nothing.
const PAGES_MIN: i64 = 1_000;

/// Looks at a file; it may be in use.
pub(in crate::persistence) fn checkup(path: &Path) -> StoreResult<Vec<Finding>> {
    let version = rusqlite::version();
    let mut findings = vec![match connect::check_version() {
        Ok(()) => Finding::new("version", Verdict::Ok, format!("SQLite {version}")),
        Err(error) => Finding::new("version", Verdict::Bad, error.to_string()),
    }];
    if !path.exists() {
        let text = format!("there is no file {} yet", path.display());
        findings.push(Finding::new("file", Verdict::Warn, text));
        return Ok(findings);
    }
    let conn = connect::open_to_look(path)?;
    let mode: String = conn.query_row(sql::JOURNAL_MODE, [], |row| row.get(0))?;
    findings.push(match mode.as_str() {
        "wal" => Finding::new("journal_mode", Verdict::Ok, "wal"),
        other => Finding::new(
            "journal_mode",
            Verdict::Warn,
            format!("{other}; a server sets wal when it opens the file"),
        ),
    });
    let pages: i64 = conn.query_row(sql::PAGES, [], |row| row.get(0))?;
    let free: i64 = conn.query_row(sql::FREE_PAGES, [], |row| row.get(0))?;
    let percent = free * 100 / pages.max(1);
    let text = format!("{pages} pages, {percent} % of them free");
    findings.push(if percent > FREE_PERCENT_MAX && pages > PAGES_MIN {
        let text = format!("{text}; they are used again, or stop the server and run VACUUM");
        Finding::new("bloat", Verdict::Warn, text)
    } else {
        Finding::new("bloat", Verdict::Ok, text)
    });
    let damage: String = conn.query_row(sql::QUICK_CHECK, [], |row| row.get(0))?;
    findings.push(match damage.as_str() {
        "ok" => Finding::new("integrity", Verdict::Ok, "no damage found"),
        damage => Finding::new(
            "integrity",
            Verdict::Bad,
            format!("{damage}; restore a backup"),
        ),
    });
    let migrated: i64 = conn.query_row(sql::HAS_MIGRATIONS, [], |row| row.get(0))?;
    if migrated > 0 {
        for work in Work::ALL {
            findings.push(overdue(&conn, work)?);
        }
    }
    Ok(findings)
}

fn overdue(conn: &Connection, work: Work) -> StoreResult<Finding> {
    let late = late(conn, work, OVERDUE_AFTER, PAGE_ROWS_MAX)?;
    Ok(work.finding(&late, PAGE_ROWS_MAX))
}

/// Runs whose work is overdue by more than so long, and by how many seconds, the longest first.
pub(super) fn late(
    conn: &Connection,
    work: Work,
    after: Duration,
    max: usize,
) -> StoreResult<Vec<(Uuid, i64)>> {
    let now = Timestamp::now().as_microsecond();
    let after = i64::try_from(after.as_micros()).unwrap_or(i64::MAX);
    let before = now.saturating_sub(after);
    let rows = i64::try_from(max).unwrap_or(i64::MAX);
    let shards: i32 = conn.query_row(sql::SHARDS, [], |row| row.get(0))?;
    let mut late = Vec::new();
    for shard in 0..shards {
        match work {
            Work::Turns => {
                for (workflow_type, version) in pairs::<String>(conn, counts::READY_TYPES, shard)? {
                    let params = params![shard, workflow_type, version, before, rows];
                    late.extend(late_items(conn, sql::OVERDUE_TURNS, params)?);
                }
            }
            Work::Tasks => {
                let params = params![shard, before, rows];
                late.extend(late_items(conn, sql::OVERDUE_TASKS, params)?);
            }
            Work::Unclaimed => {
                for (activity_type, priority) in pairs::<i64>(conn, sql::PENDING_GROUPS, shard)? {
                    let params = params![shard, activity_type, priority, before, rows];
                    late.extend(late_items(conn, sql::UNCLAIMED_TASKS, params)?);
                }
            }
            Work::Timers => {
                let params = params![shard, before, rows];
                late.extend(late_items(conn, sql::OVERDUE_TIMERS, params)?);
            }
        }
        // The longest overdue first; so many of each shard are enough for the first of all.
        late.sort_by_key(|(_, due)| *due);
        late.truncate(max);
    }
    Ok(late
        .into_iter()
        .map(|(run_id, due)| (run_id, (now - due) / 1_000_000))
        .collect())
}

/// A shard's pairs of a type and what comes with it.
fn pairs<T: FromSql>(
    conn: &Connection,
    statement: &str,
    shard: i32,
) -> StoreResult<Vec<(String, T)>> {
    let mut statement = conn.prepare(statement)?;
    let pairs = statement.query_map([shard], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(pairs.collect::<Result<_, _>>()?)
}

/// The runs of what is late, each with when it was due.
fn late_items(
    conn: &Connection,
    statement: &str,
    params: impl Params,
) -> StoreResult<Vec<(Uuid, i64)>> {
    let mut statement = conn.prepare(statement)?;
    let items = statement.query_map(params, |row| {
        let id: [u8; 16] = row.get(0)?;
        Ok((Uuid::from_bytes(id), row.get(1)?))
    })?;
    Ok(items.collect::<Result<_, _>>()?)
}
