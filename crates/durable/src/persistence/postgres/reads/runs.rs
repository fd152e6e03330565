//! Runs and what is read with them.

use std::collections::BTreeMap;

use durable_core::AttributeValue;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::filter::Query;
use crate::persistence::limits::{
    COUNT_MAX, HISTORY_PAGE_BYTES_MAX, HISTORY_PAGE_EVENTS_MAX, LIST_EXAMINED_MAX, PAGE_BYTES_MAX,
    SET_FACTS_BYTES_MAX,
};
use crate::persistence::model::{
    Attributes, ClaimedTurn, CountLimit, History, Page, RunCount, RunFilter, RunPage, RunRecord,
    RunSummary, StepLogFilter, StepLogPage, UpdateRecord, WorkflowStatus,
};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{Call, at, by_shard, column, limit, maybe_at, value};
use crate::persistence::postgres::reader::{Reader, read_all, read_first};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::runs::summary_columns;
use crate::persistence::postgres::sql::{attributes, events, logs, runs, updates};
use crate::persistence::sql::run_lists::{Driver, Found, Step, Walk, page_of};
use crate::persistence::sql::tx::Concern;
use crate::persistence::{StoreError, StoreResult};

impl Postgres {
    pub(in crate::persistence::postgres) async fn read_turns(
        &self,
        run_ids: &[Uuid],
    ) -> StoreResult<Vec<Option<ClaimedTurn>>> {
        let groups = by_shard(run_ids, |id| self.shards.of_run(*id));
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let mut calls = Vec::new();
        for (shard, ids) in &groups {
            let params = vec![value(*shard), column(ids, |id| *id)];
            calls.push(Call::new(&runs::READ_TURN_RUNS, params));
        }
        let bytes = SET_FACTS_BYTES_MAX / groups.len();
        for (shard, ids) in &groups {
            let ids = ids.iter().map(|id| **id).collect();
            calls.push(rows::inbox::read(*shard, ids, bytes));
        }
        let answers = self.read(Concern::Events, &calls).await?;
        let (runs, facts) = answers.split_at(groups.len());
        let mut waiting = BTreeMap::new();
        for rows in facts {
            waiting.append(&mut rows::inbox::by_run(rows)?);
        }
        let mut found = BTreeMap::<Uuid, ClaimedTurn>::new();
        for rows in runs {
            for run in read_all(rows, rows::runs::record)? {
                let of_run = waiting.remove(&run.id).unwrap_or_default();
                let turn = ClaimedTurn::new(run, of_run.facts, of_run.last);
                found.insert(turn.run.id, turn);
            }
        }
        Ok(run_ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    pub(in crate::persistence::postgres) async fn read_history(
        &self,
        run_id: Uuid,
        after: i64,
    ) -> StoreResult<Option<History>> {
        let shard = self.shards.of_run(run_id);
        let events = vec![
            value(shard),
            value(run_id),
            value(after),
            value(limit(HISTORY_PAGE_EVENTS_MAX)),
            value(limit(HISTORY_PAGE_BYTES_MAX)),
        ];
        let calls = [
            Call::new(&runs::READ_RUNS, vec![value(shard), value(vec![run_id])]),
            Call::new(&events::READ_EVENTS, events),
        ];
        let answers = self.read(Concern::Events, &calls).await?;
        let Some(run) = read_first(&answers[0], rows::runs::record)? else {
            return Ok(None);
        };
        let events = read_all(&answers[1], rows::events::record)?;
        Ok(Some(History { run, events }))
    }

    /// The run is read before its events: a page that was read with an older `sequence` than it
    /// shows says that there is more, never that there is not.
    pub(in crate::persistence::postgres) async fn read_event_page(
        &self,
        run_id: Uuid,
        after: i64,
        most: usize,
    ) -> StoreResult<Option<History>> {
        let shard = self.shards.of_run(run_id);
        let run = Call::new(&runs::READ_RUNS, vec![value(shard), value(vec![run_id])]);
        let events = vec![
            value(shard),
            value(run_id),
            value(after),
            value(limit(most)),
            value(limit(PAGE_BYTES_MAX)),
        ];
        let events = Call::new(&events::READ_EVENT_PAGE, events);
        let answers = self.look_up_all(&[run, events]).await?;
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
        // By the primary key, and part of the answer to every start: not an operators' read, which
        // waits while others list.
        let call = Call::new(&attributes::READ_ATTRIBUTES, params);
        let rows = self.read_one(Concern::Events, call).await?;
        Ok(rows::attributes::of_run(read_all(
            &rows,
            rows::attributes::record,
        )?))
    }

    pub(in crate::persistence::postgres) async fn read_step_logs(
        &self,
        filter: StepLogFilter,
        page: Page,
    ) -> StoreResult<StepLogPage> {
        let params = vec![
            value(self.shards.of_run(filter.run_id)),
            value(filter.run_id),
            value(filter.after),
            // One more than the page says whether it is the last.
            value(limit(page.rows() + 1)),
            value(limit(page.offset)),
            value(limit(PAGE_BYTES_MAX)),
        ];
        let rows = self.look_up(Call::new(&logs::READ_LOGS, params)).await?;
        let read = read_all(&rows, |row| Ok((rows::logs::record(row)?, row.next()?)))?;
        let mut more = read.last().is_some_and(|(_, more): &(_, bool)| *more);
        let mut lines: Vec<_> = read.into_iter().map(|(line, _)| line).collect();
        if lines.len() > page.rows() {
            lines.truncate(page.rows());
            more = true;
        }
        Ok(StepLogPage { lines, more })
    }

    pub(in crate::persistence::postgres) async fn read_summaries(
        &self,
        run_ids: &[Uuid],
    ) -> StoreResult<Vec<RunSummary>> {
        let mut found = Vec::new();
        for (shard, ids) in by_shard(run_ids, |id| self.shards.of_run(*id)) {
            let params = vec![value(shard), column(&ids, |id| *id)];
            let call = Call::new(&runs::READ_SUMMARIES, params);
            // By the primary key, and asked for a token's scope at every call of a worker: not an
            // operators' read.
            let rows = self.read_one(Concern::Events, call).await?;
            found.extend(read_all(&rows, rows::runs::summary)?);
        }
        Ok(found)
    }

    /// Newest first. A narrow range of starts is read as a whole; anything else is a walk along one
    /// index ([`Walk`]).
    pub(in crate::persistence::postgres) async fn query_runs(
        &self,
        filter: &RunFilter,
        page: Page,
    ) -> StoreResult<RunPage> {
        if let Some(walk) = Walk::by_start(filter)
            && let Some(found) = self.runs_by_start(filter, &walk, page).await?
        {
            return Ok(found);
        }
        let query = self.walk_query(filter, page);
        let steps = read_all(&self.list(&query).await?, |row| {
            let (hit, stop) = (row.next()?, row.next()?);
            let run = rows::runs::summary(row)?;
            Ok(Step {
                id: run.id,
                run,
                hit,
                stop,
            })
        })?;
        Ok(run_page(page_of(steps, page)))
    }

    /// The walk along one index.
    fn walk_query(&self, filter: &RunFilter, page: Page) -> Query<'static> {
        let walk = Walk::new(filter);
        let statuses = walk.statuses().map(status_names);
        let lists = usize::from(self.shards.count()) * statuses.as_ref().map_or(1, Vec::len);
        let examined = walk.examined_of_each(page, lists);
        let mut query = Query::new(concat!("SELECT w.hit, w.stop, ", summary_columns!("r")));
        query.text(" FROM (SELECT c.id, shard.n, c.hit, c.place");
        query.with(" >= $? AS stop", limit(examined), Type::INT8);
        self.each_list(&mut query, statuses.as_deref());
        query.text(
            " CROSS JOIN LATERAL (SELECT k.*, row_number() OVER (ORDER BY k.id DESC) AS place FROM (",
        );
        keys(&mut query, filter, &walk);
        query.with(" LIMIT $?) AS k) AS c", limit(examined), Type::INT8);
        query.with(" WHERE c.hit OR c.place >= $?", limit(examined), Type::INT8);
        let reach = page.rows().saturating_add(page.offset).saturating_add(2);
        query.with(
            " ORDER BY c.id DESC LIMIT $?) AS w",
            limit(reach),
            Type::INT8,
        );
        query.text(
            " CROSS JOIN LATERAL (SELECT * FROM {s}.durable_workflow_instances AS i \
             WHERE i.partition_key = w.n AND i.id = w.id LIMIT 1) AS r ORDER BY r.id DESC",
        );
        query
    }

    /// The plan of a list, and of a capped count, as they are sent. For tests.
    #[doc(hidden)]
    pub async fn explain_runs(&self, filter: &RunFilter, page: Page) -> StoreResult<String> {
        let mut plan = String::new();
        let count = self.count_query(filter).0;
        for query in [self.walk_query(filter, page), count] {
            let rows = self.list(&query.explained()).await?;
            for line in read_all(&rows, Reader::next::<String>)? {
                plan.push_str(&line);
                plan.push('\n');
            }
        }
        Ok(plan)
    }

    /// The page, if so few runs were started within the range that all of them can be looked at.
    async fn runs_by_start(
        &self,
        filter: &RunFilter,
        walk: &Walk,
        page: Page,
    ) -> StoreResult<Option<RunPage>> {
        let mut query = Query::new("SELECT count(*) FROM (SELECT c.id");
        self.each_list(&mut query, None);
        query.text(" CROSS JOIN LATERAL (SELECT r.id FROM {s}.durable_workflow_instances AS r");
        query.text(" WHERE r.partition_key = shard.n");
        conditions(&mut query, &started_within(filter));
        let most = LIST_EXAMINED_MAX + 1;
        query.text(" ORDER BY r.created_at DESC");
        query.with(" LIMIT $?) AS c", limit(most), Type::INT8);
        query.with(" LIMIT $?) AS f", limit(most), Type::INT8);
        let started: Option<u64> = read_first(&self.list(&query).await?, Reader::u64)?;
        if started.is_none_or(|started| started >= most as u64) {
            return Ok(None);
        }
        let mut query = Query::new(concat!("SELECT ", summary_columns!("r")));
        query.text(" FROM (SELECT r.id, r.partition_key");
        self.each_list(&mut query, None);
        query.text(" CROSS JOIN LATERAL (SELECT * FROM {s}.durable_workflow_instances AS r");
        query.text(" WHERE r.partition_key = shard.n");
        conditions(&mut query, &started_within(filter));
        // The order and the limit keep the planner at the index of starts.
        query.with(
            " ORDER BY r.created_at DESC LIMIT $?) AS r WHERE TRUE",
            limit(most),
            Type::INT8,
        );
        conditions(&mut query, &walk.rest);
        query.with_some(" AND r.id < $?", filter.before, Type::UUID);
        let reach = page.rows().saturating_add(page.offset).saturating_add(1);
        query.with(
            " ORDER BY r.id DESC LIMIT $?) AS w",
            limit(reach),
            Type::INT8,
        );
        query.text(
            " CROSS JOIN LATERAL (SELECT * FROM {s}.durable_workflow_instances AS i \
             WHERE i.partition_key = w.partition_key AND i.id = w.id LIMIT 1) AS r \
             ORDER BY r.id DESC",
        );
        let steps = read_all(&self.list(&query).await?, |row| {
            let run = rows::runs::summary(row)?;
            Ok(Step {
                id: run.id,
                run,
                hit: true,
                stop: false,
            })
        })?;
        Ok(Some(run_page(page_of(steps, page))))
    }

    pub(in crate::persistence::postgres) async fn query_run_count(
        &self,
        filter: &RunFilter,
        counting: CountLimit,
    ) -> StoreResult<RunCount> {
        let no_row = || StoreError::Corrupt {
            message: "a count came back without its row".to_owned(),
            source: None,
        };
        if counting == CountLimit::Exact {
            let mut query = Query::new("SELECT count(*) FROM {s}.durable_workflow_instances AS r");
            query.with(
                " WHERE r.partition_key < $?",
                self.shard_count(),
                Type::INT4,
            );
            conditions(&mut query, filter);
            query.with_some(" AND r.id < $?", filter.before, Type::UUID);
            let count = read_first(&self.scan(&query).await?, Reader::u64)?;
            let count = count.ok_or_else(no_row)?;
            return Ok(RunCount { count, exact: true });
        }
        let (query, most) = self.count_query(filter);
        let read = |row: &mut Reader<'_>| Ok((row.u64()?, row.u64()?));
        let (hits, examined) = read_first(&self.list(&query).await?, read)?.ok_or_else(no_row)?;
        Ok(RunCount {
            count: hits.min(COUNT_MAX as u64),
            exact: examined < most as u64 && hits <= COUNT_MAX as u64,
        })
    }

    /// How many of the runs on a walk match and how many were examined, and how many that may be.
    fn count_query(&self, filter: &RunFilter) -> (Query<'static>, usize) {
        let walk = Walk::by_start(filter).unwrap_or_else(|| Walk::new(filter));
        let most = if walk.is_answered() {
            COUNT_MAX + 1
        } else {
            LIST_EXAMINED_MAX
        };
        let mut query = Query::new("SELECT count(*) FILTER (WHERE f.hit), count(*)");
        query.text(" FROM (SELECT c.hit");
        let statuses = walk.statuses().map(status_names);
        self.each_list(&mut query, statuses.as_deref());
        query.text(" CROSS JOIN LATERAL (");
        keys(&mut query, filter, &walk);
        query.with(" LIMIT $?) AS c", limit(most), Type::INT8);
        query.with(" LIMIT $?) AS f", limit(most), Type::INT8);
        (query, most)
    }

    /// One row for each shard, and for each status that has an ordered list of its own.
    fn each_list(&self, query: &mut Query<'_>, statuses: Option<&[&'static str]>) {
        query.with(
            " FROM generate_series(0, $? - 1) AS shard(n)",
            self.shard_count(),
            Type::INT4,
        );
        query.with_some(
            " CROSS JOIN unnest($?) AS list(status)",
            statuses.map(<[_]>::to_vec),
            Type::TEXT_ARRAY,
        );
    }

