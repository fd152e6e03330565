//! What a program is told.

use uuid::Uuid;

use crate::event::WorkflowEvent;
use crate::failure::{Failure, TimeoutType, WorkflowError};
use crate::payload::Payload;
use crate::signal::WorkflowSignal;

/// Something that happened to a run and that its program has to react to.
///
/// Every fact is kept as one event; the events that are no facts are what the program asked for, and notes.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// The run, or its next iteration, begins.
    Started {
        /// Its input.
        input: Payload,
    },
    /// An activity succeeded.
    ActivityCompleted {
        /// Which one.
        activity_id: String,
        /// Its result.
        result: Payload,
    },
    /// An activity failed and is not tried again.
    ActivityFailed {
        /// Which one.
        activity_id: String,
        /// Why.
        error: Failure,
    },
    /// One of an activity's clocks ran out for good.
    ActivityTimedOut {
        /// Which one.
        activity_id: String,
        /// Which clock.
        timeout_type: TimeoutType,
    },
    /// A local activity succeeded.
    LocalActivityCompleted {
        /// Which one.
        activity_id: String,
        /// Of which type.
        activity_type: String,
        /// Its result.
        result: Payload,
    },
    /// A local activity failed and is not tried again.
    LocalActivityFailed {
        /// Which one.
        activity_id: String,
        /// Of which type.
        activity_type: String,
        /// Why.
        error: Failure,
    },
    /// A timer fired.
    TimerFired {
        /// Which one.
        timer_id: String,
    },
    /// A signal arrived.
    SignalReceived {
        /// The signal.
        signal: WorkflowSignal,
    },
    /// A child ended with a result.
    ChildCompleted {
        /// The child's run id.
        workflow_id: Uuid,
        /// The name the parent gave it.
        child_id: String,
        /// Its result.
        result: Payload,
    },
    /// A child failed or was cancelled.
    ChildFailed {
        /// The child's run id.
        workflow_id: Uuid,
        /// The name the parent gave it.
        child_id: String,
        /// Why.
        error: WorkflowError,
    },
    /// An update passed its validator.
    UpdateAccepted {
        /// The caller's id for it.
        update_id: String,
        /// Which handler.
        name: String,
        /// Its input.
        input: Payload,
    },
    /// A person decided.
    HumanTaskDecided {
        /// Which task.
        task_id: String,
        /// approved, rejected, expired …
        decision: String,
        /// Who.
        actor: String,
        /// The payload, edited perhaps.
        answer: Payload,
    },
    /// Someone asked the run to stop.
    CancelRequested {
        /// Why.
        reason: String,
    },
}

/// Both directions from one list, so that they cannot disagree.
macro_rules! facts_and_events {
    ($($fact:ident { $($field:ident),+ } <=> $event:ident $(, with $extra:ident: $value:pat => $written:expr)?;)+) => {
        impl Fact {
            /// The fact that an event tells, if it tells one. A failure that is retried is a note, not a fact, and so is a signal nobody read.
            #[must_use]
            pub fn from_event(event: &WorkflowEvent) -> Option<Self> {
                match event {
                    $(WorkflowEvent::$event { $($field),+ $(, $extra: $value)? } => {
                        Some(Self::$fact { $($field: $field.clone()),+ })
                    })+
                    _ => None,
                }
            }
        }

        impl From<Fact> for WorkflowEvent {
            fn from(fact: Fact) -> Self {
                match fact {
                    $(Fact::$fact { $($field),+ } => Self::$event { $($field),+ $(, $extra: $written)? },)+
                }
            }
        }
    };
}

facts_and_events! {
    Started { input } <=> WorkflowStarted;
    ActivityCompleted { activity_id, result } <=> ActivityCompleted;
    ActivityFailed { activity_id, error } <=> ActivityFailed, with will_retry: false => false;
    ActivityTimedOut { activity_id, timeout_type } <=> ActivityTimedOut;
    LocalActivityCompleted { activity_id, activity_type, result } <=> LocalActivityCompleted;
    LocalActivityFailed { activity_id, activity_type, error } <=> LocalActivityFailed;
    TimerFired { timer_id } <=> TimerFired;
    SignalReceived { signal } <=> SignalReceived, with unread: false => false;
    ChildCompleted { workflow_id, child_id, result } <=> ChildWorkflowCompleted;
    ChildFailed { workflow_id, child_id, error } <=> ChildWorkflowFailed;
    UpdateAccepted { update_id, name, input } <=> UpdateAccepted;
    HumanTaskDecided { task_id, decision, actor, answer } <=> HumanTaskDecided;
    CancelRequested { reason } <=> CancellationRequested;
}
