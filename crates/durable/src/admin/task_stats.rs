//! How the queues do.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::Timestamp;

use super::totals::{Durations, count, hour_of};
use crate::Result;
use crate::client::Client;
use crate::persistence::limits::PAGE_ROWS_MAX;
use crate::persistence::model::{
    Page, RollupKind, RollupOutcome, RollupRecord, TaskFilter, TaskRecord, TaskStatus,
};

/// Tasks that wait which are looked at one by one, at most; beyond that the figures made of them are of the first so many.
const TASKS_LOOKED_AT_MAX: usize = 10_000;
const HOUR: Duration = Duration::from_secs(60 * 60);

/// How the queues do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskQueueStats {
    /// By activity type.
    pub by_activity_type: BTreeMap<String, ActivityTypeStats>,
    /// Tasks that could be claimed now, by priority.
    pub by_priority: BTreeMap<i32, u64>,
    /// How long the task that has waited longest has waited.
    pub oldest_pending_task_age_ms: u64,
    /// How long an activity waited for its first attempt, on average over the last hours.
    pub avg_schedule_to_start_ms: f64,
    /// How long an activity took, on average over the last hours.
    pub avg_execution_time_ms: f64,
}

/// How the activities of a type do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ActivityTypeStats {
    /// Tasks that could be claimed now.
    pub pending: u64,
    /// Tasks that workers have.
    pub claimed: u64,
    /// Ended with a result within the last hour. Totals are kept by the hour of the clock, so this is the current hour's, and of the
    /// one before as large a share as lies within the last sixty minutes.
    pub completed_last_hour: u64,
    /// Ended without one, counted the same way.
    pub failed_last_hour: u64,
    /// How long one took, on average over both hours.
    pub avg_duration_ms: f64,
    /// What 99 of 100 stayed within, to the next power of two.
    pub p99_duration_ms: f64,
}

impl Client {
    /// How the queues do.
    ///
    /// # Errors
    /// The store's.
    pub async fn task_stats(&self) -> Result<TaskQueueStats> {
        let store = self.store();
        let now = store.clock(None).await?;
        let counts = store.counts().await?;
        let mut stats = TaskQueueStats::default();
        for (activity_type, by_status) in &counts.tasks {
            let of_type = stats
                .by_activity_type
                .entry(activity_type.clone())
                .or_default();
            let count = |status| by_status.get(&status).copied().unwrap_or_default();
            of_type.pending = count(TaskStatus::Pending);
            of_type.claimed = count(TaskStatus::Claimed);
        }
        stats.oldest_pending_task_age_ms = counts
            .oldest_pending_at
            .map_or(0, |since| age_ms(since, now));
        for task in self.pending_tasks().await? {
            *stats.by_priority.entry(task.options.priority).or_default() += 1;
        }
        let since = hour_of(now).checked_sub(HOUR).unwrap_or(Timestamp::MIN);
        stats.add_rollups(&store.rollups(since).await?, now);
        Ok(stats)
    }

    async fn pending_tasks(&self) -> Result<Vec<TaskRecord>> {
        let mut filter = TaskFilter {
            status: Some(TaskStatus::Pending),
            ..TaskFilter::default()
        };
        let mut tasks: Vec<TaskRecord> = Vec::new();
        while tasks.len() < TASKS_LOOKED_AT_MAX {
            let page = Page::first(PAGE_ROWS_MAX);
            filter.after = tasks.last().map(TaskRecord::rank);
            let found = self.store().list_tasks(filter.clone(), page).await?;
            let last = found.len() < page.rows();
            tasks.extend(found);
            if last {
                break;
            }
        }
        Ok(tasks)
    }
}

impl TaskQueueStats {
    fn add_rollups(&mut self, rollups: &[RollupRecord], now: Timestamp) {
        let share = share_of_the_hour_before(now);
        let mut all = Durations::default();
        let mut by_type: BTreeMap<&str, (Durations, [f64; 2])> = BTreeMap::new();
        for rollup in rollups
            .iter()
            .filter(|rollup| rollup.kind == RollupKind::Activity)
        {
            let (durations, ended) = by_type.entry(&rollup.name).or_default();
            let weight = if rollup.hour < hour_of(now) {
                share
            } else {
                1.0
            };
            #[allow(clippy::cast_precision_loss, reason = "a share of a count")]
            let weighted = count(rollup) as f64 * weight;
            match rollup.outcome {
                RollupOutcome::Completed => ended[0] += weighted,
                RollupOutcome::Failed => ended[1] += weighted,
                RollupOutcome::Cancelled => continue,
            }
            durations.add(rollup);
            all.add(rollup);
        }
        for (name, (durations, ended)) in by_type {
            let of_type = self.by_activity_type.entry(name.to_owned()).or_default();
            [of_type.completed_last_hour, of_type.failed_last_hour] = ended.map(whole);
            of_type.avg_duration_ms = durations.mean_ms();
            of_type.p99_duration_ms = durations.p99_ms();
        }
        self.avg_execution_time_ms = all.mean_ms();
        self.avg_schedule_to_start_ms = all.mean_wait_ms();
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count's share is a count"
)]
fn whole(share: f64) -> u64 {
    share.round() as u64
}

/// As much of the hour before as lies within the last sixty minutes.
#[allow(clippy::cast_precision_loss, reason = "a share")]
fn share_of_the_hour_before(now: Timestamp) -> f64 {
    1.0 - now.as_second().rem_euclid(3_600) as f64 / 3_600.0
}

fn age_ms(since: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.as_millisecond() - since.as_millisecond()).unwrap_or_default()
}
