//! Takes a run back to just before an activity failed, so that it is tried again (X22).

use std::collections::BTreeMap;

use durable_core::{Payload, WorkflowEvent, effective_history};
use uuid::Uuid;

use super::Client;
use crate::error::Kind;
use crate::persistence::StoreError;
use crate::persistence::model::{
    DeadLetter, DeadLetterDecision, DlqFilter, History, NewTask, NewTimer, Next, Page, Rejection,
    SendRejection, TurnCommit, TurnOutcome,
};
use crate::{Error, Result};

/// How often a reset is tried again when the run moves meanwhile.
const TRIES_MAX: usize = 20;

impl Client {
    /// Resets the run of a dead letter to before its failure; its epoch rises, so that nothing older counts any more.
    pub(super) async fn retry_step(&self, run_id: Uuid, letter_id: Uuid) -> Result<()> {
        let letter = self.letter(run_id, letter_id).await?;
        for _ in 0..TRIES_MAX {
            let history = self.shared.store.load_history(run_id, 0).await?;
            let history = history.ok_or(Kind::NotFound(run_id))?;
            let turn = reset_turn(self, &history, &letter)?;
            let outcomes = self.shared.store.commit_turns(vec![turn], None).await?;
            match outcomes.into_iter().next() {
                Some(TurnOutcome::Committed(_)) => {
                    // The letter has done its work; the run's new attempt will leave one of its own if it fails.
                    self.decide(run_id, letter_id, DeadLetterDecision::Discard)
                        .await?;
                    self.shared.hub.tasks.notify_one();
                    self.ring(run_id);
                    return Ok(());
                }
                Some(TurnOutcome::Rejected(Rejection::RunFinished { status })) => {
                    let rejection = SendRejection::RunFinished { status };
                    return Err(Kind::Send { run_id, rejection }.into());
                }
                Some(TurnOutcome::Rejected(Rejection::NotFound)) | None => {
                    return Err(Kind::NotFound(run_id).into());
                }
                // The run has moved: look again.
                Some(TurnOutcome::Rejected(_)) => {}
            }
        }
        let message = format!("run {run_id} moves too fast to be reset; try again");
        Err(StoreError::Conflict(message).into())
    }

    async fn letter(&self, run_id: Uuid, letter_id: Uuid) -> Result<DeadLetter> {
        let filter = DlqFilter {
            run_id: Some(run_id),
            ..DlqFilter::default()
        };
        let page = Page {
            limit: 1000,
            offset: 0,
        };
        let letters = self.shared.store.list_dlq(filter, page).await?;
        let letter = letters.into_iter().find(|letter| letter.id == letter_id);
        letter.ok_or_else(|| {
            let id = letter_id.to_string();
            Error::from(StoreError::NotFound {
                what: "dead letter",
                id,
            })
        })
    }
}

/// The turn that forgets everything from the activity's failure on and queues again what was under way before it.
fn reset_turn(client: &Client, history: &History, letter: &DeadLetter) -> Result<TurnCommit> {
    let run = &history.run;
    let log = history
        .events
        .iter()
        .filter(|event| event.sequence_num > run.history_start)
        .map(|event| (event.sequence_num, event.event.clone()));
    let effective = effective_history(log).map_err(|error| StoreError::Corrupt {
        message: format!("the history of run {}: {error}", run.id),
        source: None,
    })?;
    let to_sequence =
        before_the_end_of(&effective.events, &letter.activity_id).ok_or_else(|| {
            StoreError::Conflict(format!(
                "the failure of activity {:?} is not in the current history of run {}",
                letter.activity_id, run.id
            ))
        })?;
    let mut under_way = UnderWay::default();
    for (sequence_num, event) in &effective.events {
        if *sequence_num <= to_sequence {
            under_way.follow(event);
        }
    }
    let runtime = &client.shared.runtime;
    let mut turn = TurnCommit::new(run, runtime.new_id());
    turn.events = vec![WorkflowEvent::WorkflowReset {
        to_sequence,
        epoch: run.epoch + 1,
        reason: format!("activity {} is tried again", letter.activity_id),
    }];
    turn.next = Next::Reset { to_sequence };
    turn.tasks = under_way
        .tasks
        .into_values()
        .map(|mut task| {
            task.task_id = runtime.new_id();
            task.trace.clone_from(&run.trace);
            task
        })
        .collect();
    turn.timers = under_way.timers.into_values().collect();
    Ok(turn)
}

/// The last event before the activity's end and the notes about its attempts that stand right before it.
fn before_the_end_of(events: &[(i64, WorkflowEvent)], activity_id: &str) -> Option<i64> {
    let end = events.iter().rposition(|(_, event)| match event {
        WorkflowEvent::ActivityFailed {
            activity_id: id,
            will_retry: false,
            ..
        }
        | WorkflowEvent::ActivityTimedOut {
            activity_id: id, ..
        } => id == activity_id,
        _ => false,
    })?;
    let notes = events[..end]
        .iter()
        .rev()
        .take_while(|(_, event)| match event {
            WorkflowEvent::ActivityStarted {
                activity_id: id, ..
            }
            | WorkflowEvent::ActivityFailed {
                activity_id: id,
                will_retry: true,
                ..
            } => id == activity_id,
            _ => false,
        });
    let first = end - notes.count();
    events[..first]
        .last()
        .map(|(sequence_num, _)| *sequence_num)
}

/// Activities and timers that were asked for and not over, in the order in which they were asked for.
#[derive(Default)]
struct UnderWay {
    asked: usize,
    tasks: BTreeMap<usize, NewTask>,
    timers: BTreeMap<usize, NewTimer>,
}

impl UnderWay {
    fn follow(&mut self, event: &WorkflowEvent) {
        use WorkflowEvent as E;
        self.asked += 1;
        match event {
            E::ActivityScheduled {
                activity_id,
                activity_type,
                input,
                options,
            } => {
                let task = new_task(activity_id, activity_type, input, options);
                self.tasks.insert(self.asked, task);
            }
            E::ActivityCompleted { activity_id, .. }
            | E::ActivityTimedOut { activity_id, .. }
            | E::ActivityCancelled { activity_id, .. }
            | E::ActivityFailed {
                activity_id,
                will_retry: false,
                ..
            } => self
                .tasks
                .retain(|_, task| task.activity_id != *activity_id),
            E::TimerStarted {
                timer_id,
                duration_ms,
            } => {
                let timer = NewTimer {
                    timer_id: timer_id.clone(),
                    after: std::time::Duration::from_millis(*duration_ms),
                };
                self.timers.insert(self.asked, timer);
            }
            E::TimerFired { timer_id } | E::TimerCancelled { timer_id } => {
                self.timers.retain(|_, timer| timer.timer_id != *timer_id);
            }
            _ => {}
        }
    }
}

fn new_task(
    activity_id: &str,
    activity_type: &str,
    input: &Payload,
    options: &durable_core::ActivityOptions,
) -> NewTask {
    NewTask {
        task_id: Uuid::nil(),
        activity_id: activity_id.to_owned(),
        activity_type: activity_type.to_owned(),
        input: input.clone(),
        options: options.clone(),
        delay: None,
        lease: false,
        trace: None,
    }
}
