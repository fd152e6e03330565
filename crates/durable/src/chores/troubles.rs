//! Which chores of a process fail, how often, and why.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::persistence::limits::{AUDIT_TEXT_BYTES_MAX, clip};

/// How a chore of this process does that has failed at least once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChoreTrouble {
    /// Its name: `due`, `relay`, `reaper`, …
    pub chore: &'static str,
    /// How often it has failed since the process began.
    pub failures: u64,
    /// How often in a row up to now; 0: its last look succeeded.
    pub in_a_row: u32,
    /// What it last failed with.
    pub last_error: String,
}

/// The troubles of all chores of a process.
#[derive(Debug, Default)]
pub(crate) struct Troubles(Mutex<BTreeMap<&'static str, ChoreTrouble>>);

/// Failures in a row from which on an operator is told.
const TOLD_FROM: u32 = 3;

impl Troubles {
    /// A chore failed; answers how often in a row, if that is to be told: at the third time and
    /// whenever the number has doubled since.
    pub(crate) fn failed(&self, chore: &'static str, error: String) -> Option<u32> {
        let mut troubles = self.0.lock();
        let trouble = troubles.entry(chore).or_insert_with(|| ChoreTrouble {
            chore,
            failures: 0,
            in_a_row: 0,
            last_error: String::new(),
        });
        trouble.failures += 1;
        trouble.in_a_row = trouble.in_a_row.saturating_add(1);
        trouble.last_error = clip(error, AUDIT_TEXT_BYTES_MAX);
        let times = trouble.in_a_row / TOLD_FROM;
        let is_told = trouble.in_a_row.is_multiple_of(TOLD_FROM) && times.is_power_of_two();
        is_told.then_some(trouble.in_a_row)
    }

    /// A chore succeeded.
    pub(crate) fn succeeded(&self, chore: &'static str) {
        if let Some(trouble) = self.0.lock().get_mut(chore) {
            trouble.in_a_row = 0;
        }
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<ChoreTrouble> {
        self.0.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_failure_is_told_at_the_third_time_and_ever_more_rarely() {
        let troubles = Troubles::default();
        let fail = |_| troubles.failed("due", "why".to_owned());
        let told: Vec<u32> = (0..30).filter_map(fail).collect();
        assert_eq!(told, [3, 6, 12, 24]);
        troubles.succeeded("due");
        let trouble = &troubles.all()[0];
        assert_eq!((trouble.failures, trouble.in_a_row), (30, 0));
        assert_eq!(trouble.last_error, "why");
        let told: Vec<u32> = (0..3).filter_map(fail).collect();
        assert_eq!(told, [3], "a success begins the count anew");
    }
}
