//! What operators and the audit read.

use std::collections::BTreeSet;
use std::ops::Bound;

use uuid::Uuid;

use super::state::{RunState, State};
use crate::persistence::limits::{COUNT_MAX, COUNT_WAITING_MAX, PAGE_BYTES_MAX};
use crate::persistence::model::{
    CountLimit, DeadLetter, DeadLetterState, Derived, Dump, Glance, History, Page, RunCount,
    RunDump, RunFilter, RunPage, RunRecord, RunSummary, StepLogFilter, StepLogPage, StepLogRecord,
    StoreCounts, TaskFilter, TaskRecord, WorkflowStatus,
};
use durable_core::Timestamp;

impl State {
    /// Runs that pass, newest first.
    pub(super) fn filter_runs(&self, filter: &RunFilter) -> impl Iterator<Item = &RunRecord> {
        self.runs()
            .values()
            .rev()
            .filter(move |run| passes(filter, run))
            .map(RunState::run)
    }

    /// A page of the runs that pass. All of them are examined, so that no page is partial.
    pub(super) fn page_of_runs(&self, filter: &RunFilter, page: Page) -> RunPage {
        let mut rest = self.filter_runs(filter).skip(page.offset);
        let runs: Vec<RunSummary> = rest.by_ref().take(page.rows()).map(Into::into).collect();
        let last = runs.last().map(|run| run.id);
        RunPage {
            next: last.filter(|_| rest.next().is_some()),
            partial: false,
            runs,
        }
    }

    /// How many runs pass.
    pub(super) fn count_runs(&self, filter: &RunFilter, limit: CountLimit) -> RunCount {
        let most = match limit {
            CountLimit::Capped => COUNT_MAX,
            CountLimit::Exact => usize::MAX,
        };
        let counted = self
            .filter_runs(filter)
            .take(most.saturating_add(1))
            .count();
        RunCount {
            count: counted.min(most) as u64,
            exact: counted <= most,
        }
    }

    /// The run with a page of its events, bounded in rows and bytes.
    pub(super) fn page_of_events(&self, run_id: Uuid, after: i64, limit: usize) -> Option<History> {
        let mut page = self.load_history(run_id, after, limit)?;
        let fitting = rows_that_fit(page.events.iter().map(|event| {
            let stored = event.event.encode();
            stored.data.len() + stored.payload.len()
        }));
        page.events.truncate(fitting);
        Some(page)
    }

    /// A page of a run's log lines, bounded in rows and bytes.
    pub(super) fn page_of_logs(&self, filter: StepLogFilter, page: Page) -> StepLogPage {
        let Some(run) = self.find(filter.run_id) else {
            return StepLogPage::default();
        };
        let after = filter.after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = run.step_logs.range((after, Bound::Unbounded));
        let lines: Vec<&StepLogRecord> = behind.map(|(_, line)| line).skip(page.offset).collect();
        let of_page = lines.iter().take(page.rows());
        let fitting = rows_that_fit(of_page.map(|line| line.message.len() + line.meta.len()));
        StepLogPage {
            more: lines.len() > fitting,
            lines: lines.into_iter().take(fitting).cloned().collect(),
        }
    }

    /// Tasks that pass, in the order of the queue.
    pub(super) fn filter_tasks(&self, filter: &TaskFilter) -> Vec<&TaskRecord> {
        let mut tasks: Vec<&TaskRecord> = self
            .runs()
            .values()
            .flat_map(|run| run.tasks().values())
            .filter(|task| {
                filter.run_id.is_none_or(|id| id == task.run_id)
                    && filter.status.is_none_or(|status| status == task.status)
                    && filter
                        .activity_type
                        .as_ref()
                        .is_none_or(|name| *name == task.activity_type)
                    && filter.after.is_none_or(|after| task.rank() > after)
            })
            .collect();
        tasks.sort_by_key(|task| task.rank());
        tasks
    }

    pub(super) fn glance(&self, at: Timestamp) -> Glance {
        let ticks = self.schedules.values().filter(|schedule| !schedule.paused);
        let nothing = Glance {
            next_tick: ticks.filter_map(|schedule| schedule.next_fire_at).min(),
            ..Glance::nothing(at)
        };
        let shards = self.shard_indexes().map(|shard| Glance {
            tasks: shard.claimable.values().any(|tasks| !tasks.is_empty()),
            turns: !shard.ready.is_empty(),
            messages: !shard.messages.is_empty(),
            next_due: shard
                .next_due()
                .into_iter()
                .chain(shard.leases.first().map(|key| key.0))
                .min(),
            next_tick: None,
            at,
        });
        shards.fold(nothing, Glance::and)
    }

