//! Facts arrive: signals, updates, and whatever else a run is told.

use durable_core::{AttemptRecord, WorkflowEvent, WorkflowSignal};
use uuid::Uuid;

use super::work::Work;
use crate::persistence::limits::INBOX_FACTS_MAX;
use crate::persistence::model::{
    Fact, LastAttempt, NewSignal, NewUpdate, SendOutcome, SendRejection, SignalRecord,
    UpdateRecord, UpdateState,
};
use crate::persistence::{Bug, planted};

impl Work {
    /// Delivers a fact to a run that has not ended; answers its number.
    pub(crate) fn deliver(&mut self, run_id: Uuid, event: WorkflowEvent) -> i64 {
        self.deliver_end(run_id, event, Vec::new(), None)
    }

    /// Delivers the end of an activity.
    pub(crate) fn deliver_end(
        &mut self,
        run_id: Uuid,
        event: WorkflowEvent,
        attempts: Vec<AttemptRecord>,
        last_attempt: Option<LastAttempt>,
    ) -> i64 {
        let now = self.now;
        let run = self.run_mut(run_id);
        run.arrivals += 1;
        run.ready_at.get_or_insert(now);
        let arrival = run.arrivals;
        let fact = Fact {
            arrival,
            event,
            attempts,
            last_attempt,
            arrived_at: now,
        };
        self.insert_fact(run_id, fact);
        arrival
    }

    /// Sends a signal, or says why not.
    pub(crate) fn send_signal(&mut self, run_id: Uuid, signal: &NewSignal) -> SendOutcome {
        if let Some(known) = self.loaded.signals.get(&(run_id, signal.signal_id))
            && !planted(Bug::SignalNotDeduplicated)
        {
            return SendOutcome::Duplicate {
                arrival: known.arrival,
            };
        }
        if let Err(why) = self.takes_facts(run_id) {
            return SendOutcome::Rejected(why);
        }
        SendOutcome::Accepted {
            arrival: self.deliver_signal(run_id, signal),
        }
    }

    /// Delivers a signal to a run that takes it.
    pub(crate) fn deliver_signal(&mut self, run_id: Uuid, signal: &NewSignal) -> i64 {
        let sent_at = self.now;
        let event = WorkflowEvent::SignalReceived {
            signal: WorkflowSignal {
                signal_id: Some(signal.signal_id),
                signal_type: signal.signal_type.clone(),
                payload: signal.payload.clone(),
                sent_at,
            },
            unread: false,
        };
        let arrival = self.deliver(run_id, event);
        self.put_signal(SignalRecord {
            run_id,
            signal_id: signal.signal_id,
            signal_type: signal.signal_type.clone(),
            payload: signal.payload.clone(),
            arrival,
            sent_at,
            processed_at: None,
        });
        arrival
    }

    /// Sends an update, or says why not.
    pub(crate) fn send_update(&mut self, run_id: Uuid, update: &NewUpdate) -> SendOutcome {
        if let Some(known) = self.loaded.updates.get(&(run_id, update.update_id.clone())) {
            return SendOutcome::Duplicate {
                arrival: known.arrival,
            };
        }
        if let Err(why) = self.takes_facts(run_id) {
            return SendOutcome::Rejected(why);
        }
        SendOutcome::Accepted {
            arrival: self.deliver_update(run_id, update),
        }
    }

    /// Delivers an update to a run that takes it.
    pub(crate) fn deliver_update(&mut self, run_id: Uuid, update: &NewUpdate) -> i64 {
        let event = WorkflowEvent::UpdateAccepted {
            update_id: update.update_id.clone(),
            name: update.name.clone(),
            input: update.input.clone(),
        };
        let arrival = self.deliver(run_id, event);
        self.insert_update(UpdateRecord {
            run_id,
            update_id: update.update_id.clone(),
            name: update.name.clone(),
            input: update.input.clone(),
            arrival,
            state: UpdateState::Pending,
            created_at: self.now,
            completed_at: None,
        });
        arrival
    }

    fn takes_facts(&self, run_id: Uuid) -> Result<(), SendRejection> {
        let run = self.run(run_id).ok_or(SendRejection::NotFound)?;
        if run.status.is_terminal() {
            return Err(SendRejection::RunFinished { status: run.status });
        }
        let waiting = run.arrivals - run.consumed;
        if waiting >= INBOX_FACTS_MAX {
            return Err(SendRejection::InboxFull { waiting });
        }
        Ok(())
    }
}
