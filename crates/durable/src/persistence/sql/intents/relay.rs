//! Messages between runs.

use std::collections::BTreeSet;

use durable_core::{
    Failure, Payload, Timestamp, WorkflowError, WorkflowEvent, error_types, signal_types,
};
use uuid::Uuid;

use super::starts::load_for;
use crate::persistence::StoreResult;
use crate::persistence::model::{
    ClosePolicy, Message, MessageRecord, NewSignal, ParentLink, SendOutcome, StartOutcome,
    StartRun, WorkflowStatus,
};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::end::terminated;
use crate::persistence::sql::rules::start::restored_start;
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Tx};
use crate::persistence::{Bug, planted};

/// Delivers messages that one shard's runs have sent.
#[derive(Debug)]
pub(crate) struct RelayShard {
    pub(crate) shard: i32,
    pub(crate) max: usize,
    pub(crate) now: Option<Timestamp>,
}

/// What one shard's messages did.
#[derive(Debug, Default)]
pub(crate) struct RelayedShard {
    pub(crate) delivered: usize,
    pub(crate) dropped: usize,
    /// Runs that were started or given a fact.
    pub(crate) told: BTreeSet<Uuid>,
    /// Runs that are over by the end of it.
    pub(crate) ended: BTreeSet<Uuid>,
}

impl Intent for RelayShard {
    type Answer = RelayedShard;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let messages = tx.pick_messages(self.shard, self.max).await?;
        if messages.is_empty() {
            return Ok((
                RelayedShard::default(),
                Changes {
                    now: tx.now().await?,
                    ..Changes::default()
                },
            ));
        }
        let starts: Vec<StartRun> = messages.iter().filter_map(child_start).collect();
        let mut children = Vec::with_capacity(messages.len());
        for message in &messages {
            children.push(match message.message {
                Message::CloseChildren => tx.open_children(message.sender).await?,
                _ => Vec::new(),
            });
        }
        let receivers = receivers(&messages, &children);
        let mut work = load_for(starts.iter(), Load::default(), receivers, tx).await?;
        let mut relayed = RelayedShard::default();
        for (message, children) in messages.iter().zip(&children) {
            let children = started_before(message, &messages, children);
            work.relay(message, &children, &mut relayed);
        }
        let over = work
            .loaded
            .runs
            .values()
            .filter(|run| run.status.is_terminal());
        relayed.ended = over.map(|run| run.id).collect();
        Ok((relayed, work.finish()))
    }
}

fn child_start(message: &MessageRecord) -> Option<StartRun> {
    match &message.message {
        Message::StartChild { start, .. } => Some(restored_start(start)),
        _ => None,
    }
}

/// Children of a sender that ends: those stored, and those that this very pass starts.
fn started_before(
    message: &MessageRecord,
    all: &[MessageRecord],
    stored: &[Uuid],
) -> BTreeSet<Uuid> {
    let own = all.iter().filter(|m| m.sender == message.sender);
    let starting = own.filter_map(|m| match &m.message {
        Message::StartChild { start, .. } => Some(start.run_id),
        _ => None,
    });
    stored.iter().copied().chain(starting).collect()
}

fn receivers(messages: &[MessageRecord], children: &[Vec<Uuid>]) -> Load {
    let mut load = Load::default();
    for (message, children) in messages.iter().zip(children) {
        match &message.message {
            Message::StartChild { .. } => load.runs.push(message.sender),
            Message::ChildFinished { parent, .. } => load.runs.push(*parent),
            Message::Signal { run_id, signal } => {
                load.runs.push(*run_id);
                load.signals.push((*run_id, signal.signal_id));
            }
            Message::CloseChildren => {
                load.runs.extend(children);
                load.facts_of.extend(children);
                load.signals
                    .extend(children.iter().map(|child| (*child, message.sender)));
            }
        }
    }
    load
}

