//! Which part of a log counts.

use super::NumberedEvent;
use super::error::{HistoryError, HistoryProblem};
use crate::event::WorkflowEvent;

/// The part of a run's log that counts: the last iteration, without what resets took back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EffectiveHistory {
    /// Begins with the iteration's start. Resets stay in it, as marks.
    pub events: Vec<NumberedEvent>,
    /// Of the last reset in the log; 0 without one.
    pub epoch: u32,
    /// Of the last continuation that counts; 0 without one.
    pub iteration: u32,
    /// Number of the log's last event, whether it counts or not; 0 for an empty log.
    pub last_sequence: i64,
}

/// Applies resets and continuations to a log.
///
/// A reset goes back to an event that still counted when it was made, also behind an earlier reset
/// or into an earlier iteration. A continuation hides all before it, until a reset goes back there.
///
/// ```
/// use durable_core::{Payload, WorkflowEvent, effective_history};
///
/// let log = vec![
///     (1, WorkflowEvent::WorkflowStarted { input: Payload::null() }),
///     (2, WorkflowEvent::TimerStarted { timer_id: "t".into(), duration_ms: 1 }),
///     (3, WorkflowEvent::WorkflowCancelled { reason: "by mistake".into() }),
///     (4, WorkflowEvent::WorkflowReset { to_sequence: 2, epoch: 1, reason: "undo".into() }),
///     (5, WorkflowEvent::TimerFired { timer_id: "t".into() }),
/// ];
/// let history = effective_history(log)?;
/// let counts: Vec<i64> = history.events.iter().map(|(n, _)| *n).collect();
/// assert_eq!((counts, history.epoch), (vec![1, 2, 4, 5], 1));
/// # Ok::<(), durable_core::HistoryError>(())
/// ```
///
/// # Errors
/// [`HistoryError`] when numbers do not grow, a reset goes back to an event that does not count, or does not raise the epoch.
pub fn effective_history(
    log: impl IntoIterator<Item = NumberedEvent>,
) -> Result<EffectiveHistory, HistoryError> {
    let mut timeline: Vec<NumberedEvent> = Vec::new();
    let mut first: Option<i64> = None;
    let mut last: Option<i64> = None;
    let mut epoch = 0;
    for (sequence_num, event) in log {
        let refuse = |event: &WorkflowEvent, problem| HistoryError {
            sequence_num,
            event_type: event.event_type(),
            problem,
        };
        if let Some(last) = last.filter(|last| sequence_num <= *last) {
            return Err(refuse(
                &event,
                HistoryProblem::SequenceNotIncreasing { last },
            ));
        }
        if let WorkflowEvent::WorkflowReset {
            to_sequence,
            epoch: raised,
            ..
        } = event
        {
            let first = first.unwrap_or(sequence_num);
            go_back(&mut timeline, to_sequence, first).map_err(|p| refuse(&event, p))?;
            if raised <= epoch {
                let problem = HistoryProblem::EpochNotRaised {
                    epoch: raised,
                    current: epoch,
                };
                return Err(refuse(&event, problem));
            }
            epoch = raised;
        }
        first.get_or_insert(sequence_num);
        last = Some(sequence_num);
        timeline.push((sequence_num, event));
    }
    let (events, iteration) = last_iteration(timeline);
    Ok(EffectiveHistory {
        events,
        epoch,
        iteration,
        last_sequence: last.unwrap_or(0),
    })
}

/// Keeps what lies up to `to_sequence`. The number before the log's first event is a target too: nothing counts then.
fn go_back(
    timeline: &mut Vec<NumberedEvent>,
    to_sequence: i64,
    first: i64,
) -> Result<(), HistoryProblem> {
    match timeline.binary_search_by_key(&to_sequence, |(number, _)| *number) {
        Ok(target) => timeline.truncate(target + 1),
        Err(_) if to_sequence == first.saturating_sub(1) => timeline.clear(),
        Err(_) => return Err(HistoryProblem::ResetTarget { to_sequence }),
    }
    Ok(())
}

