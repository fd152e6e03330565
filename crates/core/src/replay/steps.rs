//! A history cut into its steps, for code that is replayed in another process.

use super::was_decided;
use crate::event::WorkflowEvent;
use crate::fact::Fact;
use crate::history::NumberedEvent;
use crate::request::is_memory;

/// A fact of a history, and what its program must be given back when it is told the fact again.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedStep {
    /// The fact.
    pub fact: Fact,
    /// Values that were made then and must not be made again.
    pub memories: Vec<WorkflowEvent>,
    /// Whether it was decided. The last one may not be: a start written ahead of the first turn, or a reset that cut through a step.
    pub decided: bool,
}

/// The steps of a history that counts (see [`effective_history`](crate::effective_history)), in order: what [`super::Replayer`] tells a program.
#[must_use]
pub fn recorded_steps(history: &[NumberedEvent]) -> Vec<RecordedStep> {
    let mut steps = Vec::new();
    let mut rest = history;
    while let Some(((_, event), behind)) = rest.split_first() {
        rest = behind;
        let Some(fact) = Fact::from_event(event) else {
            continue;
        };
        let next = behind
            .iter()
            .position(|(_, event)| Fact::from_event(event).is_some());
        let own = &behind[..next.unwrap_or(behind.len())];
        let memories = own.iter().map(|(_, event)| event);
        steps.push(RecordedStep {
            fact,
            memories: memories.filter(|event| is_memory(event)).cloned().collect(),
            decided: next.is_some() || was_decided(own),
        });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    #[test]
    fn each_fact_has_the_memories_recorded_up_to_the_next() {
        let started = WorkflowEvent::WorkflowStarted {
            input: Payload::null(),
        };
        let memory = WorkflowEvent::PatchMarked {
            patch_id: "p".to_owned(),
        };
        let timer = WorkflowEvent::TimerStarted {
            timer_id: "t".to_owned(),
            duration_ms: 1,
        };
        let fired = WorkflowEvent::TimerFired {
            timer_id: "t".to_owned(),
        };
        let history: Vec<NumberedEvent> =
            (1..).zip([started, memory.clone(), timer, fired]).collect();
        let steps = recorded_steps(&history);
        assert_eq!(steps.len(), 2);
        assert_eq!(
            (&steps[0].memories, steps[0].decided),
            (&vec![memory], true)
        );
        assert_eq!((steps[1].memories.len(), steps[1].decided), (0, false));
    }
}
