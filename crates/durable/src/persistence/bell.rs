//! The doorbell between those who share a database: hints that save them from asking all the time.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What other processes may want to look at. A hint: it may be lost, doubled or late; nothing depends on it but speed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    /// Activity types with tasks that may be claimed.
    pub task_types: BTreeSet<String>,
    /// Runs with a turn due.
    pub ready_runs: BTreeSet<Uuid>,
    /// Runs that somebody may wait for: they have ended, or answered an update.
    pub finished_runs: BTreeSet<Uuid>,
    /// Messages between runs wait to be delivered, and who wrote them delivers none.
    pub messages: bool,
    /// Something may become due earlier than those know who fire what is due.
    pub clocks: bool,
    /// Too much to name, or the listener was away: look at everything. No names are given then.
    pub everything: bool,
}

impl Ring {
    /// Most names in a ring; more is everything. Bounds what piles up while nobody listens or nothing can be sent.
    pub const NAMES_MAX: usize = 10_000;

    /// The ring that names nothing and means all.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }

    /// Makes one ring of two.
    pub fn merge(&mut self, other: Self) {
        self.everything |= other.everything;
        if !self.everything {
            self.task_types.extend(other.task_types);
            self.ready_runs.extend(other.ready_runs);
            self.finished_runs.extend(other.finished_runs);
            self.messages |= other.messages;
            self.clocks |= other.clocks;
        }
        let names = self.task_types.len() + self.ready_runs.len() + self.finished_runs.len();
        if self.everything || names > Self::NAMES_MAX {
            *self = Self::everything();
        }
    }

    /// Whether there is nothing to look at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.everything
            && self.task_types.is_empty()
            && self.ready_runs.is_empty()
            && self.finished_runs.is_empty()
            && !self.messages
            && !self.clocks
    }
}

/// One listener's doorbell: it hears whoever else has one on the same database, in this process or another. Cheap to clone as `Arc`, and all
/// clones are one listener; who is to hear alone asks the store for another one ([`super::WorkflowEventStore::bell`]). Dropped, it leaves nothing.
#[async_trait]
pub trait Bell: Send + Sync + 'static {
    /// Tells the others; returns at once. What is rung while a ring is on its way is sent together with the next one.
    /// To be called after the commit it tells of, never before.
    fn ring(&self, ring: Ring);

    /// Waits for rings of others (never its own) and answers all that came since the last call. Cancel-safe.
    /// Whenever the listener begins to hear, the first time included, it answers `everything`: it was away before.
    async fn listen(&self) -> Ring;

    /// Whether others can be heard right now; false: poll.
    fn is_connected(&self) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::{MemoryStore, WorkflowEventStore as _};

    fn run(number: u128) -> Ring {
        Ring {
            ready_runs: [Uuid::from_u128(number)].into(),
            ..Ring::default()
        }
    }

    #[test]
    fn merged_rings_name_what_each_of_them_names() {
        let mut ring = Ring::default();
        assert!(ring.is_empty());
        ring.merge(run(1));
        ring.merge(run(2));
        ring.merge(run(1));
        ring.merge(Ring {
            task_types: ["charge".to_owned()].into(),
            finished_runs: [Uuid::from_u128(1)].into(),
            messages: true,
            ..Ring::default()
        });
        ring.merge(Ring {
            clocks: true,
            ..Ring::default()
        });
        let expected = Ring {
            task_types: ["charge".to_owned()].into(),
            ready_runs: [1, 2].map(Uuid::from_u128).into(),
            finished_runs: [Uuid::from_u128(1)].into(),
            messages: true,
            clocks: true,
            everything: false,
        };
        assert_eq!(ring, expected);
        assert!(!ring.is_empty());
    }

    #[test]
    fn everything_swallows_names_before_and_after() {
        let mut ring = run(1);
        ring.merge(Ring::everything());
        ring.merge(run(2));
        assert_eq!(ring, Ring::everything());
        assert!(!ring.is_empty());
    }

    #[test]
    fn too_many_names_are_everything() {
        let mut ring = Ring::default();
        let most = Ring::NAMES_MAX as u128;
        (0..most).for_each(|n| ring.merge(run(n)));
        assert_eq!(ring.ready_runs.len(), Ring::NAMES_MAX);
        ring.merge(run(most));
        assert_eq!(ring, Ring::everything());
    }

    #[tokio::test]
    async fn two_listeners_on_one_store_hear_each_other() {
        let store = MemoryStore::new();
        let (one, other) = (store.bell().unwrap(), store.bell().unwrap());
        assert_eq!(one.listen().await, Ring::everything());
        assert_eq!(other.listen().await, Ring::everything());
        one.ring(run(1));
        assert_eq!(other.listen().await, run(1));
        other.ring(run(2));
        assert_eq!(one.listen().await, run(2));
    }
}
