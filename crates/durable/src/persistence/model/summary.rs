//! What a list shows of a run, a task or a dead letter: no payloads, and every text bounded.

use durable_core::{AttemptRecord, Failure, Payload, Timestamp};
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::admin::StepLogRecord;
use super::dead_letter::DeadLetter;
use super::run::{Blocked, RunRecord, WorkflowStatus};
use super::schedule::ScheduleRecord;
use super::task::TaskRecord;
use crate::persistence::limits::{
    ATTEMPTS_LISTED_BYTES_MAX, FAILURE_HEAD_BYTES, LISTED_TEXT_BYTES_MAX, clip,
};

/// A run as lists show it: without input, result, error and memo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run's id.
    pub id: Uuid,
    /// Which workflow.
    pub workflow_type: String,
    /// The version it is pinned to; empty when its type has none.
    pub version: String,
    /// The user's own key.
    pub business_id: Option<String>,
    /// Where it stands.
    pub status: WorkflowStatus,
    /// The run that started it as a child.
    pub parent_id: Option<Uuid>,
    /// Set while a build could not take its turn; the reason is clipped to
    /// [`LISTED_TEXT_BYTES_MAX`].
    pub blocked: Option<Blocked>,
    /// Sequence number of its last event.
    pub sequence: i64,
    /// Iteration, from 0.
    pub iteration: u32,
    /// Epoch, from 0.
    pub epoch: u32,
    /// When it was started.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When its first turn was committed.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}

impl From<&RunRecord> for RunSummary {
    fn from(run: &RunRecord) -> Self {
        Self {
            id: run.id,
            workflow_type: run.workflow_type.clone(),
            version: run.version.clone(),
            business_id: run.business_id.clone(),
            status: run.status,
            parent_id: run.parent.as_ref().map(|parent| parent.run_id),
            blocked: run.blocked.clone().map(Blocked::listed),
            sequence: run.sequence,
            iteration: run.iteration,
            epoch: run.epoch,
            created_at: run.created_at,
            updated_at: run.updated_at,
            started_at: run.started_at,
            completed_at: run.completed_at,
        }
    }
}

impl Blocked {
    /// The same with a reason that is short enough for a list.
    #[must_use]
    pub fn listed(mut self) -> Self {
        self.reason = clip(self.reason, LISTED_TEXT_BYTES_MAX);
        self
    }
}

/// A page of runs, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// Where the next page begins: put it into [`super::RunFilter::before`]. None: this was the
    /// last page.
    pub next: Option<Uuid>,
    /// The page ended before its limit because the store had examined as many runs as one call may
    /// examine ([`LIST_EXAMINED_MAX`](crate::persistence::limits::LIST_EXAMINED_MAX)). There may be
    /// more behind `next`.
    pub partial: bool,
}

/// How far a count goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountLimit {
    /// Up to [`COUNT_MAX`](crate::persistence::limits::COUNT_MAX).
    #[default]
    Capped,
    /// To the end. A count that takes longer than an operator's read may take is an error
    /// ([`StoreError::TooBroad`](crate::persistence::StoreError::TooBroad)).
    Exact,
}

/// How many runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCount {
    /// How many were counted.
    pub count: u64,
    /// Whether that is all of them; otherwise there are at least as many.
    pub exact: bool,
}

/// A page of a run's log lines, by id. It ends at its limit of rows or before the line that would
/// take it over [`PAGE_BYTES_MAX`](crate::persistence::limits::PAGE_BYTES_MAX); the first line is
/// always in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepLogPage {
    /// The lines.
    pub lines: Vec<StepLogRecord>,
    /// Whether there are more behind the last of them.
    pub more: bool,
}

impl TaskRecord {
    /// The task as lists show it: without input and heartbeat details, and of the failed attempts
    /// the last one in short ([`brief_failure`]), if all of them together take at most
    /// [`ATTEMPTS_LISTED_BYTES_MAX`] as they are stored.
    #[must_use]
    pub fn listed(mut self) -> Self {
        self.input = Payload::ABSENT;
        self.heartbeat_details = Payload::ABSENT;
        let stored = serde_json::to_vec(&self.attempts).unwrap_or_default();
        let attempts = std::mem::take(&mut self.attempts);
        if stored.len() <= ATTEMPTS_LISTED_BYTES_MAX {
            self.attempts = last_in_short(attempts);
        }
        self
    }
}

