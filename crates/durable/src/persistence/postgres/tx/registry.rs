//! What operators write in the small tables.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::PgTx;
use crate::persistence::StoreResult;
use crate::persistence::model::{DeadLetterState, DlqFilter, WorkerStatus};
use crate::persistence::postgres::bind::{Call, limit, value};
use crate::persistence::postgres::reader::read_first;
use crate::persistence::postgres::reads::dlq::conditions;
use crate::persistence::postgres::reads::filter::Query;
use crate::persistence::postgres::rows::schedules::put;
use crate::persistence::postgres::sql::{registry, schedules};
use crate::persistence::postgres::statement::Statement;
use crate::persistence::sql::rows::{RegistryWrite, Touched};

pub(super) async fn write(tx: &mut PgTx<'_>, write: &RegistryWrite) -> StoreResult<Touched> {
    let rows = match write {
        RegistryWrite::PutSchedule(schedule) => {
            tx.call(put(&schedules::REPLACE_SCHEDULE, &[schedule]))
                .await?;
            return Ok(Touched::rows(1));
        }
        RegistryWrite::CreateSchedule(schedule) => {
            tx.call(put(&schedules::CREATE_SCHEDULE, &[schedule]))
                .await?
        }
        RegistryWrite::DeleteSchedule(id) => delete(tx, &schedules::DELETE_SCHEDULE, id).await?,
        RegistryWrite::SetWorkerStatus(id, status) => return set_status(tx, id, *status).await,
        RegistryWrite::DeleteWorker(id) => delete(tx, &registry::DELETE_WORKER, id).await?,
        RegistryWrite::DeleteBreaker(key) => delete(tx, &registry::DELETE_BREAKER, key).await?,
        RegistryWrite::PurgeLetters(filter, max) => purge_letters(tx, filter, *max).await?,
    };
    Ok(Touched::rows(u64::try_from(rows.len()).unwrap_or(u64::MAX)))
}

async fn delete(
    tx: &mut PgTx<'_>,
    statement: &'static Statement,
    key: &str,
) -> StoreResult<Vec<Row>> {
    tx.call(Call::new(statement, vec![value(key)])).await
}

async fn set_status(tx: &mut PgTx<'_>, id: &str, status: WorkerStatus) -> StoreResult<Touched> {
    let params = vec![value(id), value(status.as_str())];
    let rows = tx
        .call(Call::new(&registry::SET_WORKER_STATUS, params))
        .await?;
    let former = read_first(&rows, |row| row.name(WorkerStatus::parse))?;
    Ok(Touched {
        rows: u64::from(former.is_some()),
        changed: former.is_some_and(|former| former != status),
    })
}

/// Deletes letters, newest first, but none for which a run still waits. Of every shard and state,
/// or of the one run, the letters that died last are locked; of these the last are deleted.
async fn purge_letters(tx: &mut PgTx<'_>, filter: &DlqFilter, max: usize) -> StoreResult<Vec<Row>> {
    let mut query = Query::new("WITH pick AS MATERIALIZED (SELECT c.*");
    let looked_up = filter.id.is_some() || filter.run_id.is_some();
    if looked_up {
        query.text(" FROM (");
    } else {
        let states = match filter.state {
            Some(state) => vec![state.as_str()],
            None => DeadLetterState::ALL.map(DeadLetterState::as_str).to_vec(),
        };
        let shards = i32::from(tx.shards.count());
        query
            .with(
                " FROM generate_series(0, $? - 1) AS shard(n)",
                shards,
                Type::INT4,
            )
            .with(
                " CROSS JOIN unnest($?) AS list(state)",
                states,
                Type::TEXT_ARRAY,
            )
            .text(" CROSS JOIN LATERAL (");
    }
    query
        .text("SELECT t.partition_key, t.workflow_id, t.id, t.dead_at")
        .text(" FROM {s}.durable_dead_letter_queue AS t WHERE NOT (")
        .text("t.parked AND t.state = 'dead' AND EXISTS (SELECT 1 FROM {s}.durable_task_queue AS q")
        .text(" WHERE q.partition_key = t.partition_key AND q.workflow_id = t.workflow_id AND q.id = t.id))");
    if !looked_up {
        query.text(" AND t.partition_key = shard.n AND t.state = list.state");
    }
    conditions(&mut query, tx.shards, filter);
    query
        .text(" ORDER BY t.dead_at DESC, t.id, t.workflow_id")
        .with(" LIMIT $? FOR UPDATE OF t) AS c", limit(max), Type::INT8)
        .text(" ORDER BY c.dead_at DESC, c.id, c.workflow_id")
        .with(" LIMIT $?)", limit(max), Type::INT8)
        .text(" DELETE FROM {s}.durable_dead_letter_queue AS d USING pick")
        .text(" WHERE d.partition_key = pick.partition_key")
        .text(" AND d.workflow_id = pick.workflow_id AND d.id = pick.id RETURNING d.id");
    tx.made_query(&query).await
}
