//! What a workflow asks for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::WorkflowError;
use crate::options::{ActivityOptions, millis};
use crate::payload::Payload;

/// One thing a workflow asks for. A turn's actions become events, tasks, timers and children in one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Give up an activity that has not finished.
    CancelActivity {
        /// Which one.
        activity_id: String,
    },
    /// Nothing.
    None,
}
