//! When a worker last answered, as far as that says something about an activation that is still open.

use tokio::time::Instant;

/// The answers of one session that still matter.
///
/// A worker takes its activations up in the order in which they were sent. So an answer tells those that were sent after its activation that their time comes
/// nearer, and tells nothing to those that were sent before it: they have been passed over.
///
/// Kept are the answers that no later one makes pointless, both numbers and instants rising.
#[derive(Debug, Default)]
pub(super) struct Pace(Vec<(u64, Instant)>);

impl Pace {
    /// An activation was answered. `oldest` is the first that is still open: what only those before it would ask for is forgotten.
    pub(super) fn note(&mut self, id: u64, now: Instant, oldest: Option<u64>) {
        // Whoever heard of a later activation's answer hears of this one too, and it is newer.
        self.0.truncate(self.earlier_than(id));
        self.0.push((id, now));
        let spent = oldest.map_or(self.0.len(), |oldest| self.earlier_than(oldest));
        self.0.drain(..spent.saturating_sub(1));
    }

    /// The last answer of all.
    pub(super) fn latest(&self) -> Option<Instant> {
        self.0.last().map(|(_, at)| *at)
    }

    /// The last answer to one that was sent before this one.
    pub(super) fn before(&self, id: u64) -> Option<Instant> {
        let earlier = self.0.get(..self.earlier_than(id))?;
        earlier.last().map(|(_, at)| *at)
    }

    fn earlier_than(&self, id: u64) -> usize {
        self.0.partition_point(|(noted, _)| *noted < id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_counts_for_those_sent_after_its_activation_alone() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::default();
        assert_eq!((pace.latest(), pace.before(9)), (None, None));
        pace.note(5, at(1), Some(1));
        assert_eq!(pace.before(5), None, "it was passed over");
        assert_eq!(pace.before(6), Some(at(1)));
        pace.note(7, at(2), Some(1));
        assert_eq!((pace.before(6), pace.before(8)), (Some(at(1)), Some(at(2))));
        pace.note(2, at(3), Some(1));
        assert_eq!((pace.before(2), pace.before(6)), (None, Some(at(3))));
        assert_eq!(pace.before(8), Some(at(3)), "the newest that counts");
        assert_eq!(pace.latest(), Some(at(3)));
    }

    #[test]
    fn answers_in_order_are_not_gathered() {
        let start = Instant::now();
        let mut pace = Pace::default();
        for id in 1..1_000 {
            pace.note(id, start, Some(id + 1));
            assert_eq!(pace.0.len(), 1);
        }
        pace.note(1_000, start, None);
        assert_eq!(pace.0.len(), 1);
    }
}
