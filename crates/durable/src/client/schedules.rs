//! Schedules: runs started by the clock.

use std::time::Duration;

use durable_core::{Payload, PayloadError, Timestamp};
use uuid::Uuid;

use super::{Client, RunHandle, Untyped};
use crate::persistence::model::{
    OverlapPolicy, Page, ScheduleFilter, ScheduleRecord, StartOutcome, StartRejection, StartRun,
};
use crate::persistence::{Bug, StoreError, planted};
use crate::schedule::{Cron, run_id_of, start_of};
use crate::workflow::WorkflowDefinition;
use crate::{Error, Result};

/// Most ticks that one backfill starts.
pub const BACKFILL_TICKS_MAX: usize = 10_000;
/// Starts in one call.
const STARTS_AT_ONCE: usize = 500;

/// A schedule about to be created: which workflow, and when.
///
/// ```
/// use std::time::Duration;
/// use everruns_durable::prelude::*;
///
/// # async fn create(client: Client) -> Result<(), Error> {
/// let nightly = Schedule::cron("nightly", "30 2 * * *")
///     .workflow_named("cleanup", Payload::ABSENT)
///     .time_zone("Europe/Berlin")
///     .catchup(Duration::from_secs(3600));
/// client.create_schedule(nightly).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a schedule does nothing unless it is created"]
pub struct Schedule {
    id: String,
    cron: String,
    time_zone: String,
    overlap: OverlapPolicy,
    catchup: Duration,
    workflow: Option<Result<Target, String>>,
}

/// What is started.
#[derive(Debug, Clone)]
struct Target {
    workflow_type: String,
    version: String,
    input: Payload,
}

impl Schedule {
    /// A schedule under your own id, by a cron expression of five fields: minute, hour, day of month, month, day of week.
    pub fn cron(id: impl Into<String>, cron: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            cron: cron.into(),
            time_zone: "UTC".to_owned(),
            overlap: OverlapPolicy::default(),
            catchup: Duration::ZERO,
            workflow: None,
        }
    }

    /// The workflow that each tick starts, and the input of its runs.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "an input is given away, as at a start"
    )]
    pub fn workflow<W: WorkflowDefinition>(mut self, input: W::Input) -> Self {
        let input = Payload::from_value(&input).map_err(|error: PayloadError| error.to_string());
        self.workflow = Some(input.map(|input| Target {
            workflow_type: W::TYPE.to_owned(),
            version: W::VERSION.to_owned(),
            input,
        }));
        self
    }

    /// The same for a workflow known by name only.
    pub fn workflow_named(mut self, workflow_type: impl Into<String>, input: Payload) -> Self {
        self.workflow = Some(Ok(Target {
            workflow_type: workflow_type.into(),
            version: String::new(),
            input,
        }));
        self
    }

    /// The time zone whose wall clock the expression speaks of, by its IANA name; UTC unless it is given.
    pub fn time_zone(mut self, zone: impl Into<String>) -> Self {
        self.time_zone = zone.into();
        self
    }

    /// What happens when a tick comes while the last run has not ended.
    pub fn overlap(mut self, policy: OverlapPolicy) -> Self {
        self.overlap = policy;
        self
    }

    /// Makes up for ticks that were missed by at most this, one after the other. Unless it is given, ticks that were missed are skipped.
    pub fn catchup(mut self, window: Duration) -> Self {
        self.catchup = window;
        self
    }

    /// As it is stored, from now on.
    fn into_record(self, now: Timestamp) -> Result<ScheduleRecord> {
        let cron = parse(&self.cron, &self.time_zone)?;
        let id = self.id;
        let target = match self.workflow {
            Some(Ok(target)) => target,
            Some(Err(error)) => {
                let message = format!("the input of schedule {id:?} cannot be stored: {error}");
                return Err(Error::configuration(message));
            }
            None => {
                let message =
                    format!("schedule {id:?} names no workflow; call workflow::<W>(input)");
                return Err(Error::configuration(message));
            }
        };
        let catchup_window_ms = i64::try_from(self.catchup.as_millis()).map_err(|_| {
            Error::configuration(format!(
                "the catch-up window of schedule {id:?} is too long"
            ))
        })?;
        Ok(ScheduleRecord {
            id,
            workflow_type: target.workflow_type,
            version: target.version,
            input: target.input,
            cron: self.cron,
            time_zone: self.time_zone,
            overlap: self.overlap,
            catchup_window_ms,
            paused: false,
            next_fire_at: cron.next_after(now),
            last_fire_at: None,
            last_run: None,
            created_at: now,
            updated_at: now,
        })
    }
}

