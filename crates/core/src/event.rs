//! The facts of a run, as kept in its history.
//!
//! Stored form: a dotted name, a small JSON object, and at most one payload beside it, so that a
//! payload is never parsed on the way and a codec touches nothing else. An event written today is
//! read by every later release: fields are only added, with a default; `tests/golden/` holds
//! every variant as it was first written.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

mod stored;

pub use stored::{EventError, StoredEvent};

use crate::failure::{Failure, TimeoutType, WorkflowError};
use crate::options::ActivityOptions;
use crate::payload::Payload;
use crate::signal::WorkflowSignal;

/// Version of the stored form; raised only when an old reader could misread a new event.
pub const STORED_FORM_VERSION: u16 = 1;

/// A fact in a run's history.
///
/// Kept small, since histories in memory and turns on their way are lists of it: the options of an activity, four times as large as all
/// else, are boxed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
pub enum WorkflowEvent {
    /// The run began.
    #[serde(rename = "workflow.started")]
    WorkflowStarted {
        /// Its input.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        input: Payload,
    },
    /// The run ended with a result.
    #[serde(rename = "workflow.completed")]
    WorkflowCompleted {
        /// The result.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        result: Payload,
    },
    /// The run ended with an error.
    #[serde(rename = "workflow.failed")]
    WorkflowFailed {
        /// The error.
        error: WorkflowError,
    },
    /// The run ended because it was asked to.
    #[serde(rename = "workflow.cancelled")]
    WorkflowCancelled {
        /// Why.
        reason: String,
    },
    /// The workflow asked for an activity.
    #[serde(rename = "activity.scheduled")]
    ActivityScheduled {
        /// Unique within the run.
        activity_id: String,
        /// Which activity.
        activity_type: String,
        /// Its input.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        input: Payload,
        /// How to run it.
        #[serde(default)]
        options: Box<ActivityOptions>,
    },
    /// An attempt began. Written together with the attempt's end.
    #[serde(rename = "activity.started")]
    ActivityStarted {
        /// Which activity.
        activity_id: String,
        /// Attempt number, from 1.
        #[serde(default = "stored::attempt_left_out")]
        attempt: u32,
        /// Who ran it.
        worker_id: String,
        /// When it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Timestamp>,
    },
    /// The activity succeeded.
    #[serde(rename = "activity.completed")]
    ActivityCompleted {
        /// Which activity.
        activity_id: String,
        /// Its result.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        result: Payload,
    },
    /// An attempt failed.
    #[serde(rename = "activity.failed")]
    ActivityFailed {
        /// Which activity.
        activity_id: String,
        /// Why.
        error: Failure,
        /// Whether another attempt followed.
        will_retry: bool,
    },
    /// One of the activity's clocks ran out for good.
    #[serde(rename = "activity.timed_out")]
    ActivityTimedOut {
        /// Which activity.
        activity_id: String,
        /// Which clock.
        timeout_type: TimeoutType,
    },
    /// The activity was given up.
    #[serde(rename = "activity.cancelled")]
    ActivityCancelled {
        /// Which activity.
        activity_id: String,
        /// Why.
        reason: String,
    },
    /// The workflow asked to be woken.
    #[serde(rename = "timer.started")]
    TimerStarted {
        /// Unique within the run.
        timer_id: String,
        /// After how long.
        duration_ms: u64,
    },
    /// The time came.
    #[serde(rename = "timer.fired")]
    TimerFired {
        /// Which timer.
        timer_id: String,
    },
    /// The timer was forgotten before it fired.
    #[serde(rename = "timer.cancelled")]
    TimerCancelled {
        /// Which timer.
        timer_id: String,
    },
    /// A signal arrived.
    #[serde(rename = "signal.received")]
    SignalReceived {
        /// The signal.
        signal: WorkflowSignal,
        /// The run ended before its program saw the signal: kept so that none is lost, a note and no fact.
        #[serde(default, skip_serializing_if = "is_false")]
        unread: bool,
    },
    /// The workflow asked for a child; the message that creates it is in the same commit.
    #[serde(rename = "child.started")]
    ChildWorkflowStarted {
        /// The child's run id.
        workflow_id: Uuid,
        /// Which workflow.
        workflow_type: String,
        /// The name the parent gave it, unique within the parent.
        #[serde(default)]
        child_id: String,
        /// Its input.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        input: Payload,
    },
    /// The workflow asked a child to stop; the message that tells it is in the same commit.
    #[serde(rename = "child.cancel_requested")]
    ChildWorkflowCancelRequested {
        /// The child's run id.
        workflow_id: Uuid,
        /// The name the parent gave it.
        child_id: String,
    },
    /// A child ended with a result.
    #[serde(rename = "child.completed")]
    ChildWorkflowCompleted {
        /// The child's run id.
        workflow_id: Uuid,
        /// The name the parent gave it.
        #[serde(default)]
        child_id: String,
        /// Its result.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        result: Payload,
    },
    /// A child failed or was cancelled.
    #[serde(rename = "child.failed")]
    ChildWorkflowFailed {
        /// The child's run id.
        workflow_id: Uuid,
        /// The name the parent gave it.
        #[serde(default)]
        child_id: String,
        /// Why.
        error: WorkflowError,
    },
    /// Someone asked the run to stop.
    #[serde(rename = "workflow.cancel_requested")]
    CancellationRequested {
        /// Why.
        reason: String,
    },
    /// The run goes on under the same id with an empty history.
    #[serde(rename = "workflow.continued_as_new")]
    WorkflowContinuedAsNew {
        /// Number of the iteration that begins.
        iteration: u32,
        /// Its input.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        input: Payload,
    },
    /// History after `to_sequence` no longer counts; what follows this event does.
    #[serde(rename = "workflow.reset")]
    WorkflowReset {
        /// Last event that still counts.
        to_sequence: i64,
        /// The epoch that begins.
        epoch: u32,
        /// Why.
        reason: String,
    },
    /// An update passed its validator and was taken.
    #[serde(rename = "update.accepted")]
    UpdateAccepted {
        /// The caller's id for it.
        update_id: String,
        /// Which handler.
        name: String,
        /// Its input.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        input: Payload,
    },
    /// An update's handler answered.
    #[serde(rename = "update.completed")]
    UpdateCompleted {
        /// Which update.
        update_id: String,
        /// The answer.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        result: Payload,
    },
    /// An update's handler failed.
    #[serde(rename = "update.failed")]
    UpdateFailed {
        /// Which update.
        update_id: String,
        /// Why.
        error: Failure,
    },
    /// A value that must not be computed twice.
    #[serde(rename = "side_effect.recorded")]
    SideEffectRecorded {
        /// Unique within the run.
        effect_id: String,
        /// The value.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        value: Payload,
    },
    /// A local activity succeeded.
    #[serde(rename = "local_activity.completed")]
    LocalActivityCompleted {
        /// Unique within the run.
        activity_id: String,
        /// Which activity.
        activity_type: String,
        /// Its result.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        result: Payload,
    },
    /// A local activity failed for good.
    #[serde(rename = "local_activity.failed")]
    LocalActivityFailed {
        /// Unique within the run.
        activity_id: String,
        /// Which activity.
        activity_type: String,
        /// Why.
        error: Failure,
    },
    /// The run took the new side of a patch.
    #[serde(rename = "patch.marked")]
    PatchMarked {
        /// The patch.
        patch_id: String,
    },
    /// The run was pinned to a version, or moved to another one.
    #[serde(rename = "version.marked")]
    VersionMarked {
        /// The version.
        version: String,
    },
    /// Search attributes were set from inside.
    #[serde(rename = "search_attributes.upserted")]
    SearchAttributesUpserted {
        /// The attributes; a null removes one.
        attributes: BTreeMap<String, Option<AttributeValue>>,
    },
    /// The run waits for a person.
    #[serde(rename = "human_task.opened")]
    HumanTaskOpened {
        /// Unique within the run.
        task_id: String,
        /// What is asked.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        request: Payload,
    },
    /// A person decided.
    #[serde(rename = "human_task.decided")]
    HumanTaskDecided {
        /// Which task.
        task_id: String,
        /// approved, rejected, expired …
        decision: String,
        /// Who.
        actor: String,
        /// The payload, edited perhaps.
        #[serde(default, skip_serializing_if = "Payload::is_absent")]
        answer: Payload,
    },
}

