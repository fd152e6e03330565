//! Dead letters.

use tokio_postgres::types::Type;

use super::filter::Query;
use crate::persistence::model::{DeadLetter, DeadLetterState, DlqFilter, LetterRank, Page};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{at, limit, maybe_at};
use crate::persistence::postgres::reader::read_all;
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::letters::letter_columns;
use crate::persistence::{Shards, StoreResult};

impl Postgres {
    pub(in crate::persistence::postgres) async fn query_dlq(
        &self,
        filter: &DlqFilter,
        page: Page,
    ) -> StoreResult<Vec<DeadLetter>> {
        let mut query = Query::new(concat!("SELECT ", letter_columns!()));
        query.text(" FROM {s}.durable_dead_letter_queue AS t WHERE TRUE");
        conditions(&mut query, self.shards, filter);
        query
            .text(" ORDER BY t.dead_at DESC, t.id, t.workflow_id")
            .with(" LIMIT $?", limit(page.rows()), Type::INT8)
            .with(" OFFSET $?", limit(page.offset), Type::INT8);
        read_all(&self.list(&query).await?, rows::letters::record)
    }
}

/// What a filter says.
pub(in crate::persistence::postgres) fn conditions<'a>(
    query: &mut Query<'a>,
    shards: Shards,
    filter: &'a DlqFilter,
) {
    query
        .with_some(" AND t.id = $?", filter.id, Type::UUID)
        .of_run(shards, filter.run_id)
        .with_some(
            " AND t.activity_type = $?",
            filter.activity_type.as_deref(),
            Type::TEXT,
        )
        .with_some(
            " AND t.state = $?",
            filter.state.map(DeadLetterState::as_str),
            Type::TEXT,
        )
        .with_some(
            " AND t.dead_at < $?",
            maybe_at(filter.dead_before),
            Type::TIMESTAMPTZ,
        );
    if let Some(LetterRank {
        dead_at,
        id,
        run_id,
    }) = filter.after
    {
        // The first condition alone is a range of the index.
        query
            .with(" AND t.dead_at <= $?", at(dead_at), Type::TIMESTAMPTZ)
            .with(" AND (t.dead_at < $?", at(dead_at), Type::TIMESTAMPTZ)
            .with(" OR (t.id, t.workflow_id) > ($?", id, Type::UUID)
            .with(", $?))", run_id, Type::UUID);
    }
}
