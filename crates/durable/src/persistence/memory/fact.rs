//! Facts: delivering them to a run's inbox, signals and updates.

use durable_core::{AttemptRecord, Timestamp, WorkflowEvent, WorkflowSignal};
use uuid::Uuid;

use super::state::{RunState, State};
use crate::persistence::limits::INBOX_FACTS_MAX;
use crate::persistence::model::{
    Fact, LastAttempt, NewSignal, NewUpdate, SendOutcome, SendRejection, SendSignal, SendUpdate,
    SignalRecord, UpdateRecord, UpdateState,
};
use crate::persistence::{Bug, planted};

impl State {
    /// Delivers a fact to a run that has not ended; answers its arrival number.
    pub(super) fn deliver(&mut self, run_id: Uuid, event: WorkflowEvent, now: Timestamp) -> i64 {
        self.deliver_end(run_id, event, Vec::new(), None, now)
    }

    /// Delivers the end of an activity, with what is known of its attempts.
    pub(super) fn deliver_end(
        &mut self,
        run_id: Uuid,
        event: WorkflowEvent,
        attempts: Vec<AttemptRecord>,
        last_attempt: Option<LastAttempt>,
        now: Timestamp,
    ) -> i64 {
        self.delivered += 1;
        self.edit_run(run_id, |run| {
            run.arrivals += 1;
            run.ready_at.get_or_insert(now);
        });
        let run = self.at_mut(run_id);
        let arrival = run.run().arrivals;
        let fact = Fact {
            arrival,
            event,
            attempts,
            last_attempt,
            arrived_at: now,
        };
        run.facts.insert(arrival, fact);
        arrival
    }

    pub(super) fn send_signal(&mut self, send: SendSignal, now: Timestamp) -> SendOutcome {
        match self.may_send(send.run_id, |run| {
            run.signals()
                .get(&send.signal.signal_id)
                .filter(|_| !planted(Bug::SignalNotDeduplicated))
                .map(|signal| signal.arrival)
        }) {
            Err(outcome) => outcome,
            Ok(()) => SendOutcome::Accepted {
                arrival: self.deliver_signal(send.run_id, send.signal, now),
            },
        }
    }

    pub(super) fn send_update(&mut self, send: SendUpdate, now: Timestamp) -> SendOutcome {
        match self.may_send(send.run_id, |run| {
            let update = run.updates.get(&send.update.update_id);
            update.map(|update| update.arrival)
        }) {
            Err(outcome) => outcome,
            Ok(()) => SendOutcome::Accepted {
                arrival: self.deliver_update(send.run_id, send.update, now),
            },
        }
    }

    /// Duplicate first, so that a repeated send is answered alike when the run has ended since.
    fn may_send(
        &self,
        run_id: Uuid,
        earlier: impl FnOnce(&RunState) -> Option<i64>,
    ) -> Result<(), SendOutcome> {
        let refuse = |why| Err(SendOutcome::Rejected(why));
        let Some(run) = self.find(run_id) else {
            return refuse(SendRejection::NotFound);
        };
        if let Some(arrival) = earlier(run) {
            return Err(SendOutcome::Duplicate { arrival });
        }
        let record = run.run();
        let status = record.status;
        if status.is_terminal() {
            return refuse(SendRejection::RunFinished { status });
        }
        let waiting = record.arrivals - record.consumed;
        if waiting >= INBOX_FACTS_MAX {
            return refuse(SendRejection::InboxFull { waiting });
        }
        Ok(())
    }

    /// Delivers those that the run does not have yet, however full its inbox is.
    pub(super) fn deliver_new(
        &mut self,
        run_id: Uuid,
        signals: Vec<NewSignal>,
        updates: Vec<NewUpdate>,
        now: Timestamp,
    ) {
        for signal in signals {
            self.deliver_new_signal(run_id, signal, now);
        }
        for update in updates {
            if !self.at(run_id).updates.contains_key(&update.update_id) {
                self.deliver_update(run_id, update, now);
            }
        }
    }