/// The value of a search attribute; types are kept apart (`1` is not `"1"`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number. What is not one (NaN, an infinity) is kept as null and read back as NaN.
    Double(#[serde(deserialize_with = "null_as_nan")] f64),
    /// Yes or no.
    Bool(bool),
    /// An instant.
    Time(Timestamp),
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

fn null_as_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// One failed attempt of an activity, kept on its task until the activity ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Attempt number, from 1.
    pub attempt: u32,
    /// Who ran it.
    pub worker_id: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// How it failed.
    pub failure: Failure,
    /// Attempts just before this one that were left out: a task that fails again and again keeps
    /// the first and the last ones.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub omitted_before: u32,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_none_left_out(omitted: &u32) -> bool {
    *omitted == 0
}

macro_rules! event_types {
    ($($variant:ident => $name:literal),+ $(,)?) => {
        impl WorkflowEvent {
            /// Every stored name.
            pub const TYPES: &'static [&'static str] = &[$($name),+];

            /// The stored name.
            #[must_use]
            pub const fn event_type(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $name),+ }
            }
        }
    };
}

event_types! {
    WorkflowStarted => "workflow.started",
    WorkflowCompleted => "workflow.completed",
    WorkflowFailed => "workflow.failed",
    WorkflowCancelled => "workflow.cancelled",
    ActivityScheduled => "activity.scheduled",
    ActivityStarted => "activity.started",
    ActivityCompleted => "activity.completed",
    ActivityFailed => "activity.failed",
    ActivityTimedOut => "activity.timed_out",
    ActivityCancelled => "activity.cancelled",
    TimerStarted => "timer.started",
    TimerFired => "timer.fired",
    TimerCancelled => "timer.cancelled",
    SignalReceived => "signal.received",
    ChildWorkflowStarted => "child.started",
    ChildWorkflowCancelRequested => "child.cancel_requested",
    ChildWorkflowCompleted => "child.completed",
    ChildWorkflowFailed => "child.failed",
    CancellationRequested => "workflow.cancel_requested",
    WorkflowContinuedAsNew => "workflow.continued_as_new",
    WorkflowReset => "workflow.reset",
    UpdateAccepted => "update.accepted",
    UpdateCompleted => "update.completed",
    UpdateFailed => "update.failed",
    SideEffectRecorded => "side_effect.recorded",
    LocalActivityCompleted => "local_activity.completed",
    LocalActivityFailed => "local_activity.failed",
    PatchMarked => "patch.marked",
    VersionMarked => "version.marked",
    SearchAttributesUpserted => "search_attributes.upserted",
    HumanTaskOpened => "human_task.opened",
    HumanTaskDecided => "human_task.decided",
}