    fn shard_count(&self) -> i32 {
        i32::from(self.shards.count())
    }
}

fn run_page(found: Found<RunSummary>) -> RunPage {
    RunPage {
        runs: found.runs,
        next: found.next,
        partial: found.partial,
    }
}

fn status_names(statuses: &[WorkflowStatus]) -> Vec<&'static str> {
    statuses.iter().map(|status| status.as_str()).collect()
}

/// Of a filter the range of starts alone.
fn started_within(filter: &RunFilter) -> RunFilter {
    RunFilter::default().created(filter.created_from, filter.created_until)
}

/// The runs of one group of an index, those behind the cursor, in the order of the index.
///
/// An equation would let the planner walk the primary key instead and pass over every run of other
/// groups (measured: 3 s for 300,000 runs, against 10 ms). A range of rows, ordered by its first
/// column too, is answered by the group's own index alone.
macro_rules! group {
    ($query:expr, $filter:expr, $group:literal, $id:literal, $value:expr) => {{
        let (query, before) = ($query, $filter.before);
        $value(query.text(concat!(" AND (", $group, ", ", $id, ") >= (")));
        query.with(", $?)", Uuid::nil(), Type::UUID);
        $value(query.text(match before {
            Some(_) => concat!(" AND (", $group, ", ", $id, ") < ("),
            None => concat!(" AND (", $group, ", ", $id, ") <= ("),
        }));
        query.with(", $?)", before.unwrap_or(Uuid::max()), Type::UUID);
        query.text(concat!(" ORDER BY ", $group, " DESC, ", $id, " DESC"));
    }};
}

