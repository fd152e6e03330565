//! Ticks of schedules.

use durable_core::Timestamp;
use uuid::Uuid;

use super::starts::load_for;
use crate::persistence::model::{
    KeyKind, ScheduleFire, ScheduleOutcome, ScheduleRecord, StartOutcome,
};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};
use crate::persistence::{Bug, StoreResult, planted};

/// Takes ticks.
#[derive(Debug)]
pub(crate) struct FireSchedules {
    pub(crate) fires: Vec<ScheduleFire>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for FireSchedules {
    type Answer = Vec<ScheduleOutcome>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    /// The chore halves a set of which one is locked.
    fn patience(&self) -> Patience {
        Patience::of_set(self.fires.len())
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let starts = self.fires.iter().filter_map(|fire| fire.start.as_ref());
        let first = Load {
            schedules: self
                .fires
                .iter()
                .map(|fire| fire.schedule_id.clone())
                .collect(),
            keys: self
                .fires
                .iter()
                .map(|fire| (KeyKind::CronSlot, slot(fire)))
                .collect(),
            ..Load::default()
        };
        let mut work = load_for(starts, first, Load::default(), tx).await?;
        let outcomes = self.fires.iter().map(|fire| work.fire(fire)).collect();
        Ok((outcomes, work.finish()))
    }
}

/// Replaces a schedule that still is as it was seen.
#[derive(Debug)]
pub(crate) struct SwapSchedule {
    pub(crate) seen: ScheduleRecord,
    pub(crate) schedule: ScheduleRecord,
}

impl Intent for SwapSchedule {
    type Answer = bool;

    fn at(&self) -> Option<Timestamp> {
        None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let load = Load {
            schedules: vec![self.schedule.id.clone()],
            ..Load::default()
        };
        let loaded = tx.load(load).await?;
        let mut changes = Changes::default();
        let unchanged = loaded.schedules.get(&self.schedule.id) == Some(&self.seen);
        if unchanged {
            let schedule = self.schedule.clone();
            changes.put_schedules.push(ScheduleRecord {
                created_at: self.seen.created_at,
                last_fire_at: self.seen.last_fire_at,
                last_run: self.seen.last_run,
                ..schedule
            });
        }
        Ok((unchanged, changes))
    }
}

/// Key of a tick.
fn slot(fire: &ScheduleFire) -> String {
    format!("{}@{}", fire.schedule_id, fire.nominal.as_microsecond())
}

impl Work {
    fn fire(&mut self, fire: &ScheduleFire) -> ScheduleOutcome {
        let key = (KeyKind::CronSlot, slot(fire));
        let Some(mut schedule) = self.loaded.schedules.get(&fire.schedule_id).cloned() else {
            return ScheduleOutcome::Lost;
        };
        let taken =
            self.loaded.keys.contains_key(&key) || schedule.next_fire_at != Some(fire.nominal);
        if schedule.paused || (taken && !planted(Bug::ScheduleFiresTwice)) {
            return ScheduleOutcome::Lost;
        }
        let started = fire.start.as_ref().map(|start| self.start(start, None));
        let run_id = match &started {
            Some(StartOutcome::Started { run_id } | StartOutcome::Existing { run_id }) => {
                Some(*run_id)
            }
            _ => None,
        };
        self.put_key(KeyKind::CronSlot, &key.1, run_id.unwrap_or(Uuid::nil()));
        schedule.last_fire_at = Some(fire.nominal);
        schedule.next_fire_at = fire.next_fire_at;
        schedule.updated_at = self.now;
        schedule.last_run = run_id.or(schedule.last_run);
        self.changes.put_schedules.retain(|s| s.id != schedule.id);
        self.changes.put_schedules.push(schedule.clone());
        self.loaded.schedules.insert(schedule.id.clone(), schedule);
        match started {
            Some(StartOutcome::Rejected(why)) => ScheduleOutcome::StartRejected(why),
            _ => ScheduleOutcome::Fired { run_id },
        }
    }
}
