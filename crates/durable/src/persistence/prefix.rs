//! How many of the facts that wait for runs one read answers: the rule for stores that take facts
//! one by one.

use super::limits::{SET_FACTS_BYTES_MAX, TURN_FACTS_BYTES_MAX, TURN_FACTS_MAX};
use super::model::Fact;

/// The facts that were taken for one run, and the bytes for all runs of one call.
#[derive(Debug, Default)]
pub(crate) struct Prefix {
    facts: usize,
    run_bytes: usize,
    set_bytes: usize,
}

impl Prefix {
    /// The facts that follow are another run's.
    pub(crate) const fn next_run(&mut self) {
        self.facts = 0;
        self.run_bytes = 0;
    }

    /// Whether the run's turn takes one more fact.
    pub(crate) const fn takes_more(&self) -> bool {
        self.facts < TURN_FACTS_MAX
            && self.run_bytes < TURN_FACTS_BYTES_MAX
            && self.set_bytes < SET_FACTS_BYTES_MAX
    }

    /// Counts a fact that is taken.
    pub(crate) fn count(&mut self, fact: &Fact) {
        let bytes = fact.stored_bytes();
        self.facts += 1;
        self.run_bytes += bytes;
        self.set_bytes += bytes;
    }
}
