//! Compares two histories of what should be the same run.

use durable_core::{Request, WorkflowEvent};

/// The first place where two histories differ although nothing that the workflow was told does.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) place: String,
    pub(super) undisturbed: String,
    pub(super) disturbed: String,
}

/// A workflow is a function of what it is told: as long as two histories tell the same, they hold the same actions in the same order.
/// Where they tell different things first (an activity ended later than another, a clock was read later), nothing more follows.
pub(super) fn actions(
    undisturbed: &[WorkflowEvent],
    disturbed: &[WorkflowEvent],
) -> Option<Difference> {
    let longer = undisturbed.len().max(disturbed.len());
    let at = (0..longer).find(|at| undisturbed.get(*at) != disturbed.get(*at))?;
    let (one, other) = (undisturbed.get(at), disturbed.get(at));
    if !is_action(one) && !is_action(other) {
        return None;
    }
    Some(Difference {
        place: format!("event {}", at + 1),
        undisturbed: describe(one),
        disturbed: describe(other),
    })
}

fn is_action(event: Option<&WorkflowEvent>) -> bool {
    event.and_then(Request::of_event).is_some()
}

/// How a run ended.
pub(super) fn outcome(events: &[WorkflowEvent]) -> String {
    describe(events.last())
}

/// How a run ended, without what its result or error says.
pub(super) fn kind_of_outcome(events: &[WorkflowEvent]) -> &'static str {
    events.last().map_or("nothing", WorkflowEvent::event_type)
}

/// Payloads may be megabytes; a message may not.
const CHARS_MAX: usize = 400;

fn describe(event: Option<&WorkflowEvent>) -> String {
    let Some(event) = event else {
        return "nothing".to_owned();
    };
    let stored = event.encode();
    let data = String::from_utf8_lossy(&stored.data);
    let text = format!("{} {data} {:?}", stored.event_type, stored.payload);
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use durable_core::Payload;

    use super::*;

    fn started() -> WorkflowEvent {
        WorkflowEvent::WorkflowStarted {
            input: Payload::null(),
        }
    }

    fn timer(id: &str) -> WorkflowEvent {
        WorkflowEvent::TimerCancelled {
            timer_id: id.to_owned(),
        }
    }

    fn fired(id: &str) -> WorkflowEvent {
        WorkflowEvent::TimerFired {
            timer_id: id.to_owned(),
        }
    }

    #[test]
    fn another_action_after_the_same_facts_is_a_difference() {
        let difference = actions(&[started(), timer("a")], &[started(), timer("b")]);
        assert_eq!(difference.expect("differs").place, "event 2");
        let missing = actions(&[started(), timer("a")], &[started()]);
        assert_eq!(missing.expect("differs").disturbed, "nothing");
    }

    #[test]
    fn actions_after_other_facts_are_not_compared() {
        let one = [started(), fired("a"), timer("a")];
        let other = [started(), fired("b"), timer("b")];
        assert_eq!(actions(&one, &other), None);
    }
}
