//! Whether a turn is accepted. Pure: it looks and writes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use durable_core::Timestamp;
use uuid::Uuid;

use super::state::RunState;
use crate::persistence::limits::ATTRIBUTES_MAX;
use crate::persistence::model::after;
use crate::persistence::model::{Next, Rejection, TurnCommit, WorkflowStatus};
use crate::persistence::{Bug, planted};

/// Whether the run takes the turn; the first thing that is in the way decides.
pub(super) fn accept(run: &RunState, turn: &TurnCommit, now: Timestamp) -> Result<(), Rejection> {
    place_is_right(run, turn)?;
    facts_are_right(run, turn)?;
    leases_hold(run, turn)?;
    timers_are_due(run, turn, now)?;
    ids_are_free(run, turn)?;
    reset_is_inside(run, turn)?;
    attributes_fit(run, turn)
}

fn place_is_right(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    let run = run.run();
    let revives = matches!(turn.next, Next::Reset { .. }) && run.status == WorkflowStatus::Failed;
    if run.status.is_terminal() && !revives {
        return Err(Rejection::RunFinished { status: run.status });
    }
    if run.epoch != turn.expected_epoch {
        return Err(Rejection::Epoch { found: run.epoch });
    }
    if run.sequence != turn.expected_sequence && !planted(Bug::SequenceUnchecked) {
        return Err(Rejection::Sequence {
            found: run.sequence,
        });
    }
    Ok(())
}

fn facts_are_right(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    let (consumed, arrivals) = (run.run().consumed, run.run().arrivals);
    if !(consumed..=arrivals).contains(&turn.facts_through) {
        return Err(Rejection::Facts { consumed, arrivals });
    }
    let needs_all = turn.next.ends_run() && !turn.unread_rest;
    if needs_all && turn.facts_through != arrivals && !planted(Bug::EndsOverUnseenFacts) {
        return Err(Rejection::UnseenFacts { arrivals });
    }
    Ok(())
}

fn leases_hold(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    let mut seen = BTreeSet::new();
    for finished in &turn.finished_tasks {
        let lease = &finished.lease;
        let holds = lease.run_id == turn.run_id
            && run
                .tasks()
                .get(&lease.task_id)
                .is_some_and(|task| task.is_leased_as(lease) || planted(Bug::UnfencedFinish));
        if !(holds && seen.insert(lease.task_id)) {
            return Err(Rejection::LeaseLost {
                task_id: lease.task_id,
            });
        }
    }
    Ok(())
}

fn timers_are_due(run: &RunState, turn: &TurnCommit, now: Timestamp) -> Result<(), Rejection> {
    let horizon = timer_horizon(now);
    let mut seen = BTreeSet::new();
    for timer_id in &turn.fired_timers {
        let timer = run.timers().get(timer_id);
        let due = timer.is_some_and(|timer| timer.fire_at <= horizon);
        if !(due && seen.insert(timer_id)) {
            return Err(Rejection::TimerNotDue {
                timer_id: timer_id.clone(),
            });
        }
    }
    Ok(())
}

/// Up to when timers are due.
pub(super) fn timer_horizon(now: Timestamp) -> Timestamp {
    if planted(Bug::TimerFiresEarly) {
        return after(now, Duration::from_secs(1));
    }
    now
}

/// New ids are compared with what the turn leaves in the queue.
fn ids_are_free(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    if drops_queue(&turn.next) {
        return Ok(());
    }
    let in_use = |what, id: String| Err(Rejection::IdInUse { what, id });
    let leaving: BTreeSet<Uuid> = turn
        .finished_tasks
        .iter()
        .map(|finished| finished.lease.task_id)
        .chain(
            turn.cancelled_activities
                .iter()
                .filter_map(|id| run.task_of(id)),
        )
        .collect();
    for task in &turn.tasks {
        if run.tasks().contains_key(&task.task_id) && !leaving.contains(&task.task_id) {
            return in_use("task", task.task_id.to_string());
        }
        let queued = run.task_of(&task.activity_id);
        if queued.is_some_and(|id| !leaving.contains(&id)) {
            return in_use("activity", task.activity_id.clone());
        }
    }
    let forgotten: BTreeSet<&String> = turn
        .fired_timers
        .iter()
        .chain(&turn.cancelled_timers)
        .collect();
    for timer in &turn.timers {
        let id = &timer.timer_id;
        if run.timers().contains_key(id) && !forgotten.contains(id) {
            return in_use("timer", id.clone());
        }
    }
    Ok(())
}

