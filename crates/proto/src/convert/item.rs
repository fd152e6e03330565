//! What has happened to a run, on its way to the worker; and the values that were made once, both ways.

use durable_core::{Fact, Payload, WorkflowEvent, signal_types};

use super::{Malformed, failure_message, named, payload, payload_bytes};
use crate::v1;
use v1::item::Item;

/// A fact to tell. A request to stop is one item, whichever way it came.
#[must_use]
pub fn item(fact: Fact) -> Item {
    match fact {
        Fact::Started { input } => Item::Started(v1::Started {
            input: payload_bytes(input),
        }),
        Fact::ActivityCompleted {
            activity_id,
            result,
        }
        | Fact::LocalActivityCompleted {
            activity_id,
            result,
            ..
        } => Item::ActivityCompleted(v1::ActivityCompleted {
            activity_id,
            result: payload_bytes(result),
        }),
        Fact::ActivityFailed { activity_id, error }
        | Fact::LocalActivityFailed {
            activity_id, error, ..
        } => Item::ActivityFailed(v1::ActivityFailed {
            activity_id,
            failure: Some(failure_message(error)),
        }),
        Fact::ActivityTimedOut {
            activity_id,
            timeout_type,
        } => Item::ActivityFailed(v1::ActivityFailed {
            activity_id,
            failure: Some(failure_message(timeout_type.failure())),
        }),
        Fact::TimerFired { timer_id } => Item::TimerFired(v1::TimerFired { timer_id }),
        Fact::SignalReceived { signal } if signal.signal_type == signal_types::CANCEL => {
            let reason = signal.payload.to_value().unwrap_or_default();
            Item::CancelRequested(v1::CancelRequested { reason })
        }
        Fact::SignalReceived { signal } => Item::SignalReceived(v1::SignalReceived {
            signal_type: signal.signal_type,
            payload: payload_bytes(signal.payload),
            signal_id: signal
                .signal_id
                .map(|id| id.to_string())
                .unwrap_or_default(),
        }),
        Fact::ChildCompleted {
            workflow_id,
            child_id,
            result,
        } => Item::ChildCompleted(v1::ChildCompleted {
            child_id,
            run_id: workflow_id.to_string(),
            result: payload_bytes(result),
        }),
        Fact::ChildFailed {
            workflow_id,
            child_id,
            error,
        } => Item::ChildFailed(v1::ChildFailed {
            child_id,
            run_id: workflow_id.to_string(),
            failure: Some(failure_message(error.into_failure())),
        }),
        Fact::UpdateAccepted {
            update_id,
            name,
            input,
        } => Item::UpdateReceived(v1::UpdateReceived {
            update_id,
            name,
            input: payload_bytes(input),
        }),
        Fact::HumanTaskDecided {
            task_id,
            decision,
            actor,
            answer,
        } => Item::HumanTaskDecided(v1::HumanTaskDecided {
            task_id,
            decision,
            actor,
            answer: payload_bytes(answer),
        }),
        Fact::CancelRequested { reason } => Item::CancelRequested(v1::CancelRequested { reason }),
    }
}

/// A question to ask.
#[must_use]
pub fn query_item(name: String, input: Payload) -> Item {
    Item::QueryAsked(v1::QueryAsked {
        name,
        input: payload_bytes(input),
    })
}

impl v1::Memory {
    /// A value to give back; none for an event that keeps no value.
    #[must_use]
    pub fn of_event(event: WorkflowEvent) -> Option<Self> {
        use v1::memory::Memory;
        let memory = match event {
            WorkflowEvent::SideEffectRecorded { effect_id, value } => {
                let value = payload_bytes(value);
                Memory::SideEffect(v1::SideEffect { effect_id, value })
            }
            WorkflowEvent::PatchMarked { patch_id } => Memory::Patch(patch_id),
            _ => return None,
        };
        let memory = Some(memory);
        Some(Self { memory })
    }
}

/// Values that came in, as the events that keep them.
///
/// # Errors
/// A value that is not JSON, an empty id, a memory of nothing.
pub fn memories(place: &str, messages: Vec<v1::Memory>) -> Result<Vec<WorkflowEvent>, Malformed> {
    use v1::memory::Memory;
    let read = |(index, message): (usize, v1::Memory)| {
        let place = format!("{place}[{index}]");
        match message.memory {
            Some(Memory::SideEffect(effect)) => Ok(WorkflowEvent::SideEffectRecorded {
                effect_id: named(&format!("{place}.effect_id"), effect.effect_id)?,
                value: payload(&format!("{place}.value"), effect.value)?,
            }),
            Some(Memory::Patch(patch_id)) => Ok(WorkflowEvent::PatchMarked {
                patch_id: named(&format!("{place}.patch"), patch_id)?,
            }),
            None => Err(Malformed::new(
                place,
                "it is neither a side effect nor a patch",
            )),
        }
    };
    messages.into_iter().enumerate().map(read).collect()
}
