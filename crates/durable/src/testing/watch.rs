//! What is seen of a world's engines at their store, and done to them there.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::fault::{Call, Fault};
use super::gate::Gate;
use crate::activity::ActivityRegistry;
use crate::persistence::model::{BlockRun, TurnCommit};
use crate::workflow::WorkflowRegistry;

/// Shared by all stores of one world.
pub(super) struct Watch {
    pub(super) gate: Gate,
    /// Rings after every call of an engine, at its death and when there is trouble.
    pub(super) progress: Notify,
    workflows: WorkflowRegistry,
    activities: ActivityRegistry,
    trouble: Mutex<Option<String>>,
    plan: Option<Fault>,
    /// Whether the fault has happened: it does so once.
    happened: AtomicBool,
    /// Calls of engines so far.
    calls: Mutex<Vec<Call>>,
}

/// When a fault of a call shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    CrashBefore,
    CrashAfter,
    FailBefore,
    FailAfter,
}

impl Watch {
    pub(super) fn new(
        gate: Gate,
        workflows: WorkflowRegistry,
        activities: ActivityRegistry,
        plan: Option<Fault>,
    ) -> Self {
        Self {
            gate,
            progress: Notify::new(),
            workflows,
            activities,
            trouble: Mutex::default(),
            plan,
            happened: AtomicBool::new(false),
            calls: Mutex::default(),
        }
    }

    /// Why no test can go on here, if so.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// The first trouble is the one that is told.
    pub(super) fn has_trouble(&self, what: impl FnOnce() -> String) {
        self.trouble.lock().get_or_insert_with(what);
        self.progress.notify_waiters();
    }

    /// Calls of engines so far.
    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    /// At which step the first engine dies, if that is the plan.
    pub(super) fn last_step(&self) -> Option<u64> {
        match self.plan {
            Some(Fault::CrashAtStep(step)) if !self.happened.swap(true, Ordering::Relaxed) => {
                Some(step)
            }
            _ => None,
        }
    }

    /// What becomes of an engine's next call; it has taken so many steps.
    pub(super) fn fate(&self, method: &'static str, steps: u64) -> Fate {
        let number = {
            let mut calls = self.calls.lock();
            calls.push(Call { method, steps });
            calls.len() - 1
        };
        let Some(plan) = self.plan else {
            return Fate::Works;
        };
        let (at, fate) = match plan {
            Fault::CrashBefore(at) => (at, Fate::CrashBefore),
            Fault::CrashAfter(at) => (at, Fate::CrashAfter),
            Fault::FailBefore(at) => (at, Fate::FailBefore),
            Fault::FailAfter(at) => (at, Fate::FailAfter),
            Fault::CrashAtStep(_) => return Fate::Works,
        };
        if number == at && !self.happened.swap(true, Ordering::Relaxed) {
            fate
        } else {
            Fate::Works
        }
    }

    /// Looks for what nobody here can do: in production another process may, in a test it would hang.
    pub(super) fn look_at_turns(&self, turns: &[TurnCommit]) {
        for turn in turns {
            let mut tasks = turn.tasks.iter();
            if let Some(task) = tasks.find(|task| !self.activities.contains(&task.activity_type)) {
                let name = &task.activity_type;
                self.has_trouble(|| {
                    format!(
                        "the workflow asks for activity {name:?}, which is neither mocked nor registered here: \
                         add `.mock::<{name}>(|input| Ok(…))` or `.activity({name})`"
                    )
                });
            }
            let mut children = turn.children.iter().map(|child| &child.start);
            let workflows = &self.workflows;
            if let Some(child) =
                children.find(|child| !workflows.hosts(&child.workflow_type, &child.version))
            {
                let name = &child.workflow_type;
                self.has_trouble(|| {
                    format!(
                        "the workflow starts a child {name:?}, which is not registered here: add `.workflow::<{name}>()`"
                    )
                });
            }
        }
    }

    /// A blocked run waits for another build; in a test there is none.
    pub(super) fn look_at_blocks(&self, blocks: &[BlockRun]) {
        if let Some(block) = blocks.first() {
            self.has_trouble(|| format!("run {} is blocked: {}", block.run_id, block.reason));
        }
    }
}
