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
            .with_some(" AND at >= $?", maybe_at(filter.from), Type::TIMESTAMPTZ)
            .with_some(" AND at < $?", maybe_at(filter.until), Type::TIMESTAMPTZ)
            .with_some(" AND id >= $?", filter.first_id(), Type::UUID)
            .with_some(" AND id < $?", filter.end_id(), Type::UUID);
        // The most selective of the filters given comes first, and its index is read.
        let request = filter.request_id;
        let mut order = request
            .is_some()
            .then_some(" ORDER BY request_id DESC, id DESC");
        query
            .with_some(" AND request_id >= $?", request, Type::UUID)
            .with_some(" AND request_id <= $?", request, Type::UUID);
        let texts = [
            (
                filter.target_id.as_deref(),
                [
                    " AND target_id = $?",
                    " AND target_id >= $?",
                    " AND target_id <= $?",
                ],
                " ORDER BY target_id DESC, id DESC",
            ),
            (
                filter.actor.as_deref(),
                [" AND actor = $?", " AND actor >= $?", " AND actor <= $?"],
                " ORDER BY actor DESC, id DESC",
            ),
            (
                filter.action.as_deref(),
                [" AND action = $?", " AND action >= $?", " AND action <= $?"],
                " ORDER BY action DESC, id DESC",
            ),
            (
                kind,
                [
                    " AND target_kind = $?",
                    " AND target_kind >= $?",
                    " AND target_kind <= $?",
                ],
                " ORDER BY target_kind DESC, id DESC",
            ),
        ];
        for (wanted, [equal, least, most], by_index) in texts {
            let Some(wanted) = wanted else { continue };
            if order.is_some() {
                query.with(equal, wanted, Type::TEXT);
                continue;
            }
            // A range of one value and not an equality: an equality leaves the order of ids, which
            // the primary key has too, and the planner would read that one from end to end for a
            // value that it takes for a common one.
            query
                .with(least, wanted, Type::TEXT)
                .with(most, wanted, Type::TEXT);
            order = Some(by_index);
        }
        query
            .text(order.unwrap_or(" ORDER BY id DESC"))
            .with(" LIMIT $?", limit(page.rows()), Type::INT8)
            .with(" OFFSET $?", limit(page.offset), Type::INT8);
        read_all(&self.list(&query).await?, rows::audit::record)
    }
}
