//! Retention: ended runs go, their ids stay refused for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::Timestamp;
use uuid::Uuid;

use super::state::{RunState, State};
use crate::persistence::limits::TOMBSTONE_DAYS;
use crate::persistence::model::after;
use crate::persistence::model::{KeyKind, OutboxState, PurgeRuns};

impl State {
    /// Deletes ended runs; answers how many.
    pub(super) fn purge_runs(&mut self, purge: &PurgeRuns, now: Timestamp) -> u64 {
        self.forget_tombstones(now);
        self.forget_audit(now);
        let turns: BTreeMap<i32, usize> = self.shards.from(purge.first_shard).zip(0..).collect();
        let mut gone: Vec<Uuid> = self
            .runs()
            .values()
            .filter(|run| may_go(run, purge.finished_before))
            .map(|run| run.run().id)
            .collect();
        // The sort is stable: by id within a shard.
        gone.sort_by_key(|run_id| turns[&self.shards.of_run(*run_id)]);
        gone.truncate(purge.max);
        for run_id in &gone {
            self.purge_run(*run_id, now);
        }
        if gone.len() < purge.max {
            self.forget_slots(now);
            self.forget_limiters(now);
        }
        gone.len() as u64
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
    let on_its_way = !run.messages().is_empty()
        || run
            .outbox()
            .values()
            .any(|event| matches!(event.state, OutboxState::Pending | OutboxState::InFlight));
    let completed_at = run.run().completed_at;
    run.has_ended() && completed_at.is_some_and(|at| at < finished_before) && !on_its_way
}
