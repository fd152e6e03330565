//! What is done to a run on purpose.

use std::collections::{BTreeMap, BTreeSet};

/// What is done to a simulated run on purpose, and where. Counted from 0 in the undisturbed run of the same seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies at its n-th call of the store, which is not carried out.
    CrashBefore(usize),
    /// The process dies at its n-th call of the store, which is carried out; nobody sees the answer.
    CrashAfter(usize),
    /// The n-th call of the store fails and is not carried out.
    FailBefore(usize),
    /// The n-th call of the store fails although it is carried out.
    FailAfter(usize),
    /// The process dies at the n-th step of any of its tasks: at an await, whoever's it is.
    CrashAtStep(u64),
}

/// A call of the store in the undisturbed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) method: &'static str,
    /// Steps that the engine had taken.
    pub(super) steps: u64,
}

impl Fault {
    /// Every place that differs from the others, in a run that took these calls and so many steps.
    pub(super) fn all(calls: &[Call], steps: u64) -> Vec<Self> {
        let at_call = [
            Self::CrashBefore,
            Self::CrashAfter,
            Self::FailBefore,
            Self::FailAfter,
        ];
        let places = places(calls);
        let at_calls = places
            .iter()
            .flat_map(|call| at_call.map(|fault| fault(*call)));
        let first = calls.first().map_or(steps, |call| call.steps);
        let after = |call: usize| calls.get(call + 1).map_or(steps, |next| next.steps);
        let at_steps = places
            .iter()
            .flat_map(|call| calls[*call].steps + 1..=after(*call));
        at_calls
            .chain((1..=first).map(Self::CrashAtStep))
            .chain(at_steps.map(Self::CrashAtStep))
            .collect()
    }

    /// In words; `calls` are those of the undisturbed run.
    pub(super) fn describe(self, calls: &[Call]) -> String {
        let name = |call: usize| calls.get(call).map_or("?", |call| call.method);
        match self {
            Self::CrashBefore(call) => {
                format!("the process dies before store call {call} ({})", name(call))
            }
            Self::CrashAfter(call) => {
                format!("the process dies after store call {call} ({})", name(call))
            }
            Self::FailBefore(call) => format!("store call {call} ({}) fails", name(call)),
            Self::FailAfter(call) => format!(
                "store call {call} ({}) is carried out and reported as failed",
                name(call)
            ),
            Self::CrashAtStep(step) => format!("the process dies at step {step}"),
        }
    }
}

/// The calls at which something may go differently: of the looks around of an engine that waits, which are all the same, the first and
/// the last of each kind between two commits.
fn places(calls: &[Call]) -> Vec<usize> {
    let mut between: BTreeMap<(usize, &str), (usize, usize)> = BTreeMap::new();
    let mut commits = 0;
    for (number, call) in calls.iter().enumerate() {
        let same = between
            .entry((commits, call.method))
            .or_insert((number, number));
        same.1 = number;
        commits += usize::from(matches!(call.method, "commit_turns" | "finish_tasks"));
    }
    let both = between.values().flat_map(|(first, last)| [*first, *last]);
    both.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_around_count_once_and_every_commit_counts() {
        let methods = [
            "glance",
            "commit_turns",
            "glance",
            "glance",
            "glance",
            "fire_due",
            "commit_turns",
            "glance",
        ];
        let calls: Vec<Call> = (10..)
            .zip(methods)
            .map(|(steps, method)| Call { method, steps })
            .collect();
        assert_eq!(places(&calls), [0, 1, 2, 4, 5, 6, 7]);
        let all = Fault::all(&calls, 20);
        assert!(
            all.contains(&Fault::CrashAtStep(1)),
            "before the first call"
        );
        assert!(all.contains(&Fault::CrashAtStep(20)), "after the last");
        assert!(!all.contains(&Fault::CrashAfter(3)), "like the one before");
        assert!(
            !all.contains(&Fault::CrashAtStep(14)),
            "like the one before"
        );
    }
}
