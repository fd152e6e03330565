//! The log as a checked state machine.

use uuid::Uuid;

use super::error::{HistoryError, HistoryProblem};
use super::open_items::{OpenItems, PendingActivity};
use super::stopping::{SHUTDOWN_REASON, Stopping, cancel_reason};
use crate::event::WorkflowEvent;
use crate::fact::Fact;
use crate::request::may_be_imposed;
use crate::signal::{WorkflowSignal, signal_types};

/// What a run's history has come to: what is open, what is over, and which event may follow.
///
/// Events are [accepted](HistoryState::accept) one by one; one that cannot follow is a typed error and
/// changes nothing. Used by replay, by the engine before it appends, and by the audit.
///
/// Takes the history that counts ([`effective_history`](super::effective_history)): a reset cannot be undone event by event.
///
/// ```
/// use durable_core::{HistoryState, Payload, WorkflowEvent};
///
/// let mut state = HistoryState::default();
/// state.accept(1, &WorkflowEvent::WorkflowStarted { input: Payload::null() })?;
/// state.accept(2, &WorkflowEvent::TimerStarted { timer_id: "t".into(), duration_ms: 5 })?;
/// assert!(state.has_pending_timer("t"));
/// state.accept(3, &WorkflowEvent::TimerFired { timer_id: "t".into() })?;
/// let again = state.accept(4, &WorkflowEvent::TimerFired { timer_id: "t".into() });
/// assert_eq!(again.unwrap_err().to_string(), r#"event 4 (timer.fired): timer "t" is over already"#);
/// # Ok::<(), durable_core::HistoryError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryState {
    last_sequence: i64,
    /// Of the last reset seen.
    epoch: Option<u32>,
    /// Of the last continuation seen.
    iteration: Option<u32>,
    phase: Phase,
    open: OpenItems,
    signals_received: u64,
    stopping: Stopping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    NotStarted,
    Running,
    /// Ended by the event of this name.
    Ended(&'static str),
}

impl Default for HistoryState {
    fn default() -> Self {
        Self::after(0)
    }
}

