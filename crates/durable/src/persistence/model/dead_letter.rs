//! Dead letters: activities that failed for good.

use std::cmp::{Ordering, Reverse};

use durable_core::{ActivityOptions, AttemptRecord, Failure, Payload, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A dead letter as stored. Its id is its task's, so that a dead task has exactly one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The task's id; also the letter's.
    pub id: Uuid,
    /// The run.
    pub run_id: Uuid,
    /// The activity's id within the run.
    pub activity_id: String,
    /// Which activity.
    pub activity_type: String,
    /// Its input.
    pub input: Payload,
    /// How it was run.
    pub options: ActivityOptions,
    /// The run's epoch.
    pub epoch: u32,
    /// Attempts made.
    pub attempts: u32,
    /// The last failure.
    pub last_error: Failure,
    /// Every attempt's failure.
    pub error_history: Vec<AttemptRecord>,
    /// True while the run waits for the letter to be decided (`Park`).
    pub parked: bool,
    /// Where it stands.
    pub state: DeadLetterState,
    /// When it died.
    pub dead_at: Timestamp,
    /// When it was last put back.
    pub requeued_at: Option<Timestamp>,
    /// How often it was put back.
    pub requeue_count: u32,
}

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterState {
    /// Nobody has decided yet.
    Dead,
    /// Put back into the queue.
    Requeued,
    /// Completed by hand.
    Completed,
    /// Given up.
    Discarded,
}

impl DeadLetterState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dead, Self::Requeued, Self::Completed, Self::Discarded];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Requeued => "requeued",
            Self::Completed => "completed",
            Self::Discarded => "discarded",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// Which dead letters to list or purge; newest death first, then by id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DlqFilter {
    /// Only the letter of this id. Looked up, not gone through.
    pub id: Option<Uuid>,
    /// Only this run's.
    pub run_id: Option<Uuid>,
    /// Only this activity's.
    pub activity_type: Option<String>,
    /// Only in this state.
    pub state: Option<DeadLetterState>,
    /// Only those that died before then.
    pub dead_before: Option<Timestamp>,
    /// Continue after this rank: only letters behind it.
    pub after: Option<LetterRank>,
}

/// Where a letter stands in a list. It stays there while others are decided, and moves to the front when it dies again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterRank {
    /// When it died.
    pub dead_at: Timestamp,
    /// Its id.
    pub id: Uuid,
    /// Its run.
    pub run_id: Uuid,
}

impl LetterRank {
    fn key(&self) -> (Reverse<Timestamp>, Uuid, Uuid) {
        (Reverse(self.dead_at), self.id, self.run_id)
    }
}

impl Ord for LetterRank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for LetterRank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl DeadLetter {
    /// Where it stands in a list.
    #[must_use]
    pub const fn rank(&self) -> LetterRank {
        LetterRank {
            dead_at: self.dead_at,
            id: self.id,
            run_id: self.run_id,
        }
    }
}

/// What an operator decides about a dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum DeadLetterDecision {
    /// Try again: attempts and deliveries begin anew.
    Requeue,
    /// The work was done by hand; this is the result.
    Complete {
        /// The result.
        result: Payload,
    },
    /// Give it up: a run that waits for it sees the failure.
    Discard,
}

impl DeadLetterDecision {
    /// Where a letter stands after it.
    #[must_use]
    pub const fn leads_to(&self) -> DeadLetterState {
        match self {
            Self::Requeue => DeadLetterState::Requeued,
            Self::Complete { .. } => DeadLetterState::Completed,
            Self::Discard => DeadLetterState::Discarded,
        }
    }
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum DecisionOutcome {
    /// Done. For a run that waits, the task is back in the queue or the fact is in the inbox.
    Done,
    /// The run saw the failure long ago: trying again, or another result, means resetting the run to before it.
    NeedsReset {
        /// The run.
        run_id: Uuid,
    },
    /// The run has ended and cannot be reset, or is gone.
    RunFinished,
    /// The run goes on and no longer waits for the letter: it was reset, or continued as new, since.
    NotAwaited,
    /// The letter was decided before.
    AlreadyDecided(DeadLetterState),
    /// No such letter.
    NotFound,
}
