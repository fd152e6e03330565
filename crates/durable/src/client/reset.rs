//! Takes a run back: to an event that an operator names, or to just before what failed (X22).

use std::collections::BTreeSet;

use durable_core::{NumberedEvent, WorkflowEvent, effective_history};
use uuid::Uuid;

use super::reset_turn::Cut;
use super::{Client, Doubt};
use crate::error::Kind;
use crate::persistence::limits::PAGE_ROWS_MAX;
use crate::persistence::model::{
    DeadLetter, DeadLetterState, DlqFilter, Page, Rejection, RunRecord, SendRejection, TurnCommit,
    TurnOutcome, WorkflowStatus,
};
use crate::persistence::whole_history;
use crate::persistence::{Ring, StoreError};
use crate::{Error, Result};

/// How often a reset is tried again when the run moves meanwhile.
const TRIES_MAX: usize = 20;

/// Where a run is taken back to, and why.
struct Point {
    /// Index of the last event that still counts.
    last: usize,
    reason: String,
}

impl Client {
    /// Tries again what failed of a run. A run that failed is taken back to just before its last failed step (all that failed while
    /// that one was under way included) or, where no step failed, to just before its end; it goes on from there with today's code. Of a
    /// run that waits for dead letters ([`durable_core::ExhaustedPolicy::Park`]) all are queued again.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; [`Error::is_run_finished`] for a run that has completed or was cancelled; [`Error::is_conflict`] where nothing has failed.
    pub async fn retry(&self, run_id: Uuid) -> Result<()> {
        let run = self.get(run_id).await?;
        match run.status {
            WorkflowStatus::Failed => self.reset(run_id, before_what_failed).await,
            WorkflowStatus::Pending | WorkflowStatus::Running => self.requeue_parked(run_id).await,
            status @ (WorkflowStatus::Completed | WorkflowStatus::Cancelled) => {
                let rejection = SendRejection::RunFinished { status };
                Err(Kind::Send { run_id, rejection }.into())
            }
        }
    }

    /// Takes a run that has not ended, or failed, back to an event of its history: what came after it no longer counts, and the run goes on
    /// from there with today's code. Activities and timers that were under way then begin anew; results of those that run now are refused.
    /// Signals that it received since come again; updates that it took since fail.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; [`Error::is_run_finished`] for a run that has completed or was cancelled; [`Error::is_invalid`] where there is no such
    /// event in its current history, or something that cannot be had back (a child that has ended or was asked to stop) lies behind it: the message says where to go instead.
    pub async fn reset_to(&self, run_id: Uuid, sequence: i64) -> Result<()> {
        self.reset(run_id, |run, events| at_event(run, events, sequence))
            .await
    }

    /// Resets the run of a dead letter to before its failure.
    pub(super) async fn retry_step(&self, run_id: Uuid, letter_id: Uuid) -> Result<()> {
        let letters = self.dead_letters_of(run_id).await?;
        let letter = letters.into_iter().find(|letter| letter.id == letter_id);
        let letter = letter.ok_or_else(|| StoreError::NotFound {
            what: "dead letter",
            id: letter_id.to_string(),
        })?;
        let activity_id = &letter.activity_id;
        self.reset(run_id, |run, events| {
            before_the_end_of(run, events, activity_id)
        })
        .await
    }