impl HistoryState {
    /// A stretch of history that has not begun, behind event number `last_sequence`: a run's
    /// later iteration, or one whose older events are gone.
    #[must_use]
    pub fn after(last_sequence: i64) -> Self {
        Self {
            last_sequence,
            epoch: None,
            iteration: None,
            phase: Phase::NotStarted,
            open: OpenItems::default(),
            signals_received: 0,
            stopping: Stopping::default(),
        }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// [`HistoryError`] when it cannot follow; the state is as before.
    pub fn accept(&mut self, sequence_num: i64, event: &WorkflowEvent) -> Result<(), HistoryError> {
        self.accept_checked(sequence_num, event)
            .map_err(|problem| HistoryError {
                sequence_num,
                event_type: event.event_type(),
                problem,
            })
    }

    fn accept_checked(
        &mut self,
        sequence_num: i64,
        event: &WorkflowEvent,
    ) -> Result<(), HistoryProblem> {
        if sequence_num <= self.last_sequence {
            return Err(HistoryProblem::SequenceNotIncreasing {
                last: self.last_sequence,
            });
        }
        self.check_phase(event)?;
        self.transition(event)?;
        self.last_sequence = sequence_num;
        Ok(())
    }

    fn check_phase(&self, event: &WorkflowEvent) -> Result<(), HistoryProblem> {
        use WorkflowEvent as E;
        match (self.phase, event) {
            (Phase::Ended(with), _) => Err(HistoryProblem::Ended(with)),
            (Phase::Running, E::WorkflowStarted { .. }) => Err(HistoryProblem::AlreadyStarted),
            (Phase::Running, _)
            | (
                Phase::NotStarted,
                E::WorkflowStarted { .. }
                | E::WorkflowReset { .. }
                | E::SignalReceived { unread: true, .. },
            ) => Ok(()),
            // A run may be ended from outside before its first turn.
            (Phase::NotStarted, ending) if may_be_imposed(ending) => Ok(()),
            (Phase::NotStarted, _) => Err(HistoryProblem::NotStarted),
        }
    }

    /// Every arm checks before it changes anything.
    fn transition(&mut self, event: &WorkflowEvent) -> Result<(), HistoryProblem> {
        use WorkflowEvent as E;
        match event {
            E::WorkflowStarted { .. } => self.phase = Phase::Running,
            E::WorkflowCompleted { .. }
            | E::WorkflowFailed { .. }
            | E::WorkflowCancelled { .. } => {
                self.phase = Phase::Ended(event.event_type());
            }
            E::WorkflowContinuedAsNew { iteration, .. } => self.continue_as_new(*iteration)?,
            E::WorkflowReset {
                to_sequence, epoch, ..
            } => self.reset(*to_sequence, *epoch)?,
            E::SignalReceived { unread: true, .. } => {}
            E::SignalReceived { signal, .. } => self.receive(signal),
            E::CancellationRequested { reason } => {
                self.stopping.cancel(|| reason.clone());
            }
            E::VersionMarked { .. } | E::SearchAttributesUpserted { .. } => {}
            other => self.open.transition(other, &mut self.stopping)?,
        }
        Ok(())
    }

    fn receive(&mut self, signal: &WorkflowSignal) {
        self.signals_received += 1;
        match signal.signal_type.as_str() {
            signal_types::CANCEL => self.stopping.cancel(|| cancel_reason(&signal.payload)),
            signal_types::SHUTDOWN => {
                let in_flight = self.open.activities.iter_open().map(|(id, _)| id);
                self.stopping.shut_down(in_flight);
            }
            _ => {}
        }
    }

    fn continue_as_new(&mut self, iteration: u32) -> Result<(), HistoryProblem> {
        if let Some(current) = self.iteration.filter(|current| iteration <= *current) {
            return Err(HistoryProblem::IterationNotRaised { iteration, current });
        }
        *self = Self {
            epoch: self.epoch,
            iteration: Some(iteration),
            ..Self::after(self.last_sequence)
        };
        Ok(())
    }

    /// The events it undoes are not here; what is here must end where it goes back to.
    fn reset(&mut self, to_sequence: i64, epoch: u32) -> Result<(), HistoryProblem> {
        if self.phase == Phase::Running && self.last_sequence != to_sequence {
            return Err(HistoryProblem::ResetTarget { to_sequence });
        }
        if let Some(current) = self.epoch.filter(|current| epoch <= *current) {
            return Err(HistoryProblem::EpochNotRaised { epoch, current });
        }
        self.epoch = Some(epoch);
        Ok(())
    }
}

/// What it has come to.
impl HistoryState {
    /// Number of the last event.
    #[must_use]
    pub const fn last_sequence(&self) -> i64 {
        self.last_sequence
    }

    /// Number of the next event.
    #[must_use]
    pub const fn next_sequence(&self) -> i64 {
        self.last_sequence.saturating_add(1)
    }

    /// Whether the run, or its iteration, has begun and not ended.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// Name of the event that ended the run.
    #[must_use]
    pub const fn ended_with(&self) -> Option<&'static str> {
        match self.phase {
            Phase::Ended(with) => Some(with),
            _ => None,
        }
    }

    /// Why the run was first asked to cancel, if it was: by a request or by the signal of that name.
    #[must_use]
    pub fn cancel_requested(&self) -> Option<&str> {
        self.stopping.cancel_requested()
    }

    /// Whether an activity, a timer, a child or a human task is still to bring something.
    #[must_use]
    pub fn has_outstanding(&self) -> bool {
        self.open.activities.has_open()
            || self.open.timers.has_open()
            || self.open.children.has_open()
            || self.open.human_tasks.has_open()
    }

