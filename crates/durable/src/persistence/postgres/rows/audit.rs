//! Audit rows.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::model::{AuditFilter, AuditKind, AuditRecord, AuditTarget};
use crate::persistence::postgres::bind::{Call, at, column, limit, nullable, payload, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::audit;

/// New rows.
pub(in crate::persistence::postgres) fn insert<'a>(rows: &[&'a AuditRecord]) -> Call<'a> {
    let params = vec![
        column(rows, |r| r.id),
        column(rows, |r| at(r.at)),
        column(rows, |r| r.request_id),
        column(rows, |r| r.actor.as_str()),
        column(rows, |r| r.role.as_str()),
        column(rows, |r| r.action.as_str()),
        nullable(rows, |r| r.idempotency_key.as_deref()),
        column(rows, |r| r.target.kind.as_str()),
        column(rows, |r| r.target.id.as_str()),
        nullable(rows, |r| payload(&r.detail)),
    ];
    Call::new(&audit::INSERT_AUDIT, params)
}

/// The oldest rows from before then go, at most so many.
pub(in crate::persistence::postgres) fn forget(before: Timestamp, max: usize) -> Call<'static> {
    let filter = AuditFilter {
        until: Some(before),
        ..AuditFilter::default()
    };
    let params = vec![value(filter.end_id()), value(at(before)), value(limit(max))];
    Call::new(&audit::FORGET_AUDIT, params)
}

/// A row; the order is that of `audit_columns`.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<AuditRecord> {
    Ok(AuditRecord {
        id: row.next()?,
        at: row.at()?,
        request_id: row.next()?,
        actor: row.next()?,
        role: row.next()?,
        action: row.next()?,
        idempotency_key: row.next()?,
        target: AuditTarget {
            kind: row.name(AuditKind::parse)?,
            id: row.next()?,
        },
        detail: row.payload()?,
    })
}
