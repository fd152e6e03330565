//! Counts and totals.

use durable_core::Timestamp;

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
        let call = Call::new(&admin::COUNT_ALL, Vec::new());
        let rows = self.read_one(Concern::Registry, call).await?;
        let mut counts = StoreCounts::default();
        for row in &rows {
            add(&mut counts, &mut Reader::new(row))?;
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

/// Adds what a row of the counts tells: of what, by which names, how many.
fn add(counts: &mut StoreCounts, row: &mut Reader<'_>) -> StoreResult<()> {
    let of: String = row.next()?;
    let activity_type: Option<String> = row.next()?;
    match &*of {
        "runs" => {
            let status = row.name(WorkflowStatus::parse)?;
            counts.runs.insert(status, row.u64()?);
            counts.blocked_runs += row.u64()?;
        }
        "tasks" => {
            let status = row.name(TaskStatus::parse)?;
            let of_type = counts.tasks.entry(activity_type.unwrap_or_default());
            of_type.or_default().insert(status, row.u64()?);
            row.next::<i64>()?;
            let oldest = row.maybe_at()?.filter(|_| status == TaskStatus::Pending);
            let known = counts.oldest_pending_at.into_iter();
            counts.oldest_pending_at = known.chain(oldest).min();
        }
        waiting => {
            row.next::<Option<String>>()?;
            let count = match waiting {
                "dead letters" => &mut counts.dead_letters,
                "messages" => &mut counts.messages,
                _ => &mut counts.outbox_pending,
            };
            *count = row.u64()?;
        }
    }
    Ok(())
}