/// The ids of one list in the index that is walked, in its order, and whether each matches.
fn keys(query: &mut Query<'_>, filter: &RunFilter, walk: &Walk) {
    if let Driver::Attribute(name, wanted) = &walk.driver {
        attribute_keys(query, filter, walk, name, wanted);
        return;
    }
    // A condition on a column without a value is not true.
    query.text("SELECT r.id, (TRUE");
    conditions(query, &walk.rest);
    query
        .text(") IS TRUE AS hit FROM {s}.durable_workflow_instances AS r")
        .text(" WHERE r.partition_key = shard.n");
    let of_status = |query: &mut Query<'_>| {
        query.text("list.status");
    };
    match &walk.driver {
        Driver::Business(id) => {
            query.text(" AND r.business_id IS NOT NULL");
            group!(
                query,
                filter,
                "r.business_id",
                "r.id",
                |query: &mut Query<'_>| {
                    query.with("$?", id.clone(), Type::TEXT);
                }
            );
        }
        Driver::Parent(id) => {
            query.text(" AND r.parent_id IS NOT NULL");
            group!(query, filter, "r.parent_id", "r.id", |query: &mut Query<
                '_,
            >| {
                query.with("$?", *id, Type::UUID);
            });
        }
        Driver::Type(workflow_type, _) => {
            let name = workflow_type.clone();
            query.with(" AND r.workflow_type = $?", name, Type::TEXT);
            group!(query, filter, "r.status", "r.id", of_status);
        }
        Driver::Status(_) => group!(query, filter, "r.status", "r.id", of_status),
        Driver::Created => {
            conditions(query, &started_within(filter));
            query
                .with_some(" AND r.id < $?", filter.before, Type::UUID)
                .text(" ORDER BY r.created_at DESC");
        }
        Driver::Blocked => {
            query
                .text(" AND r.blocked_build IS NOT NULL")
                .with_some(" AND r.id < $?", filter.before, Type::UUID)
                .text(" ORDER BY r.id DESC");
        }
        Driver::All | Driver::Attribute(..) => {
            query
                .with_some(" AND r.id < $?", filter.before, Type::UUID)
                .text(" ORDER BY r.id DESC");
        }
    }
}

