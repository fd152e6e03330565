//! Queued tasks.

use tokio_postgres::types::Type;

use super::filter::Query;
use crate::persistence::StoreResult;
use crate::persistence::model::{Page, TaskFilter, TaskRecord, TaskStatus};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{at, limit};
use crate::persistence::postgres::reader::read_all;
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::tasks::listed_task_columns;

/// The types that have pending tasks in a shard: from one to the next by the claims' index.
const PENDING_TYPES: &str = " CROSS JOIN LATERAL (WITH RECURSIVE kinds AS (\
     (SELECT t.activity_type FROM {s}.durable_task_queue AS t \
      WHERE t.partition_key = shard.n AND t.status = 'pending' \
      ORDER BY t.partition_key, t.activity_type LIMIT 1) \
     UNION ALL SELECT next.activity_type FROM kinds CROSS JOIN LATERAL (\
      SELECT t.activity_type FROM {s}.durable_task_queue AS t \
      WHERE t.partition_key = shard.n AND t.status = 'pending' \
        AND t.activity_type > kinds.activity_type \
      ORDER BY t.partition_key, t.activity_type LIMIT 1) AS next) \
     SELECT activity_type FROM kinds) AS kind";

impl Postgres {
    /// Pending tasks are read in the order of the claims' index, type by type, and merged; those of a
    /// run by its key. For anything else a shard's queue, which holds no finished work, is looked
    /// through, as far as the time limit allows: an index for it would be written with every task.
    pub(in crate::persistence::postgres) async fn query_tasks(
        &self,
        filter: &TaskFilter,
        page: Page,
    ) -> StoreResult<Vec<TaskRecord>> {
        let pending = filter.status == Some(TaskStatus::Pending) && filter.run_id.is_none();
        let each_type = pending && filter.activity_type.is_none();
        let mut query = Query::new(concat!("SELECT ", listed_task_columns!()));
        query
            .text(" FROM (SELECT c.*")
            .with(
                " FROM generate_series(0, $? - 1) AS shard(n)",
                i32::from(self.shards.count()),
                Type::INT4,
            )
            .text(if each_type { PENDING_TYPES } else { "" })
            .text(" CROSS JOIN LATERAL (SELECT t.partition_key, t.workflow_id, t.id")
            .text(", t.priority, t.visible_at FROM {s}.durable_task_queue AS t")
            .text(" WHERE t.partition_key = shard.n")
            .text(if each_type {
                " AND t.activity_type = kind.activity_type"
            } else {
                ""
            })
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
        let reach = page.rows().saturating_add(page.offset);
        query
            .text(" ORDER BY t.priority DESC, t.visible_at, t.id, t.workflow_id")
            .with(" LIMIT $?) AS c", limit(reach), Type::INT8)
            .text(" ORDER BY c.priority DESC, c.visible_at, c.id, c.workflow_id")
            .with(" LIMIT $?", limit(page.rows()), Type::INT8)
            .with(" OFFSET $?) AS k", limit(page.offset), Type::INT8)
            .text(
                " CROSS JOIN LATERAL (SELECT * FROM {s}.durable_task_queue AS q \
                 WHERE q.partition_key = k.partition_key AND q.workflow_id = k.workflow_id \
                 AND q.id = k.id LIMIT 1) AS t ORDER BY t.priority DESC, t.visible_at, t.id, t.workflow_id",
            );
        let found = if pending || filter.run_id.is_some() {
            self.list(&query).await?
        } else {
            self.scan(&query).await?
        };
        read_all(&found, rows::tasks::listed)
    }
}