fn reset_is_inside(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    let Next::Reset { to_sequence } = turn.next else {
        return Ok(());
    };
    let run = run.run();
    if run.history_start < to_sequence && to_sequence <= run.sequence {
        return Ok(());
    }
    Err(Rejection::ResetOutside {
        to_sequence,
        first: run.history_start + 1,
        last: run.sequence,
    })
}

/// A turn may not take its run over the limit. One that adds no more names than it removes is taken
/// even where the run is over it already.
fn attributes_fit(run: &RunState, turn: &TurnCommit) -> Result<(), Rejection> {
    let stored = &run.attributes;
    let (mut added, mut removed) = (0, 0);
    for (name, value) in &turn.attributes {
        match (stored.contains_key(name), value) {
            (false, Some(_)) => added += 1,
            (true, None) => removed += 1,
            (true, Some(_)) | (false, None) => {}
        }
    }
    let found = stored.len() + added - removed;
    if found > ATTRIBUTES_MAX && added > removed {
        return Err(Rejection::Attributes { found });
    }
    Ok(())
}

/// Whether all tasks and timers of the run leave with the turn.
pub(super) fn drops_queue(next: &Next) -> bool {
    match next {
        Next::Wait => false,
        Next::Reset { .. } => !planted(Bug::ResetKeepsEpoch),
        Next::Complete { .. }
        | Next::Fail { .. }
        | Next::Cancel { .. }
        | Next::ContinueAsNew { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use durable_core::{ActivityOptions, AttributeValue, Payload, WorkflowEvent};

    use super::*;
    use crate::persistence::Shards;
    use crate::persistence::memory::state::State;
    use crate::persistence::model::{
        FinishedTask, LeaseRequest, NewSignal, NewTask, NewTimer, SendSignal, StartRun, TaskEnd,
        TaskLease,
    };

    const RUN: Uuid = Uuid::from_u128(1);
    const TASK: Uuid = Uuid::from_u128(2);
    const FIRST_TURN: Uuid = Uuid::from_u128(3);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn task(task_id: Uuid, activity_id: &str) -> NewTask {
        NewTask {
            task_id,
            activity_id: activity_id.into(),
            activity_type: "a".into(),
            input: Payload::ABSENT,
            options: ActivityOptions::default(),
            delay: None,
            lease: true,
            trace: None,
        }
    }

    fn timer(seconds: u64) -> NewTimer {
        NewTimer {
            timer_id: "t".into(),
            after: Duration::from_secs(seconds),
        }
    }

    fn turn_on(state: &State, turn_id: Uuid) -> TurnCommit {
        TurnCommit::new(state.at(RUN).run(), turn_id)
    }

    /// A run after its first turn: a leased task, a timer due at second 20, one signal in the inbox.
    fn run_with_everything() -> State {
        let mut state = State::new(Shards::default());
        state.start_run(StartRun::new(RUN, "w", Payload::ABSENT), None, at(0));
        let mut turn = turn_on(&state, FIRST_TURN);
        turn.events = vec![WorkflowEvent::WorkflowStarted {
            input: Payload::ABSENT,
        }];
        turn.tasks = vec![task(TASK, "x")];
        turn.timers = vec![timer(10)];
        turn.lease = Some(LeaseRequest {
            worker_id: "w".into(),
            lease: Duration::from_secs(15),
        });
        state.commit_turn(turn, at(10));
        let signal = NewSignal {
            signal_id: Uuid::from_u128(4),
            signal_type: "s".into(),
            payload: Payload::ABSENT,
        };
        state.send_signal(
            SendSignal {
                run_id: RUN,
                signal,
            },
            at(11),
        );
        state
    }

    #[test]
    fn the_first_thing_in_the_way_decides_in_the_order_of_the_contract() {
        let mut state = run_with_everything();
        let lease = TaskLease {
            run_id: RUN,
            task_id: TASK,
            attempt: 1,
            token: Uuid::nil(),
        };
        let mut turn = turn_on(&state, Uuid::from_u128(5));
        turn.expected_epoch = 7;
        turn.expected_sequence = 7;
        turn.facts_through = 7;
        turn.finished_tasks = vec![FinishedTask {
            lease,
            end: TaskEnd::Completed,
        }];
        turn.fired_timers = vec!["t".into()];
        turn.tasks = vec![task(TASK, "y")];
        turn.next = Next::Reset { to_sequence: 9 };
        let why = |state: &State, turn: &TurnCommit| accept(state.at(RUN), turn, at(12));

        assert_eq!(why(&state, &turn), Err(Rejection::Epoch { found: 0 }));
        turn.expected_epoch = 0;
        assert_eq!(why(&state, &turn), Err(Rejection::Sequence { found: 1 }));
        turn.expected_sequence = 1;
        let facts = Rejection::Facts {
            consumed: 0,
            arrivals: 1,
        };
        assert_eq!(why(&state, &turn), Err(facts));
        turn.facts_through = 0;
        turn.next = Next::Complete {
            result: Payload::ABSENT,
        };
        assert_eq!(
            why(&state, &turn),
            Err(Rejection::UnseenFacts { arrivals: 1 })
        );
        turn.next = Next::Wait;
        let lost = Rejection::LeaseLost { task_id: TASK };
        assert_eq!(why(&state, &turn), Err(lost));
        turn.finished_tasks.clear();
        assert_eq!(
            why(&state, &turn),
            Err(Rejection::TimerNotDue {
                timer_id: "t".into()
            })
        );
        turn.fired_timers.clear();
        turn.timers = vec![timer(1)];
        let in_use = |what, id: &str| {
            let id = id.to_owned();
            Err(Rejection::IdInUse { what, id })
        };
        assert_eq!(why(&state, &turn), in_use("task", &TASK.to_string()));
        turn.tasks = vec![task(Uuid::from_u128(6), "x")];
        assert_eq!(why(&state, &turn), in_use("activity", "x"));
        turn.cancelled_activities = vec!["x".into()];
        assert_eq!(why(&state, &turn), in_use("timer", "t"));
        turn.cancelled_timers = vec!["t".into()];
        assert_eq!(why(&state, &turn), Ok(()));
        turn.next = Next::Reset { to_sequence: 2 };
        let outside = Rejection::ResetOutside {
            to_sequence: 2,
            first: 1,
            last: 1,
        };
        let found = ATTRIBUTES_MAX + 1;
        let tags = (0..found).map(|i| (i.to_string(), Some(AttributeValue::Int(1))));
        turn.attributes = tags.collect();
        assert_eq!(why(&state, &turn), Err(outside));
        turn.next = Next::Wait;
        assert_eq!(why(&state, &turn), Err(Rejection::Attributes { found }));

        state.terminate(RUN, "enough", at(12));
        turn.next = Next::Wait;
        let status = WorkflowStatus::Failed;
        assert_eq!(why(&state, &turn), Err(Rejection::RunFinished { status }));
    }

    #[test]
    fn a_task_or_timer_named_twice_is_lost_the_second_time() {
        let state = run_with_everything();
        let finished = FinishedTask {
            lease: TaskLease {
                run_id: RUN,
                task_id: TASK,
                attempt: 1,
                token: FIRST_TURN,
            },
            end: TaskEnd::Completed,
        };
        let mut turn = turn_on(&state, Uuid::from_u128(5));
        turn.finished_tasks = vec![finished.clone(), finished];
        let lost = Rejection::LeaseLost { task_id: TASK };
        assert_eq!(accept(state.at(RUN), &turn, at(20)), Err(lost));
        turn.finished_tasks.pop();
        turn.fired_timers = vec!["t".into(), "t".into()];
        let timer_id = "t".to_owned();
        assert_eq!(
            accept(state.at(RUN), &turn, at(20)),
            Err(Rejection::TimerNotDue { timer_id })
        );
        turn.fired_timers.pop();
        assert_eq!(accept(state.at(RUN), &turn, at(20)), Ok(()));
    }

    #[test]
    fn a_failed_run_takes_a_reset_and_begins_a_new_epoch_with_an_empty_queue() {
        let mut state = run_with_everything();
        state.terminate(RUN, "enough", at(12));
        let mut turn = turn_on(&state, Uuid::from_u128(5));
        turn.events = vec![WorkflowEvent::WorkflowReset {
            to_sequence: 1,
            epoch: 1,
            reason: "again".into(),
        }];
        turn.next = Next::Reset { to_sequence: 1 };
        // The signal that waited is in the history, before the end.
        let events = state.at(RUN).events.iter();
        let names: Vec<_> = events.map(|e| e.event.event_type()).collect();
        assert_eq!(
            names,
            ["workflow.started", "signal.received", "workflow.failed"]
        );
        state.commit_turn(turn, at(13));
        let run = state.at(RUN);
        assert_eq!(
            (run.run().epoch, run.run().status),
            (1, WorkflowStatus::Running)
        );
        assert_eq!(run.run().ready_at, Some(at(13)));
        assert!(run.tasks().is_empty() && run.timers().is_empty());
        assert_eq!(run.run().error, None);
    }
}
