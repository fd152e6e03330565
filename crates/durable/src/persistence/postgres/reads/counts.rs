//! Counts and totals.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use durable_core::Timestamp;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::limits::{COUNT_ROWS_MAX, ROLLUP_ROWS_MAX};
use crate::persistence::model::{
    Glance, HostedType, RollupKind, RollupOutcome, RollupRecord, RunMark, StoreCounts, TaskStatus,
    WaitingTypes, WorkflowStatus,
};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{Call, at, by_shard, column, maybe_at, value};
use crate::persistence::postgres::reader::{Reader, read_all};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::{admin, due, rollups, runs};
use crate::persistence::sql::tx::Concern;

impl Postgres {
    pub(in crate::persistence::postgres) async fn read_glance(
        &self,
        now: Option<Timestamp>,
    ) -> StoreResult<Glance> {
        let calls: Vec<Call<'_>> = self
            .shards
            .from(0)
            .map(|shard| Call::new(&due::GLANCE, vec![value(shard), value(maybe_at(now))]))
            .collect();
        let mut glance = Glance::nothing(Timestamp::MIN);
        for rows in self.read(Concern::Registry, &calls).await? {
            let of_shard = read_all(&rows, |row| {
                Ok(Glance {
                    tasks: row.next()?,
                    turns: row.next()?,
                    messages: row.next()?,
                    next_due: row.maybe_at()?,
                    next_tick: row.maybe_at()?,
                    at: row.at()?,
                })
            })?;
            glance = of_shard.into_iter().fold(glance, Glance::and);
        }
        Ok(glance)
    }

    pub(in crate::persistence::postgres) async fn read_waiting_types(
        &self,
    ) -> StoreResult<WaitingTypes> {
        let shards: Vec<i32> = self.shards.from(0).collect();
        let of_runs = shards
            .iter()
            .map(|shard| Call::new(&due::READY_TYPES, vec![value(*shard)]));
        let of_tasks = shards
            .iter()
            .map(|shard| Call::new(&due::PENDING_TYPES, vec![value(*shard)]));
        let calls: Vec<Call<'_>> = of_runs.chain(of_tasks).collect();
        let answers = self.read(Concern::Registry, &calls).await?;
        let (runs, tasks) = answers.split_at(shards.len());
        let mut waiting = WaitingTypes::default();
        for rows in runs {
            waiting.runs.extend(read_all(rows, |row| {
                Ok(HostedType {
                    workflow_type: row.next()?,
                    version: row.next()?,
                })
            })?);
        }
        for rows in tasks {
            waiting
                .tasks
                .extend(read_all(rows, Reader::next::<String>)?);
        }
        Ok(waiting)
    }

    pub(in crate::persistence::postgres) async fn read_counts(&self) -> StoreResult<StoreCounts> {
        let shards = self.shards.from(0);
        let calls: Vec<Call<'_>> = shards
            .map(|shard| Call::new(&admin::OPEN_COUNTS, vec![value(shard)]))
            .collect();
        let mut counts = StoreCounts::default();
        for rows in self.read(Concern::Registry, &calls).await? {
            for row in &rows {
                add(&mut counts, &mut Reader::new(row))?;
            }
        }
        Ok(counts.capped())
    }

    pub(in crate::persistence::postgres) async fn read_marks(
        &self,
        run_ids: &[Uuid],
    ) -> StoreResult<BTreeMap<Uuid, RunMark>> {
        let shards = self.shards;
        let groups = by_shard(run_ids, |id| shards.of_run(*id));
        let calls: Vec<Call<'_>> = groups
            .iter()
            .map(|(shard, ids)| {
                let params = vec![value(*shard), column(ids, |id| *id)];
                Call::new(&runs::READ_MARKS, params)
            })
            .collect();
        let mut marks = BTreeMap::new();
        for rows in self.read(Concern::Registry, &calls).await? {
            marks.extend(read_all(&rows, |row| {
                let id: Uuid = row.next()?;
                let mark = RunMark {
                    status: row.name(WorkflowStatus::parse)?,
                    sequence: row.next()?,
                };
                Ok((id, mark))
            })?);
        }
        Ok(marks)
    }

