//! Retention: ended runs go, their ids stay refused for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::Timestamp;
use uuid::Uuid;

use super::state::{RunState, State};
use crate::persistence::limits::TOMBSTONE_DAYS;
use crate::persistence::model::after;
use crate::persistence::model::{
    DeadLetterState, DeleteOutcome, KeyKind, OutboxState, PurgeOld, PurgeRuns, PurgedOld,
    WorkerStatus,
};

impl State {
    /// Deletes ended runs; answers how many.
    pub(super) fn purge_runs(&mut self, purge: &PurgeRuns, now: Timestamp) -> u64 {
        self.forget_tombstones(now);
        self.forget_audit(now);
        let turns: BTreeMap<i32, usize> = self.shards.from(purge.first_shard).zip(0..).collect();
        let mut gone: Vec<(usize, Option<Timestamp>, Uuid)> = self
            .runs()
            .values()
            .filter(|run| may_go(run, purge.finished_before))
            .map(|run| {
                let (id, completed_at) = (run.run().id, run.run().completed_at);
                (turns[&self.shards.of_run(id)], completed_at, id)
            })
            .collect();
        gone.sort_unstable();
        gone.truncate(purge.max);
        let gone: Vec<Uuid> = gone.into_iter().map(|(_, _, id)| id).collect();
        for run_id in &gone {
            self.purge_run(*run_id, now);
        }
        if gone.len() < purge.max {
            self.forget_slots(now);
            self.forget_limiters(now);
        }
        gone.len() as u64
    }

    /// Deletes one run that has ended.
    pub(super) fn delete_run(&mut self, run_id: Uuid, now: Timestamp) -> DeleteOutcome {
        let Some(run) = self.find(run_id) else {
            let tombstone = (KeyKind::Tombstone, run_id.to_string());
            return if self.keys.contains_key(&tombstone) {
                DeleteOutcome::AlreadyDeleted
            } else {
                DeleteOutcome::NotFound
            };
        };
        if !run.has_ended() {
            return DeleteOutcome::Open(run.run().status);
        }
        if is_on_its_way(run) {
            return DeleteOutcome::Undelivered;
        }
        self.purge_run(run_id, now);
        DeleteOutcome::Deleted
    }

    /// Deletes details by their age.
    pub(super) fn purge_old(&mut self, purge: &PurgeOld, now: Timestamp) -> PurgedOld {
        let max = purge.max;
        let mut purged = PurgedOld::default();
        self.forget_tombstones(now);
        let audit_is_left = self.forget_audit(now);
        let runs: Vec<Uuid> = self.runs().keys().copied().collect();
        for run_id in runs {
            let history_start = self.at(run_id).run().history_start;
            if let Some(before) = purge.history_before {
                let left = left(max, purged.events);
                purged.events += self
                    .at_mut(run_id)
                    .forget_events(history_start, before, left);
            }
            if let Some(before) = purge.signals_before {
                let left = left(max, purged.signals);
                purged.signals += self.at_mut(run_id).forget_signals(before, left);
            }
            if let Some(before) = purge.updates_before {
                let left = left(max, purged.updates);
                let updates = &mut self.at_mut(run_id).updates;
                purged.updates += forget(updates, left, |update| {
                    update.completed_at.is_some_and(|at| at < before)
                });
            }
            if let Some(before) = purge.logs_before {
                let left = left(max, purged.step_logs);
                let logs = &mut self.at_mut(run_id).step_logs;
                purged.step_logs += forget(logs, left, |line| line.created_at < before);
            }
            if let Some(before) = purge.outbox_before {
                let left = left(max, purged.outbox);
                purged.outbox += self.at_mut(run_id).forget_outbox(before, left);
            }
        }
        if let Some(before) = purge.letters_before {
            purged.dead_letters = forget(&mut self.dead_letters, max, |letter| {
                letter.state != DeadLetterState::Dead && letter.dead_at < before
            });
        }
        if let Some(before) = purge.results_before {
            purged.results = forget(&mut self.dedup, max, |result| result.created_at < before);
        }
        if let Some(before) = purge.workers_before {
            purged.workers = forget(&mut self.workers, max, |worker| {
                worker.status == WorkerStatus::Stopped && worker.last_heartbeat_at < before
            });
        }
        if let Some(before) = purge.rollups_before {
            purged.rollups = self.rollups.fold(before, now, max);
        }
        let full = |count: u64| count >= max as u64;
        purged.more = audit_is_left;
        purged.more |= [
            purged.events,
            purged.signals,
            purged.updates,
            purged.step_logs,
            purged.outbox,
            purged.dead_letters,
            purged.results,
            purged.workers,
            purged.rollups,
        ]
        .into_iter()
        .any(full);
        purged
    }

