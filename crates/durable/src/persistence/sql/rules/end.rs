//! A run ends: by a turn, or by the store itself.

use durable_core::{Failure, Payload, WorkflowError, WorkflowEvent, error_types};
use uuid::Uuid;

use super::totals::outcome_of;
use super::work::Work;
use crate::persistence::model::{Message, MessageRecord, RollupKind, WorkflowStatus};
use crate::persistence::sql::rows::{EventRow, KeepUnread};

/// How a run ends.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) status: WorkflowStatus,
    pub(crate) result: Payload,
    pub(crate) error: Option<Failure>,
}

impl Ending {
    pub(crate) fn failed(error: Failure) -> Self {
        Self {
            status: WorkflowStatus::Failed,
            result: Payload::ABSENT,
            error: Some(error),
        }
    }
}

/// The error of a run that was terminated.
pub(crate) fn terminated(reason: &str) -> Failure {
    Failure::new(error_types::WORKFLOW_TERMINATED, reason).non_retryable()
}

impl Work {
    /// Ends a run without a turn of its own: signals that wait are kept in its history as unread, then comes the terminal event.
    /// The number of its waiting signals must have been loaded (`Load::unread_of`).
    pub(crate) fn end_by_store(&mut self, run_id: Uuid, error: Failure) {
        self.keep_rest_unread(run_id);
        let failed = WorkflowEvent::WorkflowFailed {
            error: WorkflowError::from(error.clone()),
        };
        self.append_events(run_id, &[failed]);
        let arrivals = self.run_mut(run_id).arrivals;
        self.consume(run_id, arrivals);
        self.drop_tasks_and_timers(run_id);
        self.close(run_id, Ending::failed(error), 0);
        let now = self.now;
        let run = self.run_mut(run_id);
        run.updated_at = now;
        run.started_at.get_or_insert(now);
        run.blocked = None;
    }

    /// Bytes of the signals that wait for a run and become unread events when it ends.
    pub(crate) fn unread_bytes(&self, run_id: Uuid) -> u64 {
        let slices = self.loaded.unread.get(&run_id).into_iter().flatten();
        let bytes: i64 = slices.map(|slice| slice.bytes).sum();
        u64::try_from(bytes).unwrap_or(0)
    }

    /// Appends the signals that wait as unread events: those in the database stay there, and those
    /// of this very call follow them.
    pub(crate) fn keep_rest_unread(&mut self, run_id: Uuid) {
        for slice in self.loaded.unread.remove(&run_id).unwrap_or_default() {
            let run = self.run_mut(run_id);
            let sequence = run.sequence;
            run.sequence += slice.signals;
            self.changes.keep_unread.push(KeepUnread {
                run_id,
                slice,
                sequence,
            });
        }
        let of_call = self.facts.range((run_id, i64::MIN)..=(run_id, i64::MAX));
        let signals = of_call.filter_map(|(_, fact)| match &fact.event {
            WorkflowEvent::SignalReceived { signal, .. } => Some(WorkflowEvent::SignalReceived {
                signal: signal.clone(),
                unread: true,
            }),
            _ => None,
        });
        let signals: Vec<_> = signals.collect();
        self.append_events(run_id, &signals);
    }

    /// Appends events after the run's last one.
    pub(crate) fn append_events(&mut self, run_id: Uuid, events: &[WorkflowEvent]) {
        let mut sequence_num = self.run_mut(run_id).sequence;
        for event in events {
            sequence_num += 1;
            self.changes.insert_events.push(EventRow {
                run_id,
                sequence_num,
                event: event.encode(),
            });
        }
        self.run_mut(run_id).sequence = sequence_num;
    }

    /// Takes every fact up to this one out of the inbox.
    pub(crate) fn consume(&mut self, run_id: Uuid, through: i64) {
        let run = self.run_mut(run_id);
        if through > run.consumed {
            run.consumed = through;
            self.changes.consume_facts.push((run_id, through));
        }
        // Facts and signals that arrived in this very call are not in the database yet.
        let now = self.now;
        let taken = self.facts.range((run_id, i64::MIN)..=(run_id, through));
        let taken: Vec<_> = taken.map(|(key, _)| *key).collect();
        taken.iter().for_each(|key| drop(self.facts.remove(key)));
        let of_run = (run_id, Uuid::nil())..=(run_id, Uuid::max());
        for (_, signal) in self.signals.range_mut(of_run) {
            if signal.arrival <= through {
                signal.processed_at.get_or_insert(now);
            }
        }
    }

    /// All tasks and timers of the run leave.
    pub(crate) fn drop_tasks_and_timers(&mut self, run_id: Uuid) {
        let run = self.run_mut(run_id);
        let had_tasks = run.task_count > 0;
        run.task_count = 0;
        run.line_count = 0;
        if had_tasks {
            self.changes.delete_tasks_of.push(run_id);
        }
        self.changes.delete_timers_of.push(run_id);
        self.lines.remove(&run_id);
        let of_run = (run_id, Uuid::nil())..=(run_id, Uuid::max());
        let changed: Vec<_> = self.tasks.range(of_run).map(|(key, _)| *key).collect();
        changed.iter().for_each(|key| drop(self.tasks.remove(key)));
        self.changes
            .insert_timers
            .retain(|timer| timer.run_id != run_id);
    }

    /// What every end has in common: news for parent and children, open updates fail, totals, the run's own row.
    /// `messages` is the number of messages that this commit has written for the run already.
    pub(crate) fn close(&mut self, run_id: Uuid, ending: Ending, messages: i32) -> i32 {
        let now = self.now;
        let run = self.run_mut(run_id);
        run.status = ending.status;
        run.completed_at = Some(now);
        run.owner = None;
        run.ready_at = None;
        let (parent, has_children) = (run.parent.clone(), run.has_children);
        let (name, created_at) = (run.workflow_type.clone(), run.created_at);
        let mut idx = messages;
        if let Some(parent) = parent {
            let news = Message::ChildFinished {
                parent: parent.run_id,
                child_id: parent.child_id,
                epoch: parent.epoch,
                iteration: parent.iteration,
                status: ending.status,
                result: ending.result.clone(),
                error: ending.error.clone(),
            };
            idx = self.send_message(run_id, idx, news);
        }
        if has_children {
            idx = self.send_message(run_id, idx, Message::CloseChildren);
        }
        self.fail_open_updates(run_id);
        self.count(
            RollupKind::Workflow,
            &name,
            outcome_of(ending.status),
            Some(created_at),
            0,
        );
        self.set_outcome(run_id, ending.result, ending.error);
        idx
    }

    /// Writes a message of the run; answers the next index.
    pub(crate) fn send_message(&mut self, sender: Uuid, idx: i32, message: Message) -> i32 {
        let sequence_num = self.run_mut(sender).sequence;
        self.changes.insert_messages.push(MessageRecord {
            sender,
            sequence_num,
            idx,
            message,
        });
        idx + 1
    }

    fn fail_open_updates(&mut self, run_id: Uuid) {
        let failure =
            Failure::new(error_types::UPDATE_FAILED, "the run ended first").non_retryable();
        let now = self.now;
        for update in self
            .changes
            .insert_updates
            .iter_mut()
            .filter(|u| u.run_id == run_id)
        {
            if update.state == crate::persistence::model::UpdateState::Pending {
                update.state = crate::persistence::model::UpdateState::Failed(failure.clone());
                update.completed_at = Some(now);
            }
        }
        self.changes.fail_open_updates.push((run_id, failure));
    }
}