    pub(in crate::persistence::postgres) async fn read_waiting_count(
        &self,
        at_most: u64,
    ) -> StoreResult<u64> {
        let limit = i64::try_from(at_most).unwrap_or(i64::MAX);
        let shards = self.shards.from(0);
        let calls: Vec<Call<'_>> = shards
            .map(|shard| Call::new(&admin::COUNT_WAITING, vec![value(shard), value(limit)]))
            .collect();
        let mut count = 0;
        for rows in self.read(Concern::Registry, &calls).await? {
            count += read_all(&rows, Reader::u64)?.into_iter().sum::<u64>();
        }
        Ok(count.min(at_most))
    }

    pub(in crate::persistence::postgres) async fn read_rollups(
        &self,
        from: Timestamp,
    ) -> StoreResult<Vec<RollupRecord>> {
        let limit = i64::try_from(ROLLUP_ROWS_MAX).unwrap_or(i64::MAX);
        let calls: Vec<Call<'_>> = self
            .shards
            .from(0)
            .map(|shard| {
                let params = vec![value(shard), value(at(from)), value(limit)];
                Call::new(&rollups::READ_ROLLUPS, params)
            })
            .collect();
        let mut totals = BTreeMap::new();
        for rows in self.read(Concern::Registry, &calls).await? {
            for of_shard in read_all(&rows, rows::rollups::record)? {
                add_rollup(&mut totals, of_shard);
            }
        }
        // A shard that was cut has this many up to its last hour, so that all hours but the last
        // one answered are whole.
        Ok(totals.into_values().take(ROLLUP_ROWS_MAX).collect())
    }
}

type RollupKey = (Timestamp, RollupKind, String, RollupOutcome, i16);

/// Adds the total of a shard to those of the others.
fn add_rollup(totals: &mut BTreeMap<RollupKey, RollupRecord>, of_shard: RollupRecord) {
    let key = (
        of_shard.hour,
        of_shard.kind,
        of_shard.name.clone(),
        of_shard.outcome,
        of_shard.duration_exp,
    );
    match totals.entry(key) {
        Entry::Vacant(place) => {
            place.insert(of_shard);
        }
        Entry::Occupied(mut place) => {
            let total = place.get_mut();
            total.count += of_shard.count;
            total.total_ms += of_shard.total_ms;
            total.wait_ms += of_shard.wait_ms;
        }
    }
}

/// Adds what a row of the counts tells: of what, the activity type, the status, how many, since
/// when, whether some were left out.
fn add(counts: &mut StoreCounts, row: &mut Reader<'_>) -> StoreResult<()> {
    let of: String = row.next()?;
    let activity_type: Option<String> = row.next()?;
    let status: Option<String> = row.next()?;
    let (count, oldest, cut) = (row.u64()?, row.maybe_at()?, row.next::<bool>()?);
    let status = status.unwrap_or_default();
    match &*of {
        "runs" => {
            if let Some(status) = WorkflowStatus::parse(&status) {
                counts.add_runs(status, count);
            }
        }
        "tasks" => {
            if let Some(status) = TaskStatus::parse(&status) {
                counts.add_tasks(&activity_type.unwrap_or_default(), status, count);
            }
            counts.waits_since(oldest);
        }
        // Leases that end later than these clocks were not looked at.
        "due" => counts.exact &= count <= COUNT_ROWS_MAX,
        "blocked" => counts.blocked_runs += count,
        "dead letters" => counts.dead_letters += count,
        "messages" => counts.messages += count,
        _ => counts.outbox_pending += count,
    }
    counts.exact &= !cut;
    Ok(())
}
