//! What runs tell each other: written with a turn, delivered later, each once.

use std::collections::BTreeSet;
use std::mem::take;
use std::time::Duration;

use durable_core::{
    Failure, Payload, Timestamp, WorkflowError, WorkflowEvent, error_types, signal_types,
};
use uuid::Uuid;

use super::state::{RunState, State};
use super::turn::End;
use crate::persistence::model::{
    ClosePolicy, Message, MessageRecord, NewChild, NewSignal, ParentLink, RelayMessages, Relayed,
    SendOutcome, SendSignal, StartOutcome, StartRun, StoredStart, TurnCommit, WorkflowStatus,
};
use crate::persistence::{Bug, planted};

impl State {
    /// Writes a turn's messages: children, signals, then the news of its end. Answers whether there were any.
    pub(super) fn write_messages(
        &mut self,
        turn: &mut TurnCommit,
        sequence_num: i64,
        end: Option<&End>,
    ) -> bool {
        let run_id = turn.run_id;
        if !turn.children.is_empty() {
            self.edit_run(run_id, |run| run.has_children = true);
        }
        let run = self.at(run_id).run();
        let (epoch, iteration) = (run.epoch, run.iteration);
        let children = take(&mut turn.children)
            .into_iter()
            .map(|child| start_child(child, epoch, iteration));
        let signals = take(&mut turn.signals)
            .into_iter()
            .map(|out| Message::Signal {
                run_id: out.run_id,
                signal: out.signal,
            });
        let mut messages: Vec<Message> = children.chain(signals).collect();
        if let Some(end) = end {
            let parent = run.parent.as_ref();
            messages.extend(parent.map(|parent| child_finished(parent, end)));
            messages.extend(run.has_children.then_some(Message::CloseChildren));
        }
        let any = !messages.is_empty();
        for (idx, message) in (0..).zip(messages) {
            self.put_message(MessageRecord {
                sender: run_id,
                sequence_num,
                idx,
                message,
            });
        }
        any
    }

    /// Shard by shard; a shard's list is made when its turn comes.
    pub(super) fn relay_messages(&mut self, relay: &RelayMessages, now: Timestamp) -> Relayed {
        let mut relayed = Relayed::default();
        let mut touched = BTreeSet::new();
        for shard in self.shards.from(relay.first_shard) {
            let listed = self.shard(shard).messages.iter().take(relay.max);
            let listed: Vec<_> = listed.copied().collect();
            for (sender, sequence_num, idx) in listed {
                let Some(message) = self.take_message(sender, (sequence_num, idx)) else {
                    continue;
                };
                if self.relay(sender, message.message, &mut touched, now) {
                    relayed.delivered += 1;
                } else {
                    relayed.dropped += 1;
                }
            }
        }
        relayed.ready_runs = touched
            .into_iter()
            .filter(|id| self.find(*id).is_some_and(|run| !run.has_ended()))
            .collect();
        relayed
    }

    /// Delivers one message; false: it was dropped. Notes the runs that got something.
    fn relay(
        &mut self,
        sender: Uuid,
        message: Message,
        touched: &mut BTreeSet<Uuid>,
        now: Timestamp,
    ) -> bool {
        match message {
            Message::Signal { run_id, signal } => {
                let sent = self.send_signal(SendSignal { run_id, signal }, now);
                let accepted = matches!(sent, SendOutcome::Accepted { .. });
                if accepted {
                    touched.insert(run_id);
                }
                accepted
            }
            Message::CloseChildren => {
                self.close_children(sender, touched, now);
                true
            }
            Message::StartChild {
                start,
                close_policy,
                child_id,
                epoch,
                iteration,
            } => {
                let link = ParentLink {
                    run_id: sender,
                    child_id,
                    epoch,
                    iteration,
                    close_policy,
                };
                self.relay_start(start, link, touched, now)
            }
            Message::ChildFinished {
                parent,
                child_id,
                iteration,
                status,
                result,
                error,
                ..
            } => {
                let listens = self
                    .find(parent)
                    .is_some_and(|run| !run.has_ended() && run.run().iteration == iteration);
                if listens {
                    let event = child_news(sender, child_id, status, result, error);
                    self.deliver(parent, event, now);
                    touched.insert(parent);
                }
                listens
            }
        }
    }

