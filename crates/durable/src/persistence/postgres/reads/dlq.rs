//! Dead letters.

use tokio_postgres::types::Type;

use super::filter::Query;
use crate::persistence::StoreResult;
use crate::persistence::model::{DeadLetter, DeadLetterState, DlqFilter, Page};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{limit, maybe_at};
use crate::persistence::postgres::reader::read_all;
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::letters::letter_columns;

impl Postgres {
    pub(in crate::persistence::postgres) async fn query_dlq(
        &self,
        filter: &DlqFilter,
        page: Page,
    ) -> StoreResult<Vec<DeadLetter>> {
        let mut query = Query::new(concat!("SELECT ", letter_columns!()));
        query.text(" FROM {s}.durable_dead_letter_queue AS t WHERE TRUE");
        self.conditions(&mut query, filter);
        query
            .text(" ORDER BY t.dead_at DESC, t.id, t.workflow_id")
            .with(" LIMIT $?", limit(page.rows()), Type::INT8)
            .with(" OFFSET $?", limit(page.offset), Type::INT8);
        read_all(&self.list(&query).await?, rows::letters::record)
    }

    /// Deletes letters, newest first, but none for which a run still waits. Locks only what it deletes.
    pub(in crate::persistence::postgres) async fn delete_letters(
        &self,
        filter: &DlqFilter,
        max: usize,
    ) -> StoreResult<u64> {
        let mut query =
            Query::new("WITH pick AS MATERIALIZED (SELECT t.partition_key, t.workflow_id, t.id");
        query
            .text(" FROM {s}.durable_dead_letter_queue AS t WHERE NOT (")
            .text("t.parked AND t.state = 'dead' AND EXISTS (SELECT 1 FROM {s}.durable_task_queue AS q")
            .text(" WHERE q.partition_key = t.partition_key AND q.workflow_id = t.workflow_id AND q.id = t.id))");
        self.conditions(&mut query, filter);
        query
            .text(" ORDER BY t.dead_at DESC, t.id, t.workflow_id")
            .with(" LIMIT $? FOR UPDATE OF t)", limit(max), Type::INT8)
            .text(" DELETE FROM {s}.durable_dead_letter_queue AS d USING pick")
            .text(" WHERE d.partition_key = pick.partition_key")
            .text(" AND d.workflow_id = pick.workflow_id AND d.id = pick.id RETURNING d.id");
        let deleted = self.list(&query).await?.len();
        Ok(u64::try_from(deleted).unwrap_or(u64::MAX))
    }

    fn conditions<'a>(&self, query: &mut Query<'a>, filter: &'a DlqFilter) {
        if let Some(run_id) = filter.run_id {
            query
                .with(
                    " AND t.partition_key = $?",
                    self.shards.of_run(run_id),
                    Type::INT4,
                )
                .with(" AND t.workflow_id = $?", run_id, Type::UUID);
        }
        query
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
    }
}
