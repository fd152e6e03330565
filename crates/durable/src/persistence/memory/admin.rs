//! What operators and the audit read.

use uuid::Uuid;

use super::state::{RunState, State};
use crate::persistence::model::{
    DeadLetterState, Dump, Glance, OutboxState, Page, RunDump, RunFilter, RunRecord, StoreCounts,
    TaskFilter, TaskRecord, TaskStatus,
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
        for run in self.runs().values() {
            *counts.runs.entry(run.run().status).or_default() += 1;
            counts.blocked_runs += u64::from(run.run().blocked.is_some());
            counts.messages += run.messages().len() as u64;
            counts.outbox_pending += run
                .outbox()
                .values()
                .filter(|event| matches!(event.state, OutboxState::Pending | OutboxState::InFlight))
                .count() as u64;
            for task in run.tasks().values() {
                let of_type = counts.tasks.entry(task.activity_type.clone()).or_default();
                *of_type.entry(task.status).or_default() += 1;
                if task.status == TaskStatus::Pending {
                    let oldest = counts.oldest_pending_at.get_or_insert(task.visible_at);
                    *oldest = task.visible_at.min(*oldest);
                }
            }
        }
        counts.dead_letters = self
            .dead_letters
            .values()
            .filter(|letter| letter.state == DeadLetterState::Dead)
            .count() as u64;
        counts
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
            rollups: self.rollups.since(Timestamp::MIN),
            audit: self.audit.values().cloned().collect(),
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
    RunDump {
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
    }
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

/// One page of a list.
pub(super) fn page<'a, T: Clone + 'a>(rows: impl IntoIterator<Item = &'a T>, page: Page) -> Vec<T> {
    rows.into_iter()
        .skip(page.offset)
        .take(page.rows())
        .cloned()
        .collect()
}