    async fn reset(
        &self,
        run_id: Uuid,
        choose: impl Fn(&RunRecord, &[NumberedEvent]) -> Result<Point>,
    ) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let history = self.history_to_reset(run_id).await?;
            let (run, events) = &history;
            let Point { last, reason } = choose(run, events)?;
            let cut = Cut::after(run, events, last);
            let letters = self.dead_letters_of(run_id).await?;
            let turn = cut.turn(&self.shared.runtime, reason, &letters);
            // The same turn each time: its id makes that safe.
            let commit = || self.store().commit_turns(vec![turn.clone()], None);
            let (outcomes, doubt) = self.retried_with_doubt(commit).await?;
            match outcomes.into_iter().next() {
                Some(TurnOutcome::Committed(_)) => {
                    self.was_reset(&turn);
                    return Ok(());
                }
                // The run has moved on, perhaps from where this turn had taken it by a try whose answer was lost.
                Some(TurnOutcome::Rejected(_))
                    if doubt == Doubt::Some && self.is_in_history(&turn).await? =>
                {
                    self.was_reset(&turn);
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

    /// The run and the events that count.
    async fn history_to_reset(&self, run_id: Uuid) -> Result<(RunRecord, Vec<NumberedEvent>)> {
        let run = self.get(run_id).await?;
        // Earlier iterations do not count, and there may be many.
        let history = whole_history(&**self.store(), run_id, run.history_start).await?;
        let history = history.ok_or(Kind::NotFound(run_id))?;
        let run = history.run;
        if let status @ (WorkflowStatus::Completed | WorkflowStatus::Cancelled) = run.status {
            let rejection = SendRejection::RunFinished { status };
            return Err(Kind::Send { run_id, rejection }.into());
        }
        let log = history
            .events
            .into_iter()
            .filter(|event| event.sequence_num > run.history_start)
            .map(|event| (event.sequence_num, event.event));
        let effective = effective_history(log).map_err(|error| StoreError::Corrupt {
            message: format!("the history of run {run_id}: {error}"),
            source: None,
        })?;
        Ok((run, effective.events))
    }

    /// Tells everybody concerned.
    fn was_reset(&self, turn: &TurnCommit) {
        let hub = &self.shared.hub;
        let types: BTreeSet<&str> = turn.tasks.iter().map(|task| &*task.activity_type).collect();
        hub.claimable(types);
        self.leave_to_chores(Ring {
            messages: !turn.signals.is_empty(),
            clocks: true,
            ..Ring::default()
        });
        // Updates that are forgotten have failed.
        hub.answered(turn.run_id);
        self.ring(turn.run_id);
    }

    /// Whether what the turn appends stands where it would have.
    async fn is_in_history(&self, turn: &TurnCommit) -> Result<bool> {
        let since = whole_history(&**self.store(), turn.run_id, turn.expected_sequence);
        let history = since.await?.ok_or(Kind::NotFound(turn.run_id))?;
        let stored = history.events.iter().map(|event| &event.event);
        Ok(turn.events.iter().eq(stored.take(turn.events.len())))
    }

    async fn requeue_parked(&self, run_id: Uuid) -> Result<()> {
        let letters = self.dead_letters_of(run_id).await?;
        let mut any = false;
        for letter in letters.into_iter().filter(|letter| letter.parked) {
            self.requeue_dead_letter(run_id, letter.id).await?;
            any = true;
        }
        if any {
            return Ok(());
        }
        let message = format!("nothing of run {run_id} has failed: there is nothing to retry");
        Err(StoreError::Conflict(message).into())
    }

    /// Letters of the run that nobody has decided about.
    async fn dead_letters_of(&self, run_id: Uuid) -> Result<Vec<DeadLetter>> {
        let mut filter = DlqFilter {
            run_id: Some(run_id),
            state: Some(DeadLetterState::Dead),
            ..DlqFilter::default()
        };
        let mut letters = Vec::new();
        loop {
            let page = Page::first(PAGE_ROWS_MAX);
            let more = self.store().list_dlq(filter.clone(), page).await?;
            let last = more.len() < PAGE_ROWS_MAX;
            filter.after = more.last().map(DeadLetter::rank);
            letters.extend(more);
            if last {
                return Ok(letters);
            }
        }
    }
}

/// Exactly the event that was named, unless it is one of the notes that are written with the end of an activity: then what stands before them.
fn at_event(run: &RunRecord, events: &[NumberedEvent], sequence: i64) -> Result<Point> {
    let refuse = |message| Err(Error::from(StoreError::Invalid(message)));
    if (1..=run.history_start).contains(&sequence) {
        let (run_id, first) = (run.id, run.history_start + 1);
        let refused = Kind::PastIteration {
            run_id,
            sequence,
            first,
        };
        return Err(refused.into());
    }
    let Ok(named) = events.binary_search_by_key(&sequence, |(number, _)| *number) else {
        let (first, last) = (events.first(), events.last());
        let bounds = first.zip(last).map_or_else(
            || "is empty".to_owned(),
            |((first, _), (last, _))| format!("goes from {first} to {last}"),
        );
        return refuse(format!(
            "there is no event {sequence} in the current history of run {}, which {bounds}",
            run.id
        ));
    };
    if events[named].1.is_terminal() {
        return refuse(format!(
            "event {sequence} is the end of run {}; name an event before it",
            run.id
        ));
    }
    let last = (0..=named)
        .rev()
        .find(|index| !is_note(&events[*index].1))
        .unwrap_or(named);
    if let Some(lost) = Cut::after(run, events, last).lost() {
        let (number, event) = &events[lost];
        return refuse(format!(
            "what event {number} ({}) began has ended or was asked to stop since, and run {} cannot have it back: go back to event {} or before",
            event.event_type(),
            run.id,
            number - 1
        ));
    }
    let reason = format!("reset to event {sequence}");
    Ok(Point { last, reason })
}

/// Just before the failures that the run ended of; before its end, where no step failed.
fn before_what_failed(run: &RunRecord, events: &[NumberedEvent]) -> Result<Point> {
    let failures: Vec<(usize, &str)> = events
        .iter()
        .enumerate()
        .filter_map(|(index, (_, event))| Some((index, failed_step(event)?)))
        .collect();
    let Some((_, last_failed)) = failures.last() else {
        let reason = "the run is tried again".to_owned();
        return point(run, events, before_the_end(events), reason);
    };
    let asked_for = events
        .iter()
        .position(|(_, event)| began_step(event) == Some(last_failed))
        .unwrap_or(0);
    // Those that failed while the last one was under way: they would fail the run again.
    let together: Vec<&(usize, &str)> = failures
        .iter()
        .filter(|(index, _)| *index >= asked_for)
        .collect();
    let names: Vec<&str> = together.iter().map(|(_, step)| *step).collect();
    let reason = format!("tried again: {}", names.join(", "));
    let first = together.first().map_or(0, |(index, _)| *index);
    point(run, events, before_notes(events, first), reason)
}

/// Just before the activity's last failure.
fn before_the_end_of(
    run: &RunRecord,
    events: &[NumberedEvent],
    activity_id: &str,
) -> Result<Point> {
    let end = events
        .iter()
        .rposition(|(_, event)| is_failure_of(event, activity_id));
    let end = end.ok_or_else(|| {
        StoreError::Conflict(format!(
            "the failure of activity {activity_id:?} is not in the current history of run {}",
            run.id
        ))
    })?;
    let reason = format!("activity {activity_id} is tried again");
    point(run, events, before_notes(events, end), reason)
}

/// The point before the event at `end`, or further back: what nobody would tell again is begun again.
fn point(
    run: &RunRecord,
    events: &[NumberedEvent],
    end: usize,
    mut reason: String,
) -> Result<Point> {
    let mut end = end;
    loop {
        let last = end.checked_sub(1).ok_or_else(|| {
            let message = format!(
                "run {} ended before it began: there is nothing to go back to, start it anew",
                run.id
            );
            StoreError::Conflict(message)
        })?;
        match Cut::after(run, events, last).lost() {
            None => {
                // It is stored as text for people, and has to fit.
                reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
                return Ok(Point { last, reason });
            }
            Some(start) => end = start,
        }
    }
}

const REASON_BYTES_MAX: usize = 1_000;

/// Index of the run's end, with the signals that nobody read.
fn before_the_end(events: &[NumberedEvent]) -> usize {
    let end = events.iter().rev().take_while(|(_, event)| {
        event.is_terminal() || matches!(event, WorkflowEvent::SignalReceived { unread: true, .. })
    });
    events.len() - end.count()
}

/// Index of the first note about attempts that stands right before the event at `end`.
fn before_notes(events: &[NumberedEvent], end: usize) -> usize {
    let notes = events[..end].iter().rev();
    end - notes.take_while(|(_, event)| is_note(event)).count()
}

/// Attempts are written down together with the end of their activity; without it they would be told twice.
const fn is_note(event: &WorkflowEvent) -> bool {
    matches!(
        event,
        WorkflowEvent::ActivityStarted { .. }
            | WorkflowEvent::ActivityFailed {
                will_retry: true,
                ..
            }
    )
}

fn is_failure_of(event: &WorkflowEvent, id: &str) -> bool {
    match event {
        WorkflowEvent::ActivityFailed {
            activity_id,
            will_retry: false,
            ..
        }
        | WorkflowEvent::ActivityTimedOut { activity_id, .. } => activity_id == id,
        _ => false,
    }
}

/// The step that failed for good with this event.
fn failed_step(event: &WorkflowEvent) -> Option<&str> {
    match event {
        WorkflowEvent::ActivityFailed {
            activity_id,
            will_retry: false,
            ..
        }
        | WorkflowEvent::ActivityTimedOut { activity_id, .. }
        | WorkflowEvent::LocalActivityFailed { activity_id, .. } => Some(activity_id),
        WorkflowEvent::ChildWorkflowFailed { child_id, .. } => Some(child_id),
        _ => None,
    }
}

/// The step that began with this event.
fn began_step(event: &WorkflowEvent) -> Option<&str> {
    match event {
        WorkflowEvent::ActivityScheduled { activity_id, .. }
        | WorkflowEvent::LocalActivityFailed { activity_id, .. } => Some(activity_id),
        WorkflowEvent::ChildWorkflowStarted { child_id, .. } => Some(child_id),
        _ => None,
    }
}
