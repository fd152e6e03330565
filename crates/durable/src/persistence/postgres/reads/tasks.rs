//! Queued tasks.

use tokio_postgres::types::Type;

use super::filter::Query;
use crate::persistence::StoreResult;
use crate::persistence::model::{Page, TaskFilter, TaskRecord, TaskStatus};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{at, limit};
use crate::persistence::postgres::reader::read_all;
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::tasks::task_columns;

impl Postgres {
    pub(in crate::persistence::postgres) async fn query_tasks(
        &self,
        filter: &TaskFilter,
        page: Page,
    ) -> StoreResult<Vec<TaskRecord>> {
        let mut query = Query::new(concat!("SELECT ", task_columns!()));
        query.text(" FROM {s}.durable_task_queue AS t WHERE TRUE");
        query
            .of_run(self.shards, filter.run_id)
            .with_some(
                " AND t.activity_type = $?",
                filter.activity_type.as_deref(),
                Type::TEXT,
            )
            .with_some(
                " AND t.status = $?",
                filter.status.map(TaskStatus::as_str),
                Type::TEXT,
            );
        if let Some(after) = filter.after {
            query
                .with(" AND t.priority <= $?", after.priority, Type::INT4)
                .with(" AND (t.priority < $?", after.priority, Type::INT4)
                .with(
                    " OR (t.visible_at, t.id, t.workflow_id) > ($?",
                    at(after.visible_at),
                    Type::TIMESTAMPTZ,
                )
                .with(", $?", after.id, Type::UUID)
                .with(", $?))", after.run_id, Type::UUID);
        }
        query
            .text(" ORDER BY t.priority DESC, t.visible_at, t.id, t.workflow_id")
            .with(" LIMIT $?", limit(page.rows()), Type::INT8)
            .with(" OFFSET $?", limit(page.offset), Type::INT8);
        read_all(&self.list(&query).await?, rows::tasks::record)
    }
}
