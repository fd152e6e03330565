//! Audit rows.

use durable_core::Timestamp;
use rusqlite::params;

use crate::persistence::StoreResult;
use crate::persistence::model::{AuditFilter, AuditKind, AuditRecord, AuditTarget, Page};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::{Db, Filtered};
use crate::persistence::sqlite::sql::audit as sql;
use crate::persistence::sqlite::value::{At, Body, Id, Until, rows};

pub(crate) fn insert(db: Db<'_>, row: &AuditRecord) -> StoreResult<()> {
    db.run(
        sql::INSERT,
        params![
            Id(row.id),
            At(row.at),
            Id(row.request_id),
            row.actor,
            row.role,
            row.action,
            row.idempotency_key,
            row.target.kind.as_str(),
            row.target.id,
            Body(&row.detail),
        ],
    )?;
    Ok(())
}

/// The oldest rows from before then go, at most so many; answers how many.
pub(crate) fn forget(db: Db<'_>, before: Timestamp, max: usize) -> StoreResult<u64> {
    let filter = AuditFilter {
        until: Some(before),
        ..AuditFilter::default()
    };
    let end = filter.end_id().map(Id);
    let gone = db.run(sql::FORGET, params![end, Until(before), rows(max)])?;
    Ok(gone as u64)
}

pub(crate) fn list(db: Db<'_>, filter: &AuditFilter, page: Page) -> StoreResult<Vec<AuditRecord>> {
    let mut query = Filtered::new(sql::LIST);
    query.and(sql::BY_ACTOR, filter.actor.as_ref());
    query.and(sql::BY_ACTION, filter.action.as_ref());
    query.and(sql::OF_KIND, filter.kind.map(AuditKind::as_str));
    query.and(sql::OF_TARGET, filter.target_id.as_ref());
    query.and(sql::OF_REQUEST, filter.request_id.map(Id));
    query.and(sql::FROM, filter.from.map(Until));
    query.and(sql::UNTIL, filter.until.map(Until));
    query.and(sql::ID_FROM, filter.first_id().map(Id));
    query.and(sql::ID_UNTIL, filter.end_id().map(Id));
    query.text(sql::PAGE);
    query.bind(rows(page.rows()));
    query.bind(rows(page.offset));
    query.all(db, record)
}

/// All rows, by id.
pub(crate) fn dump(db: Db<'_>) -> StoreResult<Vec<AuditRecord>> {
    db.all(sql::DUMP, [], record)
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<AuditRecord> {
    Ok(AuditRecord {
        id: row.id()?,
        at: row.at()?,
        request_id: row.id()?,
        actor: row.text()?,
        role: row.text()?,
        action: row.text()?,
        idempotency_key: row.text_opt()?,
        target: AuditTarget {
            kind: row.name(AuditKind::parse)?,
            id: row.text()?,
        },
        detail: row.body()?,
    })
}