    pub(super) fn counts(&self) -> StoreCounts {
        let mut counts = StoreCounts::default();
        for shard in self.shard_indexes() {
            for (status, count) in &shard.open_runs {
                counts.add_runs(*status, *count);
            }
            for (activity_type, by_status) in &shard.queued {
                for (status, count) in by_status {
                    counts.add_tasks(activity_type, *status, *count);
                }
            }
            for places in shard.claimable.values() {
                // The first of each priority; within one, tasks are in the order of their wait.
                let mut first = places.first();
                while let Some((priority, at, ..)) = first {
                    counts.waits_since(Some(*at));
                    let last = (*priority, Timestamp::MAX, Uuid::max(), Uuid::max());
                    first = places
                        .range((Bound::Excluded(last), Bound::Unbounded))
                        .next();
                }
            }
            counts.blocked_runs += shard.blocked;
            counts.messages += shard.messages.len() as u64;
            counts.outbox_pending += shard.outbox.len() as u64;
        }
        let dead = |letter: &&DeadLetter| letter.state == DeadLetterState::Dead;
        counts.dead_letters = self.dead_letters.values().filter(dead).count() as u64;
        counts.capped()
    }

    /// Claimable tasks and runs that have not begun, up to so many.
    pub(super) fn count_waiting(&self, at_most: u64) -> u64 {
        let waiting: u64 = self
            .shard_indexes()
            .map(|shard| {
                let tasks: usize = shard.claimable.values().map(BTreeSet::len).sum();
                let runs = shard.open_runs.get(&WorkflowStatus::Pending);
                tasks as u64 + runs.copied().unwrap_or_default()
            })
            .sum();
        waiting.min(at_most.clamp(1, COUNT_WAITING_MAX))
    }

    pub(super) fn dump(&self) -> Dump {
        let mut dead_letters: Vec<_> = self.dead_letters.values().cloned().collect();
        dead_letters.sort_by_key(|letter| (letter.id, letter.run_id));
        Dump {
            runs: self.runs().values().map(dump_run).collect(),
            keys: self.keys.values().cloned().collect(),
            dead_letters,
            schedules: self.schedules.values().cloned().collect(),
            workers: self.workers.values().cloned().collect(),
            breakers: self.breakers.values().cloned().collect(),
            dedup: self.dedup.values().cloned().collect(),
            rollups: self.rollups.since(Timestamp::MIN).collect(),
            audit: self.audit.values().cloned().collect(),
            orphans: Vec::new(),
        }
    }
}

fn dump_run(run: &RunState) -> RunDump {
    let mut tasks: Vec<_> = run.tasks().values().cloned().collect();
    tasks.sort_by_key(|task| (task.line, task.id));
    let mut signals: Vec<_> = run.signals().values().cloned().collect();
    signals.sort_by_key(|signal| (signal.arrival, signal.signal_id));
    let mut updates: Vec<_> = run.updates.values().cloned().collect();
    updates.sort_by(|a, b| (a.arrival, &a.update_id).cmp(&(b.arrival, &b.update_id)));
    let mut dump = RunDump {
        run: run.run().clone(),
        events: run.events.clone(),
        tasks,
        timers: run.timers().values().cloned().collect(),
        facts: run.facts.values().cloned().collect(),
        signals,
        updates,
        attributes: run.attributes.clone(),
        messages: run.messages().values().cloned().collect(),
        outbox: run.outbox().values().cloned().collect(),
        step_logs: run.step_logs.values().cloned().collect(),
        derived: Derived::default(),
    };
    dump.derived = dump.derive();
    dump
}

fn passes(filter: &RunFilter, state: &RunState) -> bool {
    let run = state.run();
    let has_parent = |id: Uuid| run.parent.as_ref().is_some_and(|link| link.run_id == id);
    (filter.statuses.is_empty() || filter.statuses.contains(&run.status))
        && filter
            .workflow_type
            .as_ref()
            .is_none_or(|name| *name == run.workflow_type)
        && (filter.business_id.is_none() || filter.business_id == run.business_id)
        && filter.parent.is_none_or(has_parent)
        && filter
            .created_from
            .is_none_or(|from| run.created_at >= from)
        && filter
            .created_until
            .is_none_or(|until| run.created_at < until)
        && (!filter.blocked || run.blocked.is_some())
        && filter.before.is_none_or(|before| run.id < before)
        && filter
            .attributes
            .iter()
            .all(|(name, value)| state.attributes.get(name) == Some(value))
}

/// Rows of a page, by their sizes, before the one that takes it over its limit of bytes; the first
/// is always one of them.
fn rows_that_fit(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0_usize;
    let mut rows = 0;
    for size in sizes {
        bytes = bytes.saturating_add(size);
        if rows > 0 && bytes > PAGE_BYTES_MAX {
            break;
        }
        rows += 1;
    }
    rows
}

/// One page of a list.
pub(super) fn page<'a, T: Clone + 'a>(rows: impl IntoIterator<Item = &'a T>, page: Page) -> Vec<T> {
    rows.into_iter()
        .skip(page.offset)
        .take(page.rows())
        .cloned()
        .collect()
}