    /// Delivers a signal unless the run has it, however full its inbox is; answers whether it did.
    pub(super) fn deliver_new_signal(
        &mut self,
        run_id: Uuid,
        signal: NewSignal,
        now: Timestamp,
    ) -> bool {
        let known = self.at(run_id).signals().contains_key(&signal.signal_id);
        let new = !known || planted(Bug::SignalNotDeduplicated);
        if new {
            self.deliver_signal(run_id, signal, now);
        }
        new
    }

    /// Gives a new iteration the signals that the old one took and did not use, in the last of the
    /// numbers that were taken. Each keeps the instant at which it was sent.
    pub(super) fn carry_signals(&mut self, run_id: Uuid, carried: Vec<NewSignal>, now: Timestamp) {
        let last = self.at(run_id).run().consumed;
        let before = last - i64::try_from(carried.len()).unwrap_or(i64::MAX);
        self.edit_run(run_id, |run| run.consumed = before);
        for (arrival, signal) in (before + 1..).zip(carried) {
            let row = self.at(run_id).signals().get(&signal.signal_id);
            let sent_at = row.map_or(now, |row| row.sent_at);
            let fact = Fact {
                arrival,
                event: received(&signal, sent_at),
                attempts: Vec::new(),
                last_attempt: None,
                arrived_at: now,
            };
            let run = self.at_mut(run_id);
            run.facts.insert(arrival, fact);
            run.put_signal(ledger_row(run_id, signal, arrival, sent_at));
        }
    }

    /// What waits of an iteration that is over leaves, but signals and updates are the next
    /// iteration's.
    pub(super) fn keep_only_mail(&mut self, run_id: Uuid) {
        self.at_mut(run_id).facts.retain(|_, fact| {
            matches!(
                fact.event,
                WorkflowEvent::SignalReceived { .. } | WorkflowEvent::UpdateAccepted { .. }
            )
        });
    }

    /// Delivers a signal and writes its row in the ledger.
    fn deliver_signal(&mut self, run_id: Uuid, signal: NewSignal, now: Timestamp) -> i64 {
        let arrival = self.deliver(run_id, received(&signal, now), now);
        let row = ledger_row(run_id, signal, arrival, now);
        self.at_mut(run_id).put_signal(row);
        arrival
    }

    fn deliver_update(&mut self, run_id: Uuid, update: NewUpdate, now: Timestamp) -> i64 {
        let NewUpdate {
            update_id,
            name,
            input,
        } = update;
        let event = WorkflowEvent::UpdateAccepted {
            update_id: update_id.clone(),
            name: name.clone(),
            input: input.clone(),
        };
        let arrival = self.deliver(run_id, event, now);
        let record = UpdateRecord {
            run_id,
            update_id: update_id.clone(),
            name,
            input,
            arrival,
            state: UpdateState::Pending,
            created_at: now,
            completed_at: None,
        };
        self.at_mut(run_id).updates.insert(update_id, record);
        arrival
    }

    /// The facts up to a number leave the inbox; their signals are marked.
    pub(super) fn take_facts(&mut self, run_id: Uuid, through: i64, now: Timestamp) {
        let through = if planted(Bug::FactsTakenUnseen) {
            self.at(run_id).run().arrivals
        } else {
            through
        };
        let run = self.at_mut(run_id);
        run.facts = run.facts.split_off(&(through + 1));
        run.mark_signals(through, now);
        self.edit_run(run_id, |run| run.consumed = through);
    }
}

/// The event of a signal that a program is to see.
fn received(signal: &NewSignal, sent_at: Timestamp) -> WorkflowEvent {
    WorkflowEvent::SignalReceived {
        signal: WorkflowSignal {
            signal_id: Some(signal.signal_id),
            signal_type: signal.signal_type.clone(),
            payload: signal.payload.clone(),
            sent_at,
        },
        unread: false,
    }
}

/// A signal that waits, as the ledger has it.
fn ledger_row(run_id: Uuid, signal: NewSignal, arrival: i64, sent_at: Timestamp) -> SignalRecord {
    SignalRecord {
        run_id,
        signal_id: signal.signal_id,
        signal_type: signal.signal_type,
        payload: signal.payload,
        arrival,
        sent_at,
        processed_at: None,
    }
}
