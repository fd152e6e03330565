//! A look at a file.

use std::path::Path;

use durable_core::Timestamp;
use rusqlite::Connection;
use uuid::Uuid;

use super::connect;
use super::sql::meta as sql;
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
    let statement = match work {
        Work::Turns => sql::OVERDUE_TURNS,
        Work::Tasks => sql::OVERDUE_TASKS,
        Work::Unclaimed => sql::UNCLAIMED_TASKS,
        Work::Timers => sql::OVERDUE_TIMERS,
    };
    let now = Timestamp::now().as_microsecond();
    let after = i64::try_from(OVERDUE_AFTER.as_micros()).unwrap_or(i64::MAX);
    let rows = i64::try_from(PAGE_ROWS_MAX).unwrap_or(i64::MAX);
    let mut statement = conn.prepare(statement)?;
    let late = statement.query_map([now - after, rows], |row| {
        let due: i64 = row.get(1)?;
        let id: [u8; 16] = row.get(0)?;
        Ok((Uuid::from_bytes(id), (now - due) / 1_000_000))
    })?;
    let late: Vec<(Uuid, i64)> = late.collect::<Result<_, _>>()?;
    Ok(work.finding(&late, PAGE_ROWS_MAX))
}
