//! Messages between runs.

use std::collections::BTreeSet;

use durable_core::{
    Failure, Payload, Timestamp, WorkflowError, WorkflowEvent, error_types, signal_types,
};
use uuid::Uuid;

use super::starts::load_for;
use crate::persistence::StoreResult;
use crate::persistence::limits::{CHORE_BYTES_MAX, CLOSED_CHILDREN_MAX};
use crate::persistence::model::{
    ClosePolicy, Message, MessageRecord, NewSignal, ParentLink, SendOutcome, StartOutcome,
    StartRun, WorkflowStatus,
};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::end::terminated;
use crate::persistence::sql::rules::start::{restored_start, runs_of};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Patience, Tx};
use crate::persistence::{Bug, planted};

/// Delivers messages that one shard's runs have sent, but for those of some senders.
#[derive(Debug, Clone)]
pub(crate) struct RelayShard {
    pub(crate) shard: i32,
    pub(crate) max: usize,
    pub(crate) except: Vec<Uuid>,
    pub(crate) now: Option<Timestamp>,
}

/// What one shard's messages did.
#[derive(Debug, Default)]
pub(crate) struct RelayedShard {
    pub(crate) delivered: usize,
    pub(crate) dropped: usize,
    /// How many its list had.
    pub(crate) listed: usize,
    /// Runs that were started or given a fact.
    pub(crate) told: BTreeSet<Uuid>,
    /// Runs that are over by the end of it.
    pub(crate) ended: BTreeSet<Uuid>,
    /// Senders whose messages wait for a run that another transaction has locked.
    pub(crate) busy: BTreeSet<Uuid>,
    /// Whether more messages may be there than were looked at.
    pub(crate) more: bool,
    /// Whether a message stays until more of the sender's children were told.
    pub(crate) partial: bool,
}

impl Intent for RelayShard {
    type Answer = RelayedShard;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    fn patience(&self) -> Patience {
        Patience::None
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let picked = tx.pick_messages(self.shard, self.max, &self.except).await?;
        let (mut messages, mut more) = (picked.messages, picked.full);
        if messages.is_empty() {
            return Ok((
                RelayedShard::default(),
                Changes {
                    now: tx.now().await?,
                    ..Changes::default()
                },
            ));
        }
        let mut children = Vec::with_capacity(messages.len());
        let mut room = CLOSED_CHILDREN_MAX;
        for message in &messages {
            if room == 0 {
                break;
            }
            children.push(match message.message {
                Message::CloseChildren => {
                    let open = tx.open_children(message.sender, room).await?;
                    room -= open.len();
                    open
                }
                _ => Vec::new(),
            });
        }
        // Those behind the last that has room for its children come with the next transaction.
        more |= messages.len() > children.len();
        messages.truncate(children.len());
        // The last one may have more children than there was room for; it stays until all of them
        // were told.
        let is_cut =
            |place: usize, open: usize| room == 0 && place + 1 == children.len() && open > 0;
        let starts: Vec<StartRun> = messages.iter().filter_map(child_start).collect();
        let mut receivers = receivers(&messages, &children);
        receivers.passing = true;
        let mut work = load_for(starts.iter(), Load::default(), receivers, tx).await?;
        let mut relayed = RelayedShard {
            listed: messages.len(),
            more,
            ..RelayedShard::default()
        };
        let mut unread_room = Some(CHORE_BYTES_MAX);
        for (place, (message, children)) in messages.iter().zip(&children).enumerate() {
            if work.must_wait(message) {
                relayed.busy.insert(message.sender);
            }
            // What a run says arrives in the order in which it said it: nothing overtakes what
            // waits.
            if relayed.busy.contains(&message.sender) {
                continue;
            }
            let mut open = started_before(message, &messages, children);
            let waits = open.iter().any(|child| work.loaded.busy.contains(child));
            let heavy = work.put_off_heavy(&mut open, &mut unread_room);
            if waits {
                relayed.busy.insert(message.sender);
            }
            let cut = is_cut(place, children.len()) || heavy;
            let stays = waits || cut;
            relayed.more |= cut;
            relayed.partial |= cut;
            work.relay(message, &open, stays, &mut relayed);
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
                load.unread_of
                    .extend(children.iter().map(|child| (*child, i64::MIN)));
                load.signals
                    .extend(children.iter().map(|child| (*child, message.sender)));
            }
        }
    }
    load
}

impl Work {
    /// Leaves out the children whose unread signals, which move into their histories when they end,
    /// are more bytes than there is room for in the transaction; the first child that is closed in
    /// it has room in any case. Answers whether any was left out.
    fn put_off_heavy(&self, children: &mut BTreeSet<Uuid>, room: &mut Option<u64>) -> bool {
        let before = children.len();
        children.retain(|child| {
            let bytes = self.unread_bytes(*child);
            let is_first = *room == Some(CHORE_BYTES_MAX);
            match room.and_then(|room| room.checked_sub(bytes)) {
                Some(left) => {
                    *room = Some(left);
                    true
                }
                None => std::mem::take(room).is_some() && is_first,
            }
        });
        children.len() < before
    }

    /// Whether a run that the message needs is locked by another transaction.
    fn must_wait(&self, message: &MessageRecord) -> bool {
        let is_busy = |run: &Uuid| self.loaded.busy.contains(run);
        match &message.message {
            Message::StartChild { start, .. } => {
                let mut load = Load::default();
                runs_of(&restored_start(start), self, &mut load);
                is_busy(&message.sender) || load.runs.iter().any(is_busy)
            }
            Message::ChildFinished { parent, .. } => is_busy(parent),
            Message::Signal { run_id, .. } => is_busy(run_id),
            // Its children that are not locked are told.
            Message::CloseChildren => false,
        }
    }

    /// Delivers a message; `stays`: some of the sender's children are still to be told.
    fn relay(
        &mut self,
        message: &MessageRecord,
        children: &BTreeSet<Uuid>,
        stays: bool,
        relayed: &mut RelayedShard,
    ) {
        let key = (message.sender, message.sequence_num, message.idx);
        let starts_child = matches!(message.message, Message::StartChild { .. });
        if !(stays || starts_child && planted(Bug::ChildStartNotIdempotent)) {
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
                relayed.delivered += usize::from(!stays);
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