    fn purge_run(&mut self, run_id: Uuid, now: Timestamp) {
        let run = self.at(run_id).run();
        let idempotency = run.idempotency_key.clone();
        let business = run.business_id.clone();
        let keys = [
            (KeyKind::Idempotency, idempotency),
            (KeyKind::Business, business),
        ];
        for (kind, key) in keys {
            let Some(key) = key else { continue };
            let key = (kind, key);
            if self.keys.get(&key).is_some_and(|row| row.run_id == run_id) {
                self.keys.remove(&key);
            }
        }
        let letters: Vec<_> = self
            .dead_letters
            .range((run_id, Uuid::nil())..=(run_id, Uuid::max()))
            .map(|(key, _)| *key)
            .collect();
        for letter in letters {
            self.dead_letters.remove(&letter);
        }
        self.remove_run(run_id);
        self.put_key(KeyKind::Tombstone, run_id.to_string(), run_id, now);
    }

    fn forget_tombstones(&mut self, now: Timestamp) {
        self.keys.retain(|(kind, _), key| {
            *kind != KeyKind::Tombstone || after(key.created_at, KEPT) >= now
        });
    }

    /// Forgets ticks that nobody could take again: long ago, beyond what their schedule makes up for, and not its last one.
    fn forget_slots(&mut self, now: Timestamp) {
        let Self {
            keys, schedules, ..
        } = self;
        keys.retain(|(kind, slot), key| {
            if *kind != KeyKind::CronSlot || after(key.created_at, KEPT) >= now {
                return true;
            }
            let Some((id, tick)) = slot.rsplit_once('@') else {
                return true;
            };
            schedules.get(id).is_some_and(|schedule| {
                let window = u64::try_from(schedule.catchup_window_ms).unwrap_or(0);
                let last = schedule.last_fire_at;
                last.is_some_and(|last| last.as_microsecond().to_string() == tick)
                    || after(key.created_at, Duration::from_millis(window)) >= now
            })
        });
    }
}

impl State {
    /// Forgets limiters that nobody has asked for long: each has all its permits again.
    fn forget_limiters(&mut self, now: Timestamp) {
        self.breakers.retain(|key, limiter| {
            !key.starts_with("limit:") || after(limiter.updated_at, KEPT) >= now
        });
    }
}

/// For how long tombstones, ticks and limiters are kept at least.
const KEPT: Duration = Duration::from_secs(TOMBSTONE_DAYS.unsigned_abs() * 24 * 60 * 60);

/// Whether a run ended long enough ago and nothing of it is on its way.
fn may_go(run: &RunState, finished_before: Timestamp) -> bool {
    let completed_at = run.run().completed_at;
    run.has_ended() && completed_at.is_some_and(|at| at < finished_before) && !is_on_its_way(run)
}

/// Whether messages or outbox events of a run are not delivered yet.
fn is_on_its_way(run: &RunState) -> bool {
    !run.messages().is_empty()
        || run
            .outbox()
            .values()
            .any(|event| matches!(event.state, OutboxState::Pending | OutboxState::InFlight))
}

/// How many rows more.
fn left(max: usize, gone: u64) -> usize {
    max.saturating_sub(usize::try_from(gone).unwrap_or(usize::MAX))
}

/// Deletes what is old, at most so many; answers how many.
fn forget<K: Ord + Clone, V>(
    rows: &mut BTreeMap<K, V>,
    max: usize,
    is_old: impl Fn(&V) -> bool,
) -> u64 {
    let old = rows.iter().filter(|(_, row)| is_old(row));
    let old: Vec<K> = old.map(|(key, _)| key.clone()).take(max).collect();
    for key in &old {
        rows.remove(key);
    }
    old.len() as u64
}
