//! A run's history, and its form as a file.
//!
//! The form is stable: what one release writes, every later one reads. One JSON object:
//!
//! ```text
//! {
//!   "format": 1,
//!   "run": {
//!     "id", "workflow_type", "version", "business_id"?,
//!     "status", "iteration", "epoch", "history_start",
//!     "created_at", "parent"?, "input"?, "memo"?
//!   },
//!   "events": [
//!     { "sequence": 1, "at": "2026-01-01T00:00:00Z", "type": "workflow.started", "data": {…}, "payload"? },
//!     …
//!   ]
//! }
//! ```
//!
//! Events stand in the order of their sequence numbers, as stored: those of earlier iterations (up to `history_start`) and those that a
//! reset took back included. `input`, `memo` and `payload` are the JSON they are; what a payload codec made of them stands under
//! `input_coded`, `memo_coded` and `payload_coded` instead, as `b` and base64. Absent means that there is none. Readers pass over
//! fields that they do not know.

use durable_core::{NumberedEvent, Payload, RunIdentity, Timestamp, WorkflowEvent};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Client;
use crate::error::Kind;
use crate::persistence::StoreError;
use crate::persistence::model::{self, HistoryEvent, ParentLink, WorkflowStatus};
use crate::persistence::whole_history;
use crate::{Error, Result};

/// The form that [`History::to_json`] writes.
const FORMAT: u32 = 1;

/// A run's history: who the run is, and its events.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct History {
    /// The run.
    pub run_id: Uuid,
    /// Which workflow.
    pub workflow_type: String,
    /// The version it is pinned to; empty when its type has none.
    pub version: String,
    /// Your own id for it.
    pub business_id: Option<String>,
    /// Where it stood.
    pub status: WorkflowStatus,
    /// Its iteration, from 0.
    pub iteration: u32,
    /// Its epoch, from 0.
    pub epoch: u32,
    /// Sequence number of the event before the current iteration's first one.
    pub history_start: i64,
    /// When it was started.
    pub created_at: Timestamp,
    /// The run that started it as a child.
    pub parent: Option<ParentLink>,
    /// Input of the current iteration.
    pub input: Payload,
    /// Metadata given at the start.
    pub memo: Payload,
    /// All its events, as stored.
    pub events: Vec<HistoryEvent>,
}

impl Client {
    /// A run's history, from its first event on, all iterations and epochs included.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the store's.
    pub async fn history(&self, run_id: Uuid) -> Result<History> {
        let history = whole_history(&**self.store(), run_id, 0).await?;
        let history = history.ok_or(Kind::NotFound(run_id))?;
        Ok(history.into())
    }
}

impl History {
    /// Who the run is, for a replay.
    #[must_use]
    pub const fn identity(&self) -> RunIdentity {
        RunIdentity {
            run_id: self.run_id,
            epoch: self.epoch,
            iteration: self.iteration,
        }
    }

    /// The events of the current iteration, those that a reset took back included: what
    /// [`effective_history`](durable_core::effective_history) reads.
    pub fn log(&self) -> impl Iterator<Item = NumberedEvent> + '_ {
        self.events
            .iter()
            .filter(|event| event.sequence_num > self.history_start)
            .map(|event| (event.sequence_num, event.event.clone()))
    }

    /// The history as a file; see [the form](self).
    ///
    /// # Panics
    /// Never: every part has a JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        let (input, input_coded) = parts(&self.input);
        let (memo, memo_coded) = parts(&self.memo);
        let file = File {
            format: FORMAT,
            run: RunPart {
                id: self.run_id,
                workflow_type: self.workflow_type.clone(),
                version: self.version.clone(),
                business_id: self.business_id.clone(),
                status: self.status,
                iteration: self.iteration,
                epoch: self.epoch,
                history_start: self.history_start,
                created_at: self.created_at,
                parent: self.parent.clone(),
                input,
                input_coded,
                memo,
                memo_coded,
            },
            events: self.events.iter().map(EventPart::of).collect(),
        };
        serde_json::to_string_pretty(&file).expect("a history has a JSON form")
    }

    /// Reads [`History::to_json`]'s form into a value; nothing goes into a store.
    ///
    /// # Errors
    /// [`Error::is_invalid`]: the text is not such a file, of a form that this release does not know, or its events are out of order.
    pub fn from_json(text: &str) -> Result<Self> {
        let Format { format } = serde_json::from_str(text).map_err(|error| refused(&error))?;
        if format != FORMAT {
            let message = format!("form {format} is not known here, only form {FORMAT}");
            return Err(refused(&message));
        }
        let file: File = serde_json::from_str(text).map_err(|error| refused(&error))?;
        let run = file.run;
        let mut events = Vec::with_capacity(file.events.len());
        let mut last = 0;
        for part in file.events {
            if part.sequence <= last {
                let message = format!("event {} comes after event {last}", part.sequence);
                return Err(refused(&message));
            }
            last = part.sequence;
            events.push(part.read()?);
        }
        Ok(Self {
            run_id: run.id,
            workflow_type: run.workflow_type,
            version: run.version,
            business_id: run.business_id,
            status: run.status,
            iteration: run.iteration,
            epoch: run.epoch,
            history_start: run.history_start,
            created_at: run.created_at,
            parent: run.parent,
            input: from_parts(run.input, run.input_coded)?,
            memo: from_parts(run.memo, run.memo_coded)?,
            events,
        })
    }
}

impl From<model::History> for History {
    fn from(history: model::History) -> Self {
        let run = history.run;
        Self {
            run_id: run.id,
            workflow_type: run.workflow_type,
            version: run.version,
            business_id: run.business_id,
            status: run.status,
            iteration: run.iteration,
            epoch: run.epoch,
            history_start: run.history_start,
            created_at: run.created_at,
            parent: run.parent,
            input: run.input,
            memo: run.memo,
            events: history.events,
        }
    }
}