impl WorkflowEvent {
    /// The payload the event carries, if its kind carries one.
    #[must_use]
    pub fn payload(&self) -> Option<&Payload> {
        match self {
            Self::WorkflowStarted { input }
            | Self::ActivityScheduled { input, .. }
            | Self::ChildWorkflowStarted { input, .. }
            | Self::WorkflowContinuedAsNew { input, .. }
            | Self::UpdateAccepted { input, .. } => Some(input),
            Self::WorkflowCompleted { result }
            | Self::ActivityCompleted { result, .. }
            | Self::ChildWorkflowCompleted { result, .. }
            | Self::UpdateCompleted { result, .. }
            | Self::LocalActivityCompleted { result, .. } => Some(result),
            Self::SignalReceived { signal, .. } => Some(&signal.payload),
            Self::SideEffectRecorded { value, .. } => Some(value),
            Self::HumanTaskOpened { request, .. } => Some(request),
            Self::HumanTaskDecided { answer, .. } => Some(answer),
            _ => None,
        }
    }

    /// The payload the event carries, to be changed.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        match self {
            Self::WorkflowStarted { input }
            | Self::ActivityScheduled { input, .. }
            | Self::ChildWorkflowStarted { input, .. }
            | Self::WorkflowContinuedAsNew { input, .. }
            | Self::UpdateAccepted { input, .. } => Some(input),
            Self::WorkflowCompleted { result }
            | Self::ActivityCompleted { result, .. }
            | Self::ChildWorkflowCompleted { result, .. }
            | Self::UpdateCompleted { result, .. }
            | Self::LocalActivityCompleted { result, .. } => Some(result),
            Self::SignalReceived { signal, .. } => Some(&mut signal.payload),
            Self::SideEffectRecorded { value, .. } => Some(value),
            Self::HumanTaskOpened { request, .. } => Some(request),
            Self::HumanTaskDecided { answer, .. } => Some(answer),
            _ => None,
        }
    }

    /// The failure the event tells of, to be changed.
    pub const fn failure_mut(&mut self) -> Option<&mut Failure> {
        match self {
            Self::WorkflowFailed { error } | Self::ChildWorkflowFailed { error, .. } => {
                Some(error.failure_mut())
            }
            Self::ActivityFailed { error, .. }
            | Self::UpdateFailed { error, .. }
            | Self::LocalActivityFailed { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether the run is over with it.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::WorkflowCompleted { .. }
                | Self::WorkflowFailed { .. }
                | Self::WorkflowCancelled { .. }
        )
    }
}
