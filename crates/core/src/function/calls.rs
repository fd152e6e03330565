//! Calls: futures that ask for an action when they are first polled, and answer when its fact has come.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::state::{OpenKind, Place, Shared};
use crate::action::WorkflowAction;
use crate::failure::WorkflowError;
use crate::local::LocalCall;
use crate::payload::Payload;

/// What a call comes to.
pub type Outcome = Result<Payload, WorkflowError>;

/// A call that has its position and has not been asked for.
///
/// Dropped like this, it leaves no trace but the position.
pub struct Ticket {
    shared: Arc<Shared>,
    position: u64,
    place: Place,
}

impl Ticket {
    pub(super) const fn new(shared: Arc<Shared>, position: u64, place: Place) -> Self {
        Self {
            shared,
            position,
            place,
        }
    }

    /// The id of what is asked for: the call's position.
    #[must_use]
    pub fn id(&self) -> String {
        self.position.to_string()
    }

    /// Makes the call. The action's id must be [`Ticket::id`].
    pub fn ask(self, action: WorkflowAction) -> Call {
        Call {
            stage: Stage::Fresh(Asked::Action(Box::new(action))),
            ticket: self,
        }
    }

    /// Makes the call of a local activity.
    pub fn ask_local(self, call: LocalCall) -> Call {
        Call {
            stage: Stage::Fresh(Asked::Local(Box::new(call))),
            ticket: self,
        }
    }

    /// Asks for something that has no answer.
    pub fn tell(self, action: WorkflowAction) {
        let mut state = self.shared.state();
        state.request(self.position, action, self.place);
    }
}

/// A call: asked for at its first poll, given up when it is dropped before its outcome was fetched.
#[must_use = "a call does nothing unless it is awaited"]
pub struct Call {
    ticket: Ticket,
    stage: Stage,
}

enum Stage {
    Fresh(Asked),
    Waiting,
    Over,
}

enum Asked {
    Action(Box<WorkflowAction>),
    Local(Box<LocalCall>),
}

impl Asked {
    fn kind(&self) -> OpenKind {
        match self {
            Self::Local(_) => OpenKind::Local,
            Self::Action(action) => match &**action {
                WorkflowAction::StartTimer { .. } => OpenKind::Timer,
                WorkflowAction::ScheduleChildWorkflow { .. } => OpenKind::Child(Default::default()),
                WorkflowAction::StartChildWorkflow { options, .. } => {
                    OpenKind::Child(options.close_policy)
                }
                WorkflowAction::OpenHumanTask { .. } => OpenKind::HumanTask,
                _ => OpenKind::Activity,
            },
        }
    }
}

impl Future for Call {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        let Ticket {
            shared,
            position,
            place,
        } = &this.ticket;
        let mut state = shared.state();
        match std::mem::replace(&mut this.stage, Stage::Waiting) {
            Stage::Fresh(asked) => {
                state.open(*position, asked.kind(), place, cx.waker().clone());
                match asked {
                    Asked::Action(action) => state.request(*position, *action, place),
                    Asked::Local(call) => state.want_local(*call),
                }
                Poll::Pending
            }
            Stage::Waiting => {
                let polled = state.poll_open(*position, cx.waker());
                if polled.is_ready() {
                    this.stage = Stage::Over;
                }
                polled
            }
            Stage::Over => panic!("a call of a workflow was polled after it had answered"),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Waiting) {
            self.ticket.shared.state().give_up(self.ticket.position);
        }
    }
}
