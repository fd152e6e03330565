//! Audit rows.

use tokio_postgres::types::Type;

use super::filter::Query;
use crate::persistence::StoreResult;
use crate::persistence::model::{AuditFilter, AuditKind, AuditRecord, Page};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{limit, maybe_at};
use crate::persistence::postgres::reader::read_all;
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::audit::audit_columns;

impl Postgres {
    pub(in crate::persistence::postgres) async fn query_audit(
        &self,
        filter: &AuditFilter,
        page: Page,
    ) -> StoreResult<Vec<AuditRecord>> {
        let mut query = Query::new(concat!("SELECT ", audit_columns!()));
        let kind = filter.kind.map(AuditKind::as_str);
        query
            .text(" FROM {s}.durable_audit WHERE TRUE")
            .with_some(" AND actor = $?", filter.actor.as_deref(), Type::TEXT)
            .with_some(" AND action = $?", filter.action.as_deref(), Type::TEXT)
            .with_some(" AND target_kind = $?", kind, Type::TEXT)
            .with_some(
                " AND target_id = $?",
                filter.target_id.as_deref(),
                Type::TEXT,
            )
            .with_some(" AND request_id = $?", filter.request_id, Type::UUID)
            .with_some(" AND at >= $?", maybe_at(filter.from), Type::TIMESTAMPTZ)
            .with_some(" AND at < $?", maybe_at(filter.until), Type::TIMESTAMPTZ)
            .with_some(" AND id >= $?", filter.first_id(), Type::UUID)
            .with_some(" AND id < $?", filter.end_id(), Type::UUID)
            .with(" ORDER BY id DESC LIMIT $?", limit(page.rows()), Type::INT8)
            .with(" OFFSET $?", limit(page.offset), Type::INT8);
        read_all(&self.list(&query).await?, rows::audit::record)
    }
}