fn refused(why: &impl std::fmt::Display) -> Error {
    StoreError::Invalid(format!("this is no history that can be read: {why}")).into()
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    run: RunPart,
    events: Vec<EventPart>,
}

#[derive(Serialize, Deserialize)]
struct RunPart {
    id: Uuid,
    workflow_type: String,
    #[serde(default)]
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    business_id: Option<String>,
    status: WorkflowStatus,
    iteration: u32,
    epoch: u32,
    history_start: i64,
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<ParentLink>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    input: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_coded: Option<Coded>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    memo: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memo_coded: Option<Coded>,
}

#[derive(Serialize, Deserialize)]
struct EventPart {
    sequence: i64,
    at: Timestamp,
    r#type: String,
    data: Box<RawValue>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    payload: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_coded: Option<Coded>,
}

impl EventPart {
    fn of(event: &HistoryEvent) -> Self {
        let stored = event.event.encode();
        let data = String::from_utf8(stored.data.to_vec()).expect("JSON is UTF-8");
        let (payload, payload_coded) = parts(&stored.payload);
        Self {
            sequence: event.sequence_num,
            at: event.created_at,
            r#type: stored.event_type.to_owned(),
            data: RawValue::from_string(data).expect("an event's data are JSON"),
            payload,
            payload_coded,
        }
    }

    fn read(self) -> Result<HistoryEvent> {
        let payload = from_parts(self.payload, self.payload_coded)?;
        let event = WorkflowEvent::decode(&self.r#type, self.data.get().as_bytes(), payload)
            .map_err(|error| refused(&error))?;
        Ok(HistoryEvent {
            sequence_num: self.sequence,
            event,
            created_at: self.at,
        })
    }
}

/// What a payload codec made.
#[derive(Serialize, Deserialize)]
struct Coded(#[serde(with = "durable_core::payload::text")] Payload);

/// A payload as JSON, or as what a codec made of it.
fn parts(payload: &Payload) -> (Option<Box<RawValue>>, Option<Coded>) {
    if payload.is_absent() {
        return (None, None);
    }
    let json = std::str::from_utf8(payload.as_bytes())
        .ok()
        .filter(|_| !payload.is_encoded())
        .and_then(|text| RawValue::from_string(text.to_owned()).ok());
    let coded = json.is_none().then(|| Coded(payload.clone()));
    (json, coded)
}

fn from_parts(json: Option<Box<RawValue>>, coded: Option<Coded>) -> Result<Payload> {
    match (json, coded) {
        (None, None) => Ok(Payload::ABSENT),
        (_, Some(Coded(payload))) => Ok(payload),
        (Some(json), None) => {
            let text: Box<str> = json.into();
            Payload::from_json_text(text.into_string()).map_err(|error| refused(&error))
        }
    }
}

/// A `null` that stands there is a payload, too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use durable_core::Failure;
    use durable_core::payload::CODEC_MARK;

    use super::*;

    fn history() -> History {
        let text = |text: &'static str| Payload::from_json_text(text).expect("JSON");
        let at = |second| Timestamp::from_second(second).expect("in range");
        let event = |sequence_num, event| HistoryEvent {
            sequence_num,
            event,
            created_at: at(sequence_num),
        };
        History {
            run_id: Uuid::from_u128(7),
            workflow_type: "order".to_owned(),
            version: "v2".to_owned(),
            business_id: Some("A1".to_owned()),
            status: WorkflowStatus::Failed,
            iteration: 1,
            epoch: 2,
            history_start: 3,
            created_at: at(1),
            parent: None,
            input: Payload::from_codec(vec![CODEC_MARK, 255]).expect("coded"),
            memo: Payload::null(),
            events: vec![
                event(
                    4,
                    WorkflowEvent::WorkflowStarted {
                        input: text("9007199254740993"),
                    },
                ),
                event(
                    6,
                    WorkflowEvent::WorkflowFailed {
                        error: Failure::new("Broken", "by design").into(),
                    },
                ),
            ],
        }
    }

    #[test]
    fn file_loses_nothing() {
        let history = history();
        let read = History::from_json(&history.to_json()).expect("reads");
        assert_eq!(read, history);
    }

    #[test]
    fn file_of_the_first_form_is_read_for_ever() {
        let text = r#"{ "format": 1, "later": true,
            "run": { "id": "00000000-0000-0000-0000-000000000007", "workflow_type": "order", "status": "running",
                     "iteration": 0, "epoch": 0, "history_start": 0, "created_at": "2026-01-01T00:00:00Z", "input": {"n": 1} },
            "events": [
                { "sequence": 1, "at": "2026-01-01T00:00:00Z", "type": "workflow.started", "data": {}, "payload": {"n": 1} },
                { "sequence": 2, "at": "2026-01-01T00:00:01Z", "type": "timer.started", "data": {"timer_id": "t", "duration_ms": 5} }
            ] }"#;
        let history = History::from_json(text).expect("reads");
        assert_eq!(history.log().count(), 2);
        assert_eq!(history.input.as_bytes(), br#"{"n": 1}"#);
    }

    #[test]
    fn what_is_no_history_is_refused() {
        let good = history().to_json();
        let bad = [
            "{}".to_owned(),
            "[1".to_owned(),
            good.replace("\"format\": 1", "\"format\": 2"),
            good.replace("\"sequence\": 6", "\"sequence\": 4"),
            good.replace("workflow.failed", "workflow.melted"),
        ];
        for text in bad {
            let error = History::from_json(&text).expect_err("refused");
            assert!(error.is_invalid(), "{error}");
        }
    }
}
