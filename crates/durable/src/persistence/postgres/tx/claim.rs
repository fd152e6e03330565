//! Claims: one statement each, which picks, locks and changes.

use std::cmp::Reverse;
use std::time::Duration;

use durable_core::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PgTx;
use crate::persistence::limits::{CHORE_BYTES_MAX, SET_FACTS_BYTES_MAX};
use crate::persistence::model::{
    ClaimOutbox, ClaimTasks, ClaimTurns, ClaimedTurn, OutboxRecord, TaskRecord,
};
use crate::persistence::postgres::bind::{Call, limit, long, maybe_at, value};
use crate::persistence::postgres::reader::{Reader, read_all};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::{outbox, runs, tasks};
use crate::persistence::{Bug, StoreResult, planted};

/// Pending tasks of a shard, in claim order.
pub(super) async fn tasks(
    tx: &mut PgTx<'_>,
    shard: i32,
    claim: &ClaimTasks,
    max: usize,
) -> StoreResult<Vec<TaskRecord>> {
    let counted: i32 = if planted(Bug::UncountedClaim) { 0 } else { 1 };
    let mut types: Vec<&str> = claim.activity_types.iter().map(String::as_str).collect();
    types.sort_unstable();
    types.dedup();
    let params = vec![
        value(shard),
        value(types),
        value(limit(max)),
        value(claim.worker_id.as_str()),
        value(claim.token),
        value(micros(claim.lease)),
        value(maybe_at(tx.now)),
        value(counted),
        value(long(CHORE_BYTES_MAX)),
    ];
    let rows = tx.call(Call::new(&tasks::CLAIM_TASKS, params)).await?;
    let mut claimed = claimed(tx, &rows, rows::tasks::record)?;
    claimed.sort_by_key(|task| {
        let priority = Reverse(task.options.priority);
        (priority, task.visible_at, task.id, task.run_id)
    });
    Ok(claimed)
}

/// Ready runs of a shard, longest ready first, with their first facts. The facts are a second
/// flight: they are rows of their own, so that a run with many of them is no row too large to send.
pub(super) async fn turns(
    tx: &mut PgTx<'_>,
    shard: i32,
    claim: &ClaimTurns,
    max: usize,
) -> StoreResult<Vec<ClaimedTurn>> {
    let mut hosted: Vec<_> = claim.hosted.iter().collect();
    hosted.sort_unstable();
    hosted.dedup();
    let types: Vec<&str> = hosted.iter().map(|h| h.workflow_type.as_str()).collect();
    let versions: Vec<&str> = hosted.iter().map(|h| h.version.as_str()).collect();
    let params = vec![
        value(shard),
        value(types),
        value(versions),
        value(claim.build.as_str()),
        value(limit(max)),
        value(claim.worker_id.as_str()),
        value(micros(claim.lease)),
        value(maybe_at(tx.now)),
        value(long(CHORE_BYTES_MAX)),
    ];
    let rows = tx.call(Call::new(&runs::CLAIM_RUNS, params)).await?;
    let mut claimed = claimed(tx, &rows, rows::runs::record)?;
    if claimed.is_empty() {
        return Ok(Vec::new());
    }
    claimed.sort_by_key(|run| (run.ready_at, run.id));
    let ids: Vec<Uuid> = claimed.iter().map(|run| run.id).collect();
    let read = rows::inbox::read(shard, ids, SET_FACTS_BYTES_MAX);
    let rows = tx.call(read).await?;
    let mut waiting = rows::inbox::by_run(&rows)?;
    Ok(claimed
        .into_iter()
        .map(|run| {
            let of_run = waiting.remove(&run.id).unwrap_or_default();
            ClaimedTurn::new(run, of_run.facts, of_run.last)
        })
        .collect())
}

/// Due outbox events of a shard, in the order in which they became due.
pub(super) async fn outbox(
    tx: &mut PgTx<'_>,
    shard: i32,
    claim: &ClaimOutbox,
    max: usize,
) -> StoreResult<Vec<OutboxRecord>> {
    let params = vec![
        value(shard),
        value(limit(max)),
        value(claim.token),
        value(micros(claim.lease)),
        value(maybe_at(tx.now)),
        value(long(CHORE_BYTES_MAX)),
    ];
    let rows = tx.call(Call::new(&outbox::CLAIM_OUTBOX, params)).await?;
    let read = |row: &mut Reader<'_>| Ok((row.at()?, rows::outbox::record(row)?));
    let mut claimed = claimed(tx, &rows, read)?;
    claimed.sort_by_key(|(due_at, event)| (*due_at, event.id, event.run_id));
    Ok(claimed.into_iter().map(|(_, event)| event).collect())
}

/// Rows of a claim: the instant that the statement took comes first and becomes the transaction's.
fn claimed<T>(
    tx: &mut PgTx<'_>,
    rows: &[Row],
    read: impl Fn(&mut Reader<'_>) -> StoreResult<T>,
) -> StoreResult<Vec<T>> {
    let claimed: Vec<(Timestamp, T)> = read_all(rows, |row| Ok((row.at()?, read(row)?)))?;
    if let Some((now, _)) = claimed.first() {
        tx.now = Some(*now);
    }
    Ok(claimed.into_iter().map(|(_, item)| item).collect())
}

/// A lease as stores keep instants: in microseconds.
fn micros(lease: Duration) -> i64 {
    long(u64::try_from(lease.as_micros()).unwrap_or(u64::MAX))
}
