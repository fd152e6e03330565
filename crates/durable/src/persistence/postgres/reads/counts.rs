//! Counts and totals.

use durable_core::Timestamp;
use tokio_postgres::Row;

use crate::persistence::StoreResult;
use crate::persistence::model::{
    Glance, HostedType, RollupRecord, StoreCounts, TaskStatus, WaitingTypes, WorkflowStatus,
};
use crate::persistence::postgres::Postgres;
use crate::persistence::postgres::bind::{Call, at, maybe_at, value};
use crate::persistence::postgres::reader::{Reader, read_all};
use crate::persistence::postgres::rows;
use crate::persistence::postgres::sql::{admin, due, rollups};
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
        let calls = [
            Call::new(&admin::COUNT_RUNS_BY_STATUS, Vec::new()),
            Call::new(&admin::COUNT_TASKS, Vec::new()),
            Call::new(&admin::COUNT_OPEN, Vec::new()),
        ];
        let answers = self.read(Concern::Registry, &calls).await?;
        let mut counts = StoreCounts::default();
        count_runs(&mut counts, &answers[0])?;
        count_tasks(&mut counts, &answers[1])?;
        for open in read_all(&answers[2], |row| Ok((row.u64()?, row.u64()?, row.u64()?)))? {
            (counts.dead_letters, counts.messages, counts.outbox_pending) = open;
        }
        Ok(counts)
    }

    pub(in crate::persistence::postgres) async fn read_rollups(
        &self,
        from: Timestamp,
    ) -> StoreResult<Vec<RollupRecord>> {
        let call = Call::new(&rollups::READ_ROLLUPS, vec![value(at(from))]);
        let rows = self.read_one(Concern::Registry, call).await?;
        let mut totals = read_all(&rows, rows::rollups::record)?;
        totals.sort();
        Ok(totals)
    }
}

fn count_runs(counts: &mut StoreCounts, rows: &[Row]) -> StoreResult<()> {
    let read = read_all(rows, |row| {
        Ok((row.name(WorkflowStatus::parse)?, row.u64()?, row.u64()?))
    })?;
    for (status, runs, blocked) in read {
        counts.runs.insert(status, runs);
        counts.blocked_runs += blocked;
    }
    Ok(())
}

fn count_tasks(counts: &mut StoreCounts, rows: &[Row]) -> StoreResult<()> {
    let read = read_all(rows, |row| {
        let activity_type: String = row.next()?;
        let status = row.name(TaskStatus::parse)?;
        Ok((activity_type, status, row.u64()?, row.at()?))
    })?;
    for (activity_type, status, tasks, oldest) in read {
        if status == TaskStatus::Pending {
            let known = counts.oldest_pending_at.unwrap_or(oldest);
            counts.oldest_pending_at = Some(known.min(oldest));
        }
        counts
            .tasks
            .entry(activity_type)
            .or_default()
            .insert(status, tasks);
    }
    Ok(())
}
