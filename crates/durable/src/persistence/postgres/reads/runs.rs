//! Runs and what is read with them.

use std::collections::BTreeMap;

use durable_core::AttributeValue;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::filter::Query;
use crate::persistence::model::{
    Attributes, ClaimedTurn, History, Page, RunFilter, RunRecord, StepLogFilter, StepLogRecord,
    UpdateRecord, WorkflowStatus,
};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{Call, at, by_shard, column, limit, maybe_at, value};
use crate::persistence::postgres::reader::{Reader, read_all, read_first};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::runs::run_columns;
use crate::persistence::postgres::sql::{attributes, events, inbox, logs, runs, updates};
use crate::persistence::postgres::tx::facts_by_run;
use crate::persistence::sql::tx::Concern;
use crate::persistence::{StoreError, StoreResult};

impl Postgres {
    pub(in crate::persistence::postgres) async fn read_turns(
        &self,
        run_ids: &[Uuid],
    ) -> StoreResult<Vec<Option<ClaimedTurn>>> {
        let groups = by_shard(run_ids, |id| self.shards.of_run(*id));
        let mut calls = Vec::new();
        for statement in [&runs::READ_RUNS, &inbox::READ_FACTS] {
            for (shard, ids) in &groups {
                let params = vec![value(*shard), column(ids, |id| *id)];
                calls.push(Call::new(statement, params));
            }
        }
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.read(Concern::Events, &calls).await?;
        let (runs, facts) = answers.split_at(groups.len());
        let mut found = BTreeMap::<Uuid, ClaimedTurn>::new();
        for rows in runs {
            for run in read_all(rows, rows::runs::record)? {
                let turn = ClaimedTurn {
                    run,
                    facts: Vec::new(),
                };
                found.insert(turn.run.id, turn);
            }
        }
        for rows in facts {
            for (run_id, facts) in facts_by_run(rows)? {
                if let Some(turn) = found.get_mut(&run_id) {
                    turn.facts = facts;
                }
            }
        }
        Ok(run_ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    pub(in crate::persistence::postgres) async fn read_history(
        &self,
        run_id: Uuid,
        after: i64,
        most: Option<usize>,
    ) -> StoreResult<Option<History>> {
        let shard = self.shards.of_run(run_id);
        let mut events = vec![value(shard), value(run_id), value(after)];
        let statement = match most {
            None => &events::READ_EVENTS,
            Some(most) => {
                events.push(value(limit(most)));
                &events::READ_EVENT_PAGE
            }
        };
        let calls = [
            Call::new(&runs::READ_RUNS, vec![value(shard), value(vec![run_id])]),
            Call::new(statement, events),
        ];
        let answers = self.read(Concern::Events, &calls).await?;
        let Some(run) = read_first(&answers[0], rows::runs::record)? else {
            return Ok(None);
        };
        let events = read_all(&answers[1], rows::events::record)?;
        Ok(Some(History { run, events }))
    }

    pub(in crate::persistence::postgres) async fn read_run(
        &self,
        run_id: Uuid,
    ) -> StoreResult<Option<RunRecord>> {
        let params = vec![value(self.shards.of_run(run_id)), value(vec![run_id])];
        let call = Call::new(&runs::READ_RUNS, params);
        read_first(
            &self.read_one(Concern::Events, call).await?,
            rows::runs::record,
        )
    }

    pub(in crate::persistence::postgres) async fn read_update(
        &self,
        run_id: Uuid,
        update_id: &str,
    ) -> StoreResult<Option<UpdateRecord>> {
        let shard = self.shards.of_run(run_id);
        let params = vec![value(shard), value(vec![run_id]), value(vec![update_id])];
        let call = Call::new(&updates::READ_UPDATES, params);
        read_first(
            &self.read_one(Concern::Events, call).await?,
            rows::updates::record,
        )
    }

    pub(in crate::persistence::postgres) async fn read_attributes(
        &self,
        run_id: Uuid,
    ) -> StoreResult<Attributes> {
        let params = vec![value(self.shards.of_run(run_id)), value(run_id)];
        let call = Call::new(&attributes::READ_ATTRIBUTES, params);
        let rows = self.read_one(Concern::Registry, call).await?;
        Ok(rows::attributes::of_run(read_all(
            &rows,
            rows::attributes::record,
        )?))
    }

    pub(in crate::persistence::postgres) async fn read_step_logs(
        &self,
        filter: StepLogFilter,
        page: Page,
    ) -> StoreResult<Vec<StepLogRecord>> {
        let params = vec![
            value(self.shards.of_run(filter.run_id)),
            value(filter.run_id),
            value(filter.after),
            value(limit(page.rows())),
            value(limit(page.offset)),
        ];
        let call = Call::new(&logs::READ_LOGS, params);
        read_all(
            &self.read_one(Concern::Registry, call).await?,
            rows::logs::record,
        )
    }

    /// Newest first: of every shard its newest, in the order of the primary key; of these the newest.
    pub(in crate::persistence::postgres) async fn query_runs(
        &self,
        filter: &RunFilter,
        page: Page,
    ) -> StoreResult<Vec<RunRecord>> {
        let mut query = Query::new(concat!("SELECT ", run_columns!()));
        query
            .with(
                " FROM generate_series(0, $? - 1) AS shard(n)",
                self.shard_count(),
                Type::INT4,
            )
            .text(" CROSS JOIN LATERAL (SELECT * FROM {s}.durable_workflow_instances AS r")
            .text(" WHERE r.partition_key = shard.n");
        conditions(&mut query, filter);
        let reach = page.rows().saturating_add(page.offset);
        query
            .with(
                " ORDER BY r.id DESC LIMIT $?) AS r",
                limit(reach),
                Type::INT8,
            )
            .with(
                " ORDER BY r.id DESC LIMIT $?",
                limit(page.rows()),
                Type::INT8,
            )
            .with(" OFFSET $?", limit(page.offset), Type::INT8);
        read_all(&self.list(&query).await?, rows::runs::record)
    }

    pub(in crate::persistence::postgres) async fn query_run_count(
        &self,
        filter: &RunFilter,
    ) -> StoreResult<u64> {
        let mut query = Query::new("SELECT count(*) FROM {s}.durable_workflow_instances AS r");
        query.with(
            " WHERE r.partition_key < $?",
            self.shard_count(),
            Type::INT4,
        );
        conditions(&mut query, filter);
        let count = read_first(&self.list(&query).await?, Reader::u64)?;
        count.ok_or_else(|| StoreError::Corrupt {
            message: "a count came back without its row".to_owned(),
            source: None,
        })
    }

    fn shard_count(&self) -> i32 {
        i32::from(self.shards.count())
    }
}

fn conditions<'a>(query: &mut Query<'a>, filter: &'a RunFilter) {
    if !filter.statuses.is_empty() {
        let names: Vec<&str> = filter
            .statuses
            .iter()
            .copied()
            .map(WorkflowStatus::as_str)
            .collect();
        query.with(" AND r.status = ANY($?)", names, Type::TEXT_ARRAY);
    }
    query
        .with_some(
            " AND r.workflow_type = $?",
            filter.workflow_type.as_deref(),
            Type::TEXT,
        )
        .with_some(
            " AND r.business_id = $?",
            filter.business_id.as_deref(),
            Type::TEXT,
        )
        .with_some(" AND r.parent_id = $?", filter.parent, Type::UUID)
        .with_some(
            " AND r.created_at >= $?",
            maybe_at(filter.created_from),
            Type::TIMESTAMPTZ,
        )
        .with_some(
            " AND r.created_at < $?",
            maybe_at(filter.created_until),
            Type::TIMESTAMPTZ,
        )
        .with_some(" AND r.id < $?", filter.before, Type::UUID);
    if filter.blocked {
        query.text(" AND r.blocked_build IS NOT NULL");
    }
    for (name, wanted) in &filter.attributes {
        query
            .text(" AND EXISTS (SELECT 1 FROM {s}.durable_search_attributes AS a")
            .text(" WHERE a.partition_key = r.partition_key AND a.workflow_id = r.id")
            .with(" AND a.name = $?", name.as_str(), Type::TEXT);
        match wanted {
            AttributeValue::Text(v) => {
                query.with(" AND a.value_text = $?)", v.as_str(), Type::TEXT)
            }
            AttributeValue::Int(v) => query.with(" AND a.value_int = $?)", *v, Type::INT8),
            AttributeValue::Double(v) => query.with(" AND a.value_double = $?)", *v, Type::FLOAT8),
            AttributeValue::Bool(v) => query.with(" AND a.value_bool = $?)", *v, Type::BOOL),
            AttributeValue::Time(v) => {
                query.with(" AND a.value_time = $?)", at(*v), Type::TIMESTAMPTZ)
            }
        };
    }
}