fn last_iteration(mut timeline: Vec<NumberedEvent>) -> (Vec<NumberedEvent>, u32) {
    let continued = timeline
        .iter()
        .enumerate()
        .rev()
        .find_map(|(at, (_, event))| match event {
            WorkflowEvent::WorkflowContinuedAsNew { iteration, .. } => Some((at, *iteration)),
            _ => None,
        });
    match continued {
        Some((at, iteration)) => (timeline.split_off(at + 1), iteration),
        None => (timeline, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    fn started() -> WorkflowEvent {
        WorkflowEvent::WorkflowStarted {
            input: Payload::null(),
        }
    }

    fn signal() -> WorkflowEvent {
        WorkflowEvent::CancellationRequested { reason: "x".into() }
    }

    fn reset(to_sequence: i64, epoch: u32) -> WorkflowEvent {
        WorkflowEvent::WorkflowReset {
            to_sequence,
            epoch,
            reason: "test".into(),
        }
    }

    fn continued(iteration: u32) -> WorkflowEvent {
        WorkflowEvent::WorkflowContinuedAsNew {
            iteration,
            input: Payload::null(),
        }
    }

    /// Numbers that count, epoch, iteration, of a log numbered from 1.
    fn counts(log: Vec<WorkflowEvent>) -> Result<(Vec<i64>, u32, u32), HistoryProblem> {
        effective_history((1..).zip(log))
            .map(|h| {
                let numbers = h.events.iter().map(|(n, _)| *n).collect();
                (numbers, h.epoch, h.iteration)
            })
            .map_err(|e| e.problem)
    }

    #[test]
    fn reset_behind_an_earlier_reset_takes_that_one_back_too() {
        let log = vec![
            started(),
            signal(),
            signal(),
            reset(2, 1),
            signal(),
            reset(1, 2),
            signal(),
        ];
        assert_eq!(counts(log), Ok((vec![1, 6, 7], 2, 0)));
    }

    #[test]
    fn reset_after_an_earlier_one_keeps_it() {
        let log = vec![
            started(),
            signal(),
            signal(),
            reset(2, 1),
            signal(),
            signal(),
            reset(5, 2),
        ];
        assert_eq!(counts(log), Ok((vec![1, 2, 4, 5, 7], 2, 0)));
    }

    #[test]
    fn reset_to_a_reset_mark_keeps_what_that_kept() {
        let log = vec![
            started(),
            signal(),
            reset(1, 1),
            signal(),
            reset(3, 2),
            signal(),
        ];
        assert_eq!(counts(log), Ok((vec![1, 3, 5, 6], 2, 0)));
    }

    #[test]
    fn reset_to_what_no_longer_counts_is_refused() {
        let log = vec![
            started(),
            signal(),
            signal(),
            reset(1, 1),
            signal(),
            reset(2, 2),
        ];
        let problem = HistoryProblem::ResetTarget { to_sequence: 2 };
        assert_eq!(counts(log), Err(problem));
        let problem = HistoryProblem::ResetTarget { to_sequence: 9 };
        assert_eq!(counts(vec![started(), reset(9, 1)]), Err(problem));
        let problem = HistoryProblem::ResetTarget { to_sequence: 2 };
        assert_eq!(counts(vec![started(), reset(2, 1)]), Err(problem), "itself");
    }

    #[test]
    fn reset_to_before_the_start_leaves_only_what_follows() {
        let log = vec![started(), signal(), reset(0, 1), started()];
        assert_eq!(counts(log), Ok((vec![3, 4], 1, 0)));
    }

    #[test]
    fn each_reset_raises_the_epoch_also_over_one_that_was_taken_back() {
        let log = vec![started(), signal(), reset(2, 2), reset(1, 2)];
        let problem = HistoryProblem::EpochNotRaised {
            epoch: 2,
            current: 2,
        };
        assert_eq!(counts(log), Err(problem));
    }

    #[test]
    fn continuation_hides_all_before_it() {
        let log = vec![
            started(),
            signal(),
            continued(1),
            started(),
            continued(2),
            started(),
            signal(),
        ];
        assert_eq!(counts(log), Ok((vec![6, 7], 0, 2)));
        assert_eq!(counts(vec![started(), continued(1)]), Ok((vec![], 0, 1)));
    }

    #[test]
    fn reset_within_an_iteration_stays_in_it() {
        let log = vec![
            started(),
            continued(1),
            started(),
            signal(),
            reset(3, 1),
            signal(),
        ];
        assert_eq!(counts(log), Ok((vec![3, 5, 6], 1, 1)));
    }

    #[test]
    fn reset_into_an_earlier_iteration_brings_it_back() {
        let log = vec![
            started(),
            signal(),
            continued(1),
            started(),
            reset(2, 1),
            signal(),
        ];
        assert_eq!(counts(log), Ok((vec![1, 2, 5, 6], 1, 0)));
    }

    #[test]
    fn reset_to_the_continuation_begins_the_iteration_anew() {
        let log = vec![
            started(),
            continued(1),
            started(),
            signal(),
            reset(2, 1),
            started(),
        ];
        assert_eq!(counts(log), Ok((vec![5, 6], 1, 1)));
    }

    #[test]
    fn last_number_is_known_also_when_nothing_counts() {
        let log = vec![(7, started()), (8, continued(1))];
        let history = effective_history(log).unwrap();
        assert_eq!((history.events.len(), history.last_sequence), (0, 8));
    }

    #[test]
    fn numbers_that_do_not_grow_are_refused() {
        let log = vec![(2, started()), (2, signal())];
        let problem = effective_history(log).unwrap_err().problem;
        assert_eq!(problem, HistoryProblem::SequenceNotIncreasing { last: 2 });
    }
}