fn parse(cron: &str, zone: &str) -> Result<Cron> {
    Cron::parse(cron, zone).map_err(|error| Error::configuration(error.to_string()))
}

/// Whether two schedules say the same, whatever has become of them.
fn same_definition(one: &ScheduleRecord, other: &ScheduleRecord) -> bool {
    (&one.workflow_type, &one.version, &one.input)
        == (&other.workflow_type, &other.version, &other.input)
        && (&one.cron, &one.time_zone) == (&other.cron, &other.time_zone)
        && (one.overlap, one.catchup_window_ms) == (other.overlap, other.catchup_window_ms)
}

impl Client {
    /// Creates a schedule. The same one again changes nothing; another one under the same id replaces it from the next tick on, and
    /// stays paused if it was.
    ///
    /// # Errors
    /// [`Error::is_invalid`] for a cron expression or a time zone that cannot be read, or without a workflow; the store's.
    pub async fn create_schedule(&self, schedule: Schedule) -> Result<ScheduleRecord> {
        let wanted = schedule.into_record(self.store().clock(None).await?)?;
        let id = wanted.id.clone();
        self.change_schedule(&id, |stored, _| {
            let mut schedule = wanted.clone();
            match stored {
                Some(stored) if same_definition(stored, &schedule) => return Ok(None),
                Some(stored) => schedule.paused = stored.paused,
                None => {}
            }
            Ok(Some(schedule))
        })
        .await
    }

    /// A schedule as it stands.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the store's.
    pub async fn get_schedule(&self, id: &str) -> Result<ScheduleRecord> {
        let schedule = self.store().get_schedule(id).await?;
        schedule.ok_or_else(|| not_found(id))
    }

