//! The stored form of an event.
//!
//! The object is the event's own JSON, as views show it. Of the three kinds that every activity writes ([`Brief`]) the store leaves out
//! what goes without saying: they are most of a history, and every byte is written and logged for each activity.

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;

use super::WorkflowEvent;
use crate::options::ActivityOptions;
use crate::payload::Payload;

/// An event as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Dotted name, such as `activity.completed`.
    pub event_type: &'static str,
    /// JSON object without the payload.
    pub data: Bytes,
    /// The payload; absent for events that carry none.
    pub payload: Payload,
}

/// Why stored bytes are not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// A name that no release up to this one has written.
    #[error("unknown event type {0:?}; it was written by a newer release")]
    UnknownType(String),
    /// The object does not fit its name.
    #[error("event {event_type} cannot be read: {reason}")]
    Malformed {
        /// The event's name.
        event_type: String,
        /// What is wrong.
        reason: String,
    },
}

/// The object of a frequent event, without what goes without saying. What is left out is read as the options' defaults
/// and as [`attempt_left_out`], which thereby are part of what is stored, and never change.
#[derive(Serialize)]
#[serde(untagged)]
enum Brief<'a> {
    /// Without the options, where they are the defaults.
    Scheduled {
        activity_id: &'a str,
        activity_type: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        options: Option<&'a ActivityOptions>,
    },
    /// Without the attempt, where it is the first.
    Started {
        activity_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        worker_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<Timestamp>,
    },
    /// Whole: there is nothing to leave out, and no payload to take out of a copy.
    Completed { activity_id: &'a str },
}

impl<'a> Brief<'a> {
    fn of(event: &'a WorkflowEvent) -> Option<Self> {
        match event {
            WorkflowEvent::ActivityScheduled {
                activity_id,
                activity_type,
                options,
                ..
            } => Some(Self::Scheduled {
                activity_id,
                activity_type,
                options: Some(&**options).filter(|options| **options != ActivityOptions::default()),
            }),
            WorkflowEvent::ActivityStarted {
                activity_id,
                attempt,
                worker_id,
                started_at,
            } => Some(Self::Started {
                activity_id,
                attempt: Some(*attempt).filter(|attempt| *attempt != attempt_left_out()),
                worker_id,
                started_at: *started_at,
            }),
            WorkflowEvent::ActivityCompleted { activity_id, .. } => {
                Some(Self::Completed { activity_id })
            }
            _ => None,
        }
    }
}

/// The attempt that is not written: the first.
pub(super) const fn attempt_left_out() -> u32 {
    1
}

/// The object of an event, without its payload. serde writes `{"type":"NAME","data":OBJECT}`; the object alone is kept, without a second pass.
fn whole_object(event: &WorkflowEvent) -> Bytes {
    let has_payload = event.payload().is_some_and(|payload| !payload.is_absent());
    let whole = if has_payload {
        let mut event = event.clone();
        event.payload_mut().map(std::mem::take);
        json(&event)
    } else {
        json(event)
    };
    let head = r#"{"type":"","data":"#.len() + event.event_type().len();
    whole.slice(head..whole.len() - 1)
}

fn json(value: &impl Serialize) -> Bytes {
    let text = serde_json::to_vec(value).expect("an event has a JSON form");
    Bytes::from(text)
}

impl WorkflowEvent {
    /// The stored form.
    ///
    /// # Panics
    /// Never: every field has a JSON form.
    #[must_use]
    pub fn encode(&self) -> StoredEvent {
        StoredEvent {
            event_type: self.event_type(),
            data: Brief::of(self).map_or_else(|| whole_object(self), |brief| json(&brief)),
            payload: self.payload().cloned().unwrap_or_default(),
        }
    }

    /// Reads the stored form. Total over its arguments, so that a fuzzer may call it with any bytes.
    ///
    /// ```
    /// use durable_core::{Payload, WorkflowEvent};
    ///
    /// let event = WorkflowEvent::decode("timer.fired", br#"{"timer_id":"t"}"#, Payload::ABSENT)?;
    /// assert_eq!(event, WorkflowEvent::TimerFired { timer_id: "t".into() });
    /// assert!(WorkflowEvent::decode("timer.melted", b"{}", Payload::ABSENT).is_err());
    /// # Ok::<(), durable_core::EventError>(())
    /// ```
    ///
    /// # Errors
    /// [`EventError`] when the name is unknown or the object does not fit it.
    pub fn decode(event_type: &str, data: &[u8], payload: Payload) -> Result<Self, EventError> {
        let known = Self::TYPES
            .iter()
            .find(|t| **t == event_type)
            .ok_or_else(|| EventError::UnknownType(event_type.to_owned()))?;
        let malformed = |reason: String| EventError::Malformed {
            event_type: event_type.to_owned(),
            reason,
        };
        let data: &serde_json::value::RawValue =
            serde_json::from_slice(data).map_err(|e| malformed(e.to_string()))?;
        let whole = format!(r#"{{"type":"{known}","data":{}}}"#, data.get());
        let mut event: Self = serde_json::from_str(&whole).map_err(|e| malformed(e.to_string()))?;
        match event.payload_mut() {
            Some(place) => *place = payload,
            None if payload.is_absent() => {}
            None => {
                return Err(malformed(
                    "it carries a payload where its kind has none".into(),
                ));
            }
        }
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn stored_form_keeps_the_payload_apart_and_details_exact() {
        let payload = Payload::from_json_text("9007199254740993").unwrap();
        let event = WorkflowEvent::ActivityCompleted {
            activity_id: "a".into(),
            result: payload.clone(),
        };
        let stored = event.encode();
        assert_eq!(stored.data, r#"{"activity_id":"a"}"#);
        assert_eq!(stored.payload, payload);
        let read = WorkflowEvent::decode(stored.event_type, &stored.data, stored.payload);
        assert_eq!(read, Ok(event));

        let details = Payload::from_json_text("[9007199254740993, 1e400]").unwrap();
        let event = WorkflowEvent::ActivityFailed {
            activity_id: "a".into(),
            error: Failure::new("X", "y").with_details(details),
            will_retry: false,
        };
        let stored = event.encode();
        let read = WorkflowEvent::decode(stored.event_type, &stored.data, stored.payload);
        assert_eq!(read, Ok(event));
    }

    #[test]
    fn views_show_what_the_store_leaves_out() {
        let started = WorkflowEvent::ActivityStarted {
            activity_id: "a".into(),
            attempt: attempt_left_out(),
            worker_id: "w".into(),
            started_at: None,
        };
        let shown = serde_json::to_value(&started).unwrap();
        assert_eq!(shown["data"]["attempt"], 1);
        assert_eq!(
            started.encode().data,
            r#"{"activity_id":"a","worker_id":"w"}"#
        );

        let scheduled = WorkflowEvent::ActivityScheduled {
            activity_id: "a".into(),
            activity_type: "t".into(),
            input: Payload::ABSENT,
            options: Box::default(),
        };
        let shown = serde_json::to_value(&scheduled).unwrap();
        assert!(shown["data"]["options"].is_object());
        assert_eq!(
            scheduled.encode().data,
            r#"{"activity_id":"a","activity_type":"t"}"#
        );
    }
}