impl Work {
    fn relay(
        &mut self,
        message: &MessageRecord,
        children: &BTreeSet<Uuid>,
        relayed: &mut RelayedShard,
    ) {
        let key = (message.sender, message.sequence_num, message.idx);
        let starts_child = matches!(message.message, Message::StartChild { .. });
        if !(starts_child && planted(Bug::ChildStartNotIdempotent)) {
            self.changes.delete_messages.push(key);
        }
        let told = match &message.message {
            Message::StartChild {
                start,
                close_policy,
                child_id,
                epoch,
                iteration,
            } => {
                let link = ParentLink {
                    run_id: message.sender,
                    child_id: child_id.clone(),
                    epoch: *epoch,
                    iteration: *iteration,
                    close_policy: *close_policy,
                };
                self.start_child(&restored_start(start), link)
            }
            Message::ChildFinished { .. } => self.child_finished(message),
            Message::Signal { run_id, signal } => match self.send_signal(*run_id, signal) {
                SendOutcome::Accepted { .. } => Some(*run_id),
                _ => None,
            },
            Message::CloseChildren => {
                relayed.delivered += 1;
                children
                    .iter()
                    .for_each(|child| self.close_child(message.sender, *child, relayed));
                return;
            }
        };
        match told {
            Some(run_id) => {
                relayed.delivered += 1;
                relayed.told.insert(run_id);
            }
            None => relayed.dropped += 1,
        }
    }

    /// Starts a child, or tells its parent that it cannot be; answers who was told.
    fn start_child(&mut self, start: &StartRun, link: ParentLink) -> Option<Uuid> {
        if self.run(start.run_id).is_some() {
            if planted(Bug::ChildStartNotIdempotent) {
                let twin = Uuid::from_u128(start.run_id.as_u128() ^ 1);
                self.start(
                    &StartRun {
                        run_id: twin,
                        ..start.clone()
                    },
                    Some(link),
                );
            }
            return None;
        }
        let (parent, child_id) = (link.run_id, link.child_id.clone());
        match self.start(start, Some(link)) {
            StartOutcome::Started { run_id } => Some(run_id),
            StartOutcome::Existing { .. } => None,
            StartOutcome::Rejected(crate::persistence::model::StartRejection::Deleted {
                ..
            }) => None,
            StartOutcome::Rejected(why) => {
                let open = self
                    .run(parent)
                    .is_some_and(|run| !run.status.is_terminal());
                if !open {
                    return None;
                }
                let error = Failure::new(error_types::CHILD_WORKFLOW_FAILED, why.to_string());
                let event = WorkflowEvent::ChildWorkflowFailed {
                    workflow_id: start.run_id,
                    child_id,
                    error: WorkflowError::from(error.non_retryable()),
                };
                self.deliver(parent, event);
                Some(parent)
            }
        }
    }

    fn child_finished(&mut self, message: &MessageRecord) -> Option<Uuid> {
        let Message::ChildFinished {
            parent,
            child_id,
            iteration,
            status,
            result,
            error,
            ..
        } = &message.message
        else {
            return None;
        };
        let run = self.run(*parent)?;
        if run.status.is_terminal() || run.iteration != *iteration {
            return None;
        }
        let (workflow_id, child_id) = (message.sender, child_id.clone());
        let event = if *status == WorkflowStatus::Completed {
            WorkflowEvent::ChildWorkflowCompleted {
                workflow_id,
                child_id,
                result: result.clone(),
            }
        } else {
            let cancelled =
                || Failure::new(error_types::CANCELLED, "the child was cancelled").non_retryable();
            let error = WorkflowError::from(error.clone().unwrap_or_else(cancelled));
            WorkflowEvent::ChildWorkflowFailed {
                workflow_id,
                child_id,
                error,
            }
        };
        self.deliver(*parent, event);
        Some(*parent)
    }

    fn close_child(&mut self, parent: Uuid, child: Uuid, relayed: &mut RelayedShard) {
        let Some(run) = self.run(child) else { return };
        let policy = run
            .parent
            .as_ref()
            .filter(|link| link.run_id == parent)
            .map(|l| l.close_policy);
        if run.status.is_terminal() {
            return;
        }
        match policy {
            Some(ClosePolicy::Cancel) => {
                let signal = NewSignal {
                    signal_id: parent,
                    signal_type: signal_types::CANCEL.into(),
                    payload: Payload::null(),
                };
                if !self.loaded.signals.contains_key(&(child, parent)) {
                    self.deliver_signal(child, &signal);
                    relayed.told.insert(child);
                }
            }
            Some(ClosePolicy::Terminate) => {
                self.end_by_store(child, terminated("the parent ended"));
            }
            Some(ClosePolicy::Abandon) | None => {}
        }
    }
}