/// The same of runs with an attribute.
fn attribute_keys(
    query: &mut Query<'_>,
    filter: &RunFilter,
    walk: &Walk,
    name: &str,
    wanted: &AttributeValue,
) {
    query.text("SELECT a.workflow_id AS id, ");
    if walk.is_answered() {
        query.text("TRUE AS hit");
    } else {
        query.text(
            "EXISTS (SELECT 1 FROM {s}.durable_workflow_instances AS r \
             WHERE r.partition_key = a.partition_key AND r.id = a.workflow_id",
        );
        conditions(query, &walk.rest);
        query.text(") AS hit");
    }
    query
        .text(" FROM {s}.durable_search_attributes AS a WHERE a.partition_key = shard.n")
        .with(" AND a.name = $?", name.to_owned(), Type::TEXT);
    match wanted {
        AttributeValue::Text(v) => {
            query.text(" AND a.value_text IS NOT NULL");
            group!(
                query,
                filter,
                "a.value_text",
                "a.workflow_id",
                |query: &mut Query<'_>| {
                    query.with("$?", v.clone(), Type::TEXT);
                }
            );
        }
        AttributeValue::Int(v) => {
            query.text(" AND a.value_int IS NOT NULL");
            group!(
                query,
                filter,
                "a.value_int",
                "a.workflow_id",
                |query: &mut Query<'_>| {
                    query.with("$?", *v, Type::INT8);
                }
            );
        }
        AttributeValue::Double(v) => {
            query.text(" AND a.value_double IS NOT NULL");
            group!(
                query,
                filter,
                "a.value_double",
                "a.workflow_id",
                |query: &mut Query<'_>| {
                    query.with("$?", *v, Type::FLOAT8);
                }
            );
        }
        AttributeValue::Bool(v) => {
            query.text(" AND a.value_bool IS NOT NULL");
            group!(
                query,
                filter,
                "a.value_bool",
                "a.workflow_id",
                |query: &mut Query<'_>| {
                    query.with("$?", *v, Type::BOOL);
                }
            );
        }
        AttributeValue::Time(v) => {
            query.text(" AND a.value_time IS NOT NULL");
            group!(
                query,
                filter,
                "a.value_time",
                "a.workflow_id",
                |query: &mut Query<'_>| {
                    query.with("$?", at(*v), Type::TIMESTAMPTZ);
                }
            );
        }
    }
}

