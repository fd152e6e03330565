//! Schedules: each tick once.

use durable_core::Timestamp;
use uuid::Uuid;

use super::state::State;
use crate::persistence::model::cut;
use crate::persistence::model::{
    KeyKind, ScheduleFire, ScheduleOutcome, ScheduleRecord, StartOutcome,
};
use crate::persistence::{Bug, planted};

impl State {
    /// Creates a schedule, or replaces all of it but its past.
    pub(super) fn put_schedule(&mut self, mut schedule: ScheduleRecord) {
        if let Some(stored) = self.schedules.get(&schedule.id) {
            schedule.created_at = stored.created_at;
            schedule.last_fire_at = stored.last_fire_at;
            schedule.last_run = stored.last_run;
        }
        schedule.created_at = cut(schedule.created_at);
        schedule.updated_at = cut(schedule.updated_at);
        schedule.next_fire_at = schedule.next_fire_at.map(cut);
        schedule.last_fire_at = schedule.last_fire_at.map(cut);
        self.schedules.insert(schedule.id.clone(), schedule);
    }

    /// Puts a schedule if the stored one is as it was seen.
    pub(super) fn swap_schedule(
        &mut self,
        seen: Option<&ScheduleRecord>,
        schedule: ScheduleRecord,
    ) -> bool {
        let unchanged = self.schedules.get(&schedule.id) == seen;
        if unchanged {
            self.put_schedule(schedule);
        }
        unchanged
    }

    pub(super) fn due_schedules(&self, max: usize, now: Timestamp) -> Vec<ScheduleRecord> {
        let mut due: Vec<(Timestamp, &ScheduleRecord)> = self
            .schedules
            .values()
            .filter(|schedule| !schedule.paused)
            .filter_map(|schedule| schedule.next_fire_at.map(|at| (at, schedule)))
            .filter(|(at, _)| *at <= now)
            .collect();
        // The sort is stable and the map is by id.
        due.sort_by_key(|(at, _)| *at);
        due.into_iter()
            .take(max)
            .map(|(_, schedule)| schedule.clone().listed())
            .collect()
    }

    /// Takes a tick, unless somebody has.
    pub(super) fn fire_schedule(&mut self, fire: ScheduleFire, now: Timestamp) -> ScheduleOutcome {
        let nominal = cut(fire.nominal);
        let slot = format!("{}@{}", fire.schedule_id, nominal.as_microsecond());
        let taken = self.keys.contains_key(&(KeyKind::CronSlot, slot.clone()));
        let due = self
            .schedules
            .get(&fire.schedule_id)
            .is_some_and(|schedule| {
                let free = schedule.next_fire_at == Some(nominal) && !taken;
                !schedule.paused && (free || planted(Bug::ScheduleFiresTwice))
            });
        if !due {
            return ScheduleOutcome::Lost;
        }
        let started = fire.start.map(|start| self.start_run(start, None, now));
        let (run_id, outcome) = match started {
            None => (None, ScheduleOutcome::Fired { run_id: None }),
            Some(StartOutcome::Started { run_id } | StartOutcome::Existing { run_id }) => {
                let run_id = Some(run_id);
                (run_id, ScheduleOutcome::Fired { run_id })
            }
            Some(StartOutcome::Rejected(why)) => (None, ScheduleOutcome::StartRejected(why)),
        };
        self.put_key(KeyKind::CronSlot, slot, run_id.unwrap_or(Uuid::nil()), now);
        if let Some(schedule) = self.schedules.get_mut(&fire.schedule_id) {
            schedule.last_fire_at = Some(nominal);
            schedule.next_fire_at = fire.next_fire_at.map(cut);
            schedule.last_run = run_id.or(schedule.last_run);
            schedule.updated_at = now;
        }
        outcome
    }
}
