//! The outbox, circuit breakers, and small ledgers.

use std::time::Duration;

use durable_core::{CircuitState, Payload, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// An outbox event as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxRecord {
    /// Its id; receivers use it to drop repeats.
    pub id: Uuid,
    /// The run that produced it.
    pub run_id: Uuid,
    /// What kind of event.
    pub event_type: String,
    /// Its data.
    pub payload: Payload,
    /// The producer's own key.
    pub idempotency_key: Option<String>,
    /// Where it stands.
    pub state: OutboxState,
    /// Times it was handed to a publisher.
    pub attempts: u32,
    /// From when on it may be claimed; while in flight, until when the publisher has it.
    pub available_at: Timestamp,
    /// The publisher's token while in flight.
    pub token: Option<Uuid>,
    /// The last failure.
    pub last_error: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it was published.
    pub published_at: Option<Timestamp>,
}

impl OutboxRecord {
    /// Bytes that it takes of a claim: a claim of a shard ends before
    /// [`CHORE_BYTES_MAX`](crate::persistence::limits::CHORE_BYTES_MAX).
    #[must_use]
    pub(crate) fn claimed_bytes(&self) -> u64 {
        u64::try_from(self.payload.len()).unwrap_or(u64::MAX).max(1)
    }

    /// Whether these events are enough for one claim, so that no further shard is asked: they take
    /// half of the bytes that fit, and a shard gives as much again.
    #[must_use]
    pub(crate) fn are_enough(events: &[Self]) -> bool {
        let bytes: u64 = events.iter().map(Self::claimed_bytes).sum();
        bytes >= crate::persistence::limits::CHORE_BYTES_MAX / 2
    }
}

/// Where an outbox event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboxState {
    /// To be published.
    Pending,
    /// A publisher has it.
    InFlight,
    /// Published.
    Published,
    /// Given up.
    Failed,
}

impl OutboxState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::InFlight, Self::Published, Self::Failed];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InFlight => "in_flight",
            Self::Published => "published",
            Self::Failed => "failed",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// Which outbox events to claim: pending ones that are due, and those in flight whose publisher's time is up;
/// within a shard by `available_at`, then id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimOutbox {
    /// Most events.
    pub max: usize,
    /// For how long.
    pub lease: Duration,
    /// Token of this claim.
    pub token: Uuid,
    /// Shard to begin with.
    pub first_shard: u16,
    /// The instant, absent in production.
    pub now: Option<Timestamp>,
}

/// A publisher's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxReport {
    /// The run that produced the event.
    pub run_id: Uuid,
    /// The event.
    pub id: Uuid,
    /// The claim's token; a stale one changes nothing.
    pub token: Uuid,
    /// What happened.
    pub result: OutboxResult,
}

/// How publishing went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OutboxResult {
    /// Published.
    Published,
    /// Not published; try again after this long.
    Retry {
        /// After how long.
        after: Duration,
        /// Why.
        error: String,
    },
    /// Not published and never will be.
    Failed {
        /// Why.
        error: String,
    },
}

/// A circuit breaker as stored. `data` is the pure state machine's own form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BreakerRecord {
    /// Such as `activity:TYPE` or `external:openai`.
    pub key: String,
    /// Where it stands, for people and dashboards.
    pub state: CircuitState,
    /// Failures within the window.
    pub failure_count: u32,
    /// Successes since half open.
    pub success_count: u32,
    /// When it last opened.
    pub opened_at: Option<Timestamp>,
    /// The state machine, as JSON.
    pub data: Payload,
    /// Raised by one at each save.
    pub version: i64,
    /// When it was last saved.
    pub updated_at: Timestamp,
}

/// A result recorded once per key (`run_once`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DedupRecord {
    /// The key.
    pub key: String,
    /// The recorded result.
    pub result: Payload,
    /// When it was recorded.
    pub created_at: Timestamp,
}
