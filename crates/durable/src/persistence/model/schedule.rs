//! Schedules.

use durable_core::{Payload, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::run::StartRun;

/// A schedule as stored. When it fires next is computed by the engine; the store only makes sure that it fires once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// The user's id for it.
    pub id: String,
    /// Which workflow.
    pub workflow_type: String,
    /// Version; empty when the type has none.
    pub version: String,
    /// Input of each run.
    pub input: Payload,
    /// Five-field cron text.
    pub cron: String,
    /// IANA time zone.
    pub time_zone: String,
    /// What happens when the last run has not ended.
    pub overlap: OverlapPolicy,
    /// How late a missed tick may still be made up for, in milliseconds; 0 skips missed ticks.
    pub catchup_window_ms: i64,
    /// Whether it is paused.
    pub paused: bool,
    /// When it fires next; none when it never does again.
    pub next_fire_at: Option<Timestamp>,
    /// Nominal time of the last fire.
    pub last_fire_at: Option<Timestamp>,
    /// The run that the last fire started.
    pub last_run: Option<Uuid>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Which schedules; by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleFilter {
    /// Continue after this schedule: only larger ids.
    pub after: Option<String>,
}

/// What happens when a schedule fires while its last run has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OverlapPolicy {
    /// Start another.
    #[default]
    Allow,
    /// Skip this one.
    Skip,
    /// Ask the last run to stop, start another.
    Replace,
    /// Stop the last run, start another.
    Terminate,
    /// Start one more when the last run ends.
    BufferOne,
}

impl OverlapPolicy {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Allow,
        Self::Skip,
        Self::Replace,
        Self::Terminate,
        Self::BufferOne,
    ];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "ALLOW",
            Self::Skip => "SKIP",
            Self::Replace => "REPLACE",
            Self::Terminate => "TERMINATE",
            Self::BufferOne => "BUFFER_ONE",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }
}

/// A schedule's tick, to be taken by whoever is first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleFire {
    /// The schedule.
    pub schedule_id: String,
    /// The tick: the schedule's `next_fire_at` as the caller saw it.
    pub nominal: Timestamp,
    /// When it fires after that.
    pub next_fire_at: Option<Timestamp>,
    /// The run to start; none: this tick is skipped.
    pub start: Option<StartRun>,
}

/// What became of a tick.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ScheduleOutcome {
    /// The tick is this caller's; the run was started (None: it was skipped).
    Fired {
        /// The run.
        run_id: Option<Uuid>,
    },
    /// The tick is this caller's, and the start was refused; the schedule has moved on.
    StartRejected(super::run::StartRejection),
    /// Somebody else had it, or the schedule is paused, changed or gone. Nothing was written.
    Lost,
}