    /// Schedules by id.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        page: Page,
    ) -> Result<Vec<ScheduleRecord>> {
        Ok(self.store().list_schedules(filter, page).await?)
    }

    /// Pauses a schedule: no tick fires until it is resumed.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the store's.
    pub async fn pause_schedule(&self, id: &str) -> Result<()> {
        let pause = |stored: Option<&ScheduleRecord>, now| {
            let mut schedule = stored.cloned().ok_or_else(|| not_found(id))?;
            if schedule.paused {
                return Ok(None);
            }
            schedule.paused = true;
            schedule.updated_at = now;
            Ok(Some(schedule))
        };
        self.change_schedule(id, pause).await.map(drop)
    }

    /// Resumes a schedule with its next tick; those that came while it was paused are not made up for.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the store's.
    pub async fn resume_schedule(&self, id: &str) -> Result<()> {
        let resume = |stored: Option<&ScheduleRecord>, now| {
            let mut schedule = stored.cloned().ok_or_else(|| not_found(id))?;
            if !schedule.paused {
                return Ok(None);
            }
            schedule.paused = false;
            schedule.next_fire_at = parse(&schedule.cron, &schedule.time_zone)?.next_after(now);
            schedule.updated_at = now;
            Ok(Some(schedule))
        };
        self.change_schedule(id, resume).await.map(drop)
    }

    /// Deletes a schedule; its runs go on.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the store's.
    pub async fn delete_schedule(&self, id: &str) -> Result<()> {
        if self.store().delete_schedule(id).await? {
            Ok(())
        } else {
            Err(not_found(id))
        }
    }

    /// Starts a run of a schedule now, also of a paused one, and whatever the overlap policy says. Its ticks stay as they are.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the start's.
    pub async fn trigger_schedule(&self, id: &str) -> Result<RunHandle<Untyped>> {
        let schedule = self.get_schedule(id).await?;
        let now = self.store().clock(None).await?;
        let start = start_of(&schedule, self.shared.runtime.new_id(), now);
        if planted(Bug::TriggerNotStored) {
            return Ok(RunHandle::new(self.clone(), start.run_id));
        }
        self.start_run(start).await
    }

    /// Starts the runs of all ticks after `from`, up to and including `to`, that have not been started, all at once, whatever the overlap
    /// policy says; ticks in the future are left to come. Answers the ids of the runs started, in order of their ticks.
    ///
    /// Each tick has one run, whoever starts it: repeating a backfill, also one that failed midway, starts only what is missing.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; [`Error::is_invalid`] for more than [`BACKFILL_TICKS_MAX`] ticks; the store's.
    pub async fn backfill_schedule(
        &self,
        id: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<Uuid>> {
        let schedule = self.get_schedule(id).await?;
        let cron = parse(&schedule.cron, &schedule.time_zone)?;
        let to = to.min(self.store().clock(None).await?);
        let mut ticks = Vec::new();
        let mut tick = cron.next_after(from);
        while let Some(nominal) = tick.filter(|nominal| *nominal <= to) {
            if ticks.len() == BACKFILL_TICKS_MAX {
                return Err(Error::configuration(format!(
                    "schedule {id:?} has more than {BACKFILL_TICKS_MAX} ticks from {from} to {to}; take a shorter stretch"
                )));
            }
            ticks.push(nominal);
            tick = cron.next_after(nominal);
        }
        let mut started = Vec::new();
        for ticks in ticks.chunks(STARTS_AT_ONCE) {
            started.extend(self.start_ticks(&schedule, ticks).await?);
        }
        Ok(started)
    }

    async fn start_ticks(
        &self,
        schedule: &ScheduleRecord,
        ticks: &[Timestamp],
    ) -> Result<Vec<Uuid>> {
        let start =
            |nominal: &Timestamp| start_of(schedule, run_id_of(&schedule.id, *nominal), *nominal);
        let starts: Vec<StartRun> = ticks.iter().map(start).collect();
        // Tried once: after an unknown outcome the caller could not be told which of them it started.
        let outcomes = self.store().start_runs(starts, None).await?;
        let mut started = Vec::new();
        for outcome in outcomes {
            match outcome {
                StartOutcome::Started { run_id } => started.push(run_id),
                // The tick has had its run, perhaps of an earlier definition, or one that is deleted by now.
                StartOutcome::Existing { .. }
                | StartOutcome::Rejected(
                    StartRejection::KeyConflict { .. }
                    | StartRejection::RunFinished { .. }
                    | StartRejection::Deleted { .. },
                ) => {}
                StartOutcome::Rejected(rejection) => {
                    return Err(crate::error::Kind::Start(rejection).into());
                }
            }
        }
        for run_id in &started {
            self.ring(*run_id);
        }
        Ok(started)
    }

    /// Changes a schedule as it stands, or creates it; decides again where somebody else changed it meanwhile. `change` answers none where
    /// nothing is left to do, so that a repeat after an unknown outcome finds it done.
    async fn change_schedule(
        &self,
        id: &str,
        change: impl Fn(Option<&ScheduleRecord>, Timestamp) -> Result<Option<ScheduleRecord>>,
    ) -> Result<ScheduleRecord> {
        let attempt = async || -> Result<ScheduleRecord> {
            let store = self.store();
            let seen = store.get_schedule(id).await?;
            let now = store.clock(None).await?;
            let changed = change(seen.as_ref(), now)?;
            let Some(mut schedule) = changed else {
                return seen.ok_or_else(|| not_found(id));
            };
            if let Some(seen) = &seen {
                schedule.created_at = seen.created_at;
                schedule.last_fire_at = seen.last_fire_at;
                schedule.last_run = seen.last_run;
            }
            if store.swap_schedule(seen, schedule.clone()).await? {
                return Ok(schedule);
            }
            let message = format!("schedule {id} was changed by somebody else at the same time");
            Err(StoreError::Conflict(message).into())
        };
        let schedule = self.retried(attempt).await?;
        let hub = &self.shared.hub;
        if hub.does_housekeeping() {
            hub.schedules.ring();
        } else {
            hub.pass_on_schedules();
        }
        Ok(schedule)
    }
}

fn not_found(id: &str) -> Error {
    StoreError::NotFound {
        what: "schedule",
        id: id.to_owned(),
    }
    .into()
}