/// The last of the failed attempts, in short.
#[must_use]
pub fn last_in_short(mut attempts: Vec<AttemptRecord>) -> Vec<AttemptRecord> {
    let last = attempts.pop().map(|mut last| {
        last.failure = in_short(&last.failure);
        last
    });
    last.into_iter().collect()
}

impl DeadLetter {
    /// The letter as lists show it: without input and attempts, the last error in short
    /// ([`brief_failure`]).
    #[must_use]
    pub fn listed(mut self) -> Self {
        self.input = Payload::ABSENT;
        self.error_history = Vec::new();
        self.last_error = in_short(&self.last_error);
        self
    }
}

impl ScheduleRecord {
    /// The schedule as lists show it: without its input.
    #[must_use]
    pub fn listed(mut self) -> Self {
        self.input = Payload::ABSENT;
        self
    }
}

fn in_short(failure: &Failure) -> Failure {
    brief_failure(&serde_json::to_vec(failure).unwrap_or_default())
}

/// A failure in short, from the first [`FAILURE_HEAD_BYTES`] of its stored form: its type, the
/// beginning of its message ([`LISTED_TEXT_BYTES_MAX`]), and whether a retry may help, where the
/// message is short enough to see that. Details and causes are left out.
#[must_use]
pub fn brief_failure(stored: &[u8]) -> Failure {
    let head = &stored[..stored.len().min(FAILURE_HEAD_BYTES)];
    let mut found = Head::default();
    found.read(head);
    if found.message.is_none() {
        // The cut is inside the message. Up to eleven bytes before it belong to an escape or a
        // character that is no longer whole.
        for dropped in 0..=head.len().min(ESCAPE_BYTES_MAX) {
            let mut mended = head[..head.len() - dropped].to_vec();
            mended.extend_from_slice(b"\"}");
            found.read(&mended);
            if found.message.is_some() {
                break;
            }
        }
    }
    Failure {
        error_type: clip(found.error_type.unwrap_or_default(), LISTED_TEXT_BYTES_MAX),
        message: clip(found.message.unwrap_or_default(), LISTED_TEXT_BYTES_MAX),
        retryable: found.retryable,
        details: Payload::ABSENT,
        cause: None,
    }
}

/// Longest incomplete end of a JSON string: one byte less than two escaped halves of a character.
const ESCAPE_BYTES_MAX: usize = 11;

/// The fields of a failure that were read before its text ended.
#[derive(Debug, Default)]
struct Head {
    error_type: Option<String>,
    message: Option<String>,
    retryable: bool,
}

impl Head {
    /// Reads as far as the text goes. Where it ends early, what was read before stays.
    fn read(&mut self, text: &[u8]) {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let _ended_early = reader.deserialize_map(HeadVisitor(self));
    }
}

struct HeadVisitor<'a>(&'a mut Head);

impl<'de> Visitor<'de> for HeadVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a failure")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "type" => self.0.error_type = Some(map.next_value()?),
                "message" => self.0.message = Some(map.next_value()?),
                "retryable" => self.0.retryable = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(message: &str) -> Vec<u8> {
        let cause = Failure::new("Cause", "c".repeat(100));
        let details = Payload::from_value(&"d".repeat(20_000)).unwrap();
        let failure = Failure::new("Declined", message);
        serde_json::to_vec(&failure.with_details(details).with_cause(cause)).unwrap()
    }

    #[test]
    fn a_brief_failure_has_type_message_and_retryability_but_no_details() {
        let brief = brief_failure(&stored("no money"));
        assert_eq!(brief, Failure::new("Declined", "no money"));
    }

    #[test]
    fn a_long_message_is_clipped_wherever_the_head_ends() {
        for unit in ["m", "ü", "\n", "\u{1}", "😀", "\"\\", "a\u{7}ö"] {
            for shift in 0..13 {
                let message = format!("{}{}", "x".repeat(shift), unit.repeat(20_000));
                let brief = brief_failure(&stored(&message));
                assert!(message.starts_with(&brief.message));
                assert!(brief.message.len() > LISTED_TEXT_BYTES_MAX - 8, "{unit:?}");
                assert_eq!(brief.error_type, "Declined");
            }
        }
    }
}