    fn relay_start(
        &mut self,
        start: StoredStart,
        link: ParentLink,
        touched: &mut BTreeSet<Uuid>,
        now: Timestamp,
    ) -> bool {
        let (child, sender, child_id) = (start.run_id, link.run_id, link.child_id.clone());
        if planted(Bug::ChildStartNotIdempotent) {
            self.remove_run(child);
        }
        if self.find(child).is_some() || self.has_tombstone(child) {
            return false;
        }
        let why = match self.start_run(stored_to_start(start), Some(link), now) {
            StartOutcome::Started { run_id } | StartOutcome::Existing { run_id } => {
                touched.insert(run_id);
                return true;
            }
            StartOutcome::Rejected(why) => why,
        };
        if self.find(sender).is_none_or(RunState::has_ended) {
            return false;
        }
        let event = WorkflowEvent::ChildWorkflowFailed {
            workflow_id: child,
            child_id,
            error: WorkflowError::new(error_types::CHILD_WORKFLOW_FAILED, why.to_string()),
        };
        self.deliver(sender, event, now);
        touched.insert(sender);
        true
    }

    /// The parent ended: each child that has not is told what its policy says.
    fn close_children(&mut self, parent: Uuid, touched: &mut BTreeSet<Uuid>, now: Timestamp) {
        for child in self.children_of(parent) {
            let run = self.at(child);
            let link = run.run().parent.as_ref();
            let policy = link.map(|link| link.close_policy);
            match policy {
                _ if run.has_ended() => {}
                Some(ClosePolicy::Cancel) => {
                    let signal = NewSignal {
                        signal_id: parent,
                        signal_type: signal_types::CANCEL.to_owned(),
                        payload: Payload::null(),
                    };
                    if self.deliver_new_signal(child, signal, now) {
                        touched.insert(child);
                    }
                }
                Some(ClosePolicy::Terminate) => self.terminate(child, "the parent ended", now),
                Some(ClosePolicy::Abandon) | None => {}
            }
        }
    }
}

fn start_child(child: NewChild, epoch: u32, iteration: u32) -> Message {
    let millis = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let start = child.start;
    Message::StartChild {
        start: StoredStart {
            run_id: start.run_id,
            workflow_type: start.workflow_type,
            version: start.version,
            input: start.input,
            business_id: start.business_id,
            reuse_policy: start.reuse_policy,
            attributes: start.attributes,
            memo: start.memo,
            execution_timeout_ms: start.execution_timeout.map(millis),
            run_timeout_ms: start.run_timeout.map(millis),
            trace: start.trace,
            sealed_fingerprint: start.sealed_fingerprint,
        },
        close_policy: child.close_policy,
        child_id: child.child_id,
        epoch,
        iteration,
    }
}

fn stored_to_start(stored: StoredStart) -> StartRun {
    StartRun {
        version: stored.version,
        business_id: stored.business_id,
        reuse_policy: stored.reuse_policy,
        attributes: stored.attributes,
        memo: stored.memo,
        execution_timeout: stored.execution_timeout_ms.map(Duration::from_millis),
        run_timeout: stored.run_timeout_ms.map(Duration::from_millis),
        trace: stored.trace,
        sealed_fingerprint: stored.sealed_fingerprint,
        ..StartRun::new(stored.run_id, stored.workflow_type, stored.input)
    }
}

fn child_finished(parent: &ParentLink, end: &End) -> Message {
    Message::ChildFinished {
        parent: parent.run_id,
        child_id: parent.child_id.clone(),
        epoch: parent.epoch,
        iteration: parent.iteration,
        status: end.status,
        result: end.result.clone(),
        error: end.error.clone(),
    }
}

/// A child's end as its parent sees it.
fn child_news(
    workflow_id: Uuid,
    child_id: String,
    status: WorkflowStatus,
    result: Payload,
    error: Option<Failure>,
) -> WorkflowEvent {
    if status == WorkflowStatus::Completed {
        return WorkflowEvent::ChildWorkflowCompleted {
            workflow_id,
            child_id,
            result,
        };
    }
    let cancelled = || WorkflowError::new(error_types::CANCELLED, "the child was cancelled");
    WorkflowEvent::ChildWorkflowFailed {
        workflow_id,
        child_id,
        error: error.map_or_else(cancelled, WorkflowError::from),
    }
}
