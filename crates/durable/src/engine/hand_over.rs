//! Direct hand-over: a new task for which this process has a free slot is inserted already leased to it.
//!
//! No claim, no poll. A run's next activity has the slot of the one that ended with the turn. What finds no slot waits in the queue; so
//! does all of a type while an older backlog of it waits, and, while other processes run the type too, all but this process's share.

use std::collections::HashMap;
use std::sync::Arc;

use durable_core::ProgramState;

use super::node::Node;
use crate::persistence::model::{ClaimedTask, NewTask, PlacedTask, TaskPlace, TurnCommit};
use crate::worker::Slot;

/// Slots held for the tasks of one turn until it is committed.
#[derive(Default)]
pub(super) struct HandOver {
    /// By the task's place in the turn.
    slots: Vec<Option<Held>>,
    /// Tasks were left to other processes.
    shared: bool,
}

/// A slot for a task.
enum Held {
    /// It is held.
    Slot(Slot),
    /// It is the one of an activity that ended with the turn, free when the turn is committed.
    OfEnded,
}

impl HandOver {
    /// Marks the tasks that this process wants, and holds a slot for each: one of the `ended` activities', a spare one, or another.
    pub(super) fn reserve(
        node: &Arc<Node>,
        commit: &mut TurnCommit,
        program: &ProgramState,
        mut ended: usize,
        spare: &mut Vec<Slot>,
    ) -> Self {
        let mut slots = Vec::with_capacity(commit.tasks.len());
        let new_sequential = commit.tasks.iter().filter(|t| t.options.sequential).count();
        // In line behind one that is not finished it cannot be leased; an activity that ends with this very turn is over.
        let mut line_free = new_sequential > 0
            && program.history().pending_activities().len() <= commit.tasks.len();
        let mut shares = shares(node, &commit.tasks);
        let mut shared = false;
        for task in &mut commit.tasks {
            if task.options.sequential && !std::mem::take(&mut line_free) {
                slots.push(None);
                continue;
            }
            let share = shares.get_mut(&task.activity_type);
            if share.as_ref().is_some_and(|left| **left == 0) {
                shared = true;
                slots.push(None);
                continue;
            }
            let may_pass_on = || node.pool.may_pass_on(&task.activity_type, &task.options);
            let held = if ended > 0 && may_pass_on() {
                ended -= 1;
                Some(Held::OfEnded)
            } else {
                let slot = if !spare.is_empty() && may_pass_on() {
                    spare.pop()
                } else {
                    node.pool.reserve(&task.activity_type, &task.options)
                };
                slot.map(|mut slot| {
                    // Counted before the commit, so that the next tasks of the set see it.
                    slot.holds(task.input.len());
                    Held::Slot(slot)
                })
            };
            task.lease = held.is_some();
            if let Some(left) = share.filter(|_| held.is_some()) {
                *left -= 1;
            }
            slots.push(held);
        }
        Self { slots, shared }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Starts those of the turn's tasks that were leased; tells of what waits in the queue. Slots that are not needed become free, those of
    /// the ended activities among them. The store names them in the turn's order.
    pub(super) fn deliver(
        self,
        node: &Arc<Node>,
        tasks: Vec<NewTask>,
        placed: Vec<PlacedTask>,
        mut ended: Vec<Slot>,
    ) {
        let mut waiting = Vec::new();
        let mut placed = placed.into_iter().peekable();
        for (task, held) in tasks.into_iter().zip(self.slots) {
            let slot = match held {
                Some(Held::Slot(slot)) => Some(slot),
                Some(Held::OfEnded) => ended.pop(),
                None => None,
            };
            // Of a repeated commit some may have left the queue since.
            let placed = placed.next_if(|placed| placed.task_id == task.task_id);
            match (placed.map(|placed| placed.place), slot) {
                (
                    Some(TaskPlace::Leased {
                        lease,
                        expires_at,
                        started_at,
                    }),
                    Some(slot),
                ) => {
                    let claimed = ClaimedTask {
                        lease,
                        lease_expires_at: expires_at,
                        activity_id: task.activity_id,
                        activity_type: task.activity_type,
                        input: task.input,
                        options: task.options,
                        deliveries: 1,
                        scheduled_at: started_at,
                        started_at,
                        heartbeat_details: durable_core::Payload::ABSENT,
                        attempts: Vec::new(),
                        trace: task.trace,
                    };
                    node.pool.start(claimed, slot);
                }
                (Some(TaskPlace::Claimable), _) => waiting.push(task.activity_type),
                _ => {}
            }
        }
        if !waiting.is_empty() {
            node.pool.backlog(&waiting);
            let types = waiting.iter().map(String::as_str);
            if self.shared {
                node.hub.claimable_by_others(types);
                node.pool.leave_to_others();
            } else {
                node.hub.claimable(types);
            }
        }
    }
}

/// How many of a turn's new tasks this process takes at once, by type. Only while others can be told of the rest: without a bell they
/// would find it late.
fn shares(node: &Node, tasks: &[NewTask]) -> HashMap<String, usize> {
    let mut shares = HashMap::new();
    if tasks.len() < 2 || !node.hub.bell().is_some_and(|bell| bell.is_connected()) {
        return shares;
    }
    for task in tasks {
        *shares.entry(task.activity_type.clone()).or_default() += 1;
    }
    for (activity_type, count) in &mut shares {
        *count = node.pool.share_of(activity_type, *count);
    }
    shares
}
