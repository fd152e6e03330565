//! What a workflow asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::AttributeValue;
use crate::failure::{Failure, WorkflowError};
use crate::options::{ActivityOptions, ChildOptions, millis};
use crate::payload::Payload;

/// One thing a workflow asks for. A turn's actions become events, tasks, timers and children in one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(
    clippy::large_enum_variant,
    reason = "the largest variant is the most frequent one; boxing its options would cost an allocation each"
)]
pub enum WorkflowAction {
    /// Run an activity.
    ScheduleActivity {
        /// Unique within the run.
        activity_id: String,
        /// Which activity.
        activity_type: String,
        /// Its input.
        input: Payload,
        /// How to run it.
        options: ActivityOptions,
    },
    /// Wake the workflow after a while.
    StartTimer {
        /// Unique within the run.
        timer_id: String,
        /// How long.
        #[serde(rename = "duration_ms", with = "millis")]
        duration: Duration,
    },
    /// Forget a timer that has not fired.
    CancelTimer {
        /// Which one.
        timer_id: String,
    },
    /// End the run with a result.
    CompleteWorkflow {
        /// The result.
        result: Payload,
    },
    /// End the run with an error.
    FailWorkflow {
        /// The error.
        error: WorkflowError,
    },
    /// Start another workflow whose result comes back to this one.
    ScheduleChildWorkflow {
        /// Unique within the run; the child's run id is derived from it.
        workflow_id: String,
        /// Which workflow.
        workflow_type: String,
        /// Its input.
        input: Payload,
    },
    /// The same with options.
    StartChildWorkflow {
        /// Unique within the run; the child's run id is derived from it.
        workflow_id: String,
        /// Which workflow.
        workflow_type: String,
        /// Its input.
        input: Payload,
        /// How it is run.
        options: ChildOptions,
    },
    /// Ask a child to stop. It reports its end all the same.
    CancelChildWorkflow {
        /// The name it was given.
        workflow_id: String,
    },
    /// Give up an activity that has not finished.
    CancelActivity {
        /// Which one.
        activity_id: String,
    },
    /// End the run as cancelled: the answer to a request to stop.
    CancelWorkflow {
        /// Why.
        reason: String,
    },
    /// End this iteration; the run goes on under the same id with an empty history.
    ContinueAsNew {
        /// Input of the next iteration.
        input: Payload,
    },
    /// Answer an update.
    CompleteUpdate {
        /// Which one.
        update_id: String,
        /// The answer.
        result: Payload,
    },
    /// Answer an update with an error.
    FailUpdate {
        /// Which one.
        update_id: String,
        /// The error.
        error: Failure,
    },
    /// Ask a person.
    OpenHumanTask {
        /// Unique within the run.
        task_id: String,
        /// What is asked.
        request: Payload,
    },
    /// Set search attributes of the run.
    UpsertSearchAttributes {
        /// The attributes; a null removes one.
        attributes: BTreeMap<String, Option<AttributeValue>>,
    },
    /// Nothing.
    None,
}

impl WorkflowAction {
    /// An activity with the default options.
    #[must_use]
    pub fn schedule_activity(
        activity_id: impl Into<String>,
        activity_type: impl Into<String>,
        input: Payload,
    ) -> Self {
        Self::ScheduleActivity {
            activity_id: activity_id.into(),
            activity_type: activity_type.into(),
            input,
            options: ActivityOptions::default(),
        }
    }

    /// Whether the run, or its iteration, is over with it.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::CompleteWorkflow { .. }
                | Self::FailWorkflow { .. }
                | Self::CancelWorkflow { .. }
                | Self::ContinueAsNew { .. }
        )
    }
}