    /// Why the run has to end now, though its program has not ended it.
    ///
    /// After a shutdown: as soon as the activities that were in flight then have ended, whatever was asked for since.
    /// After a cancel: as soon as nothing is outstanding, so that a program may clean up first.
    #[must_use]
    pub fn stop_reason(&self) -> Option<&str> {
        if !self.is_running() {
            return None;
        }
        if self.stopping.shutdown_is_met() {
            return Some(SHUTDOWN_REASON);
        }
        self.cancel_requested().filter(|_| !self.has_outstanding())
    }

    /// Signals that the program was told in this iteration.
    #[must_use]
    pub const fn signals_received(&self) -> u64 {
        self.signals_received
    }

    /// Whether the fact cannot follow any more, since what it belongs to is over: an activity that ended or was given up, a timer,
    /// a child, a human task, or an update that was taken before. Such a fact is passed over; a signal is never late.
    ///
    /// A fact about something that was never asked for is not late but an error, as is every other that cannot follow.
    /// What a child reports under another run id than the one it was started as is late: a reset replaced that run.
    #[must_use]
    pub fn is_late(&self, fact: &Fact) -> bool {
        self.open.is_late(fact)
    }

    /// Activities that have not ended, by id.
    ///
    /// This list and those of the other kinds cost nothing for what is over, however much that is:
    /// their lengths are known, and a walk through one meets open items only.
    pub fn pending_activities(&self) -> impl ExactSizeIterator<Item = (&str, &PendingActivity)> {
        self.open.activities.iter_open()
    }

    /// Timers that have neither fired nor been cancelled.
    pub fn pending_timers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.open.timers.iter_open().map(|(id, ())| id)
    }

    /// Children that have not ended: the name the parent gave them, and their run ids.
    pub fn pending_children(&self) -> impl ExactSizeIterator<Item = (&str, Uuid)> {
        self.open.children.iter_open().map(|(id, run)| (id, *run))
    }

    /// Updates that were taken and not answered.
    pub fn open_updates(&self) -> impl ExactSizeIterator<Item = &str> {
        self.open.updates.iter_open().map(|(id, ())| id)
    }

    /// Human tasks nobody has decided.
    pub fn open_human_tasks(&self) -> impl ExactSizeIterator<Item = &str> {
        self.open.human_tasks.iter_open().map(|(id, ())| id)
    }

    /// Whether the activity is open; what is wrong otherwise.
    pub(crate) fn check_activity(&self, activity_id: &str) -> Result<(), HistoryProblem> {
        self.open.activities.get_open(activity_id).map(|_| ())
    }

    /// Whether the timer is open; what is wrong otherwise.
    pub(crate) fn check_timer(&self, timer_id: &str) -> Result<(), HistoryProblem> {
        self.open.timers.get_open(timer_id).copied()
    }

    /// The run that an open child was started as; what is wrong otherwise.
    pub(crate) fn open_child(&self, child_id: &str) -> Result<Uuid, HistoryProblem> {
        self.open.children.get_open(child_id).copied()
    }

    /// Whether the run was asked to finish what is in flight and then stop.
    #[must_use]
    pub const fn is_shutting_down(&self) -> bool {
        self.stopping.is_shutting_down()
    }

    /// Whether the activity was asked for and has not ended.
    #[must_use]
    pub fn has_pending_activity(&self, activity_id: &str) -> bool {
        self.open.activities.is_open(activity_id)
    }

    /// Whether the timer was started and has neither fired nor been cancelled.
    #[must_use]
    pub fn has_pending_timer(&self, timer_id: &str) -> bool {
        self.open.timers.is_open(timer_id)
    }

    /// Whether the child was started as this run and has not ended.
    #[must_use]
    pub fn has_pending_child(&self, child_id: &str, run_id: Uuid) -> bool {
        self.open.children.get_open(child_id) == Ok(&run_id)
    }
}