/// What a filter says of a run `r`, its cursor apart.
fn conditions(query: &mut Query<'_>, filter: &RunFilter) {
    if !filter.statuses.is_empty() {
        let names = status_names(&filter.statuses);
        query.with(" AND r.status = ANY($?)", names, Type::TEXT_ARRAY);
    }
    query
        .with_some(
            " AND r.workflow_type = $?",
            filter.workflow_type.clone(),
            Type::TEXT,
        )
        .with_some(
            " AND r.business_id = $?",
            filter.business_id.clone(),
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
        );
    if filter.blocked {
        query.text(" AND r.blocked_build IS NOT NULL");
    }
    for (name, wanted) in &filter.attributes {
        query
            .text(" AND EXISTS (SELECT 1 FROM {s}.durable_search_attributes AS a")
            .text(" WHERE a.partition_key = r.partition_key AND a.workflow_id = r.id")
            .with(" AND a.name = $?", name.clone(), Type::TEXT);
        attribute_value(query, wanted);
        query.text(")");
    }
}

/// That an attribute `a` has this value.
fn attribute_value(query: &mut Query<'_>, wanted: &AttributeValue) {
    match wanted {
        AttributeValue::Text(v) => query.with(" AND a.value_text = $?", v.clone(), Type::TEXT),
        AttributeValue::Int(v) => query.with(" AND a.value_int = $?", *v, Type::INT8),
        AttributeValue::Double(v) => query.with(" AND a.value_double = $?", *v, Type::FLOAT8),
        AttributeValue::Bool(v) => query.with(" AND a.value_bool = $?", *v, Type::BOOL),
        AttributeValue::Time(v) => query.with(" AND a.value_time = $?", at(*v), Type::TIMESTAMPTZ),
    };
}
