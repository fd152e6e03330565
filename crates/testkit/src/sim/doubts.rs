//! Turns whose commit has an unknown outcome: until it is known, no other turn of the run may be committed.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use uuid::Uuid;

/// The turns that one node is in doubt about, by run.
#[derive(Default)]
pub(super) struct Doubts {
    open: Mutex<BTreeMap<Uuid, Uuid>>,
}

impl Doubts {
    /// A run of which another turn is sent although the last one's outcome is not known.
    pub(super) fn passed_over(&self, turns: &[(Uuid, Uuid)]) -> Option<Uuid> {
        let open = self.open.lock();
        let other = |run: &Uuid, turn: &Uuid| open.get(run).is_some_and(|doubted| doubted != turn);
        turns
            .iter()
            .find(|(run, turn)| other(run, turn))
            .map(|(run, _)| *run)
    }

    /// What became of these turns is not known.
    pub(super) fn arise(&self, turns: Vec<(Uuid, Uuid)>) {
        if !turns.is_empty() {
            self.open.lock().extend(turns);
        }
    }

    /// What became of these turns is known now.
    pub(super) fn settle(&self, turns: &[(Uuid, Uuid)]) {
        if !turns.is_empty() {
            let mut open = self.open.lock();
            for (run, _) in turns {
                open.remove(run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_turn_may_follow_a_doubt() {
        let [run, first, second] = [1, 2, 3].map(Uuid::from_u128);
        let doubts = Doubts::default();
        doubts.arise(vec![(run, first)]);
        assert_eq!(doubts.passed_over(&[(run, first)]), None);
        assert_eq!(doubts.passed_over(&[(run, second)]), Some(run));
        doubts.settle(&[(run, first)]);
        assert_eq!(doubts.passed_over(&[(run, second)]), None);
    }
}
