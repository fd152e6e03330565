//! The adapter for an `async fn`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use super::context::{Birth, Context};
use super::handlers::UpdateFuture;
use super::state::Shared;
use super::waker::{ForeignBell, StepWaker};
use crate::action::WorkflowAction;
use crate::event::WorkflowEvent;
use crate::fact::Fact;
use crate::failure::{Failure, WorkflowError, error_types};
use crate::local::LocalCall;
use crate::payload::{Payload, PayloadError};
use crate::program::{Program, ProgramError, QueryError, Recorded};
use crate::request::Request;
use crate::signal::{WorkflowSignal, signal_types};

/// Most polls in one step: a workflow that wakes itself that often gets nowhere.
const POLLS_MAX: u32 = 1_000_000;

/// How a workflow's future ends.
#[derive(Debug)]
pub enum Ending {
    /// With a result.
    Completed(Payload),
    /// With an error.
    Failed(WorkflowError),
    /// With a result that has no JSON form.
    Unreadable(PayloadError),
}

type RunFuture = Pin<Box<dyn Future<Output = Ending> + Send>>;

/// The code of a workflow: given its context and its input, its future.
pub type Body = Box<dyn FnOnce(Context, &Payload) -> Result<RunFuture, PayloadError> + Send>;

/// A workflow written as an `async fn`, as a [`Program`].
pub struct FunctionProgram {
    shared: Arc<Shared>,
    waker: Arc<StepWaker>,
    body: Option<Body>,
    /// None before the run begins and after it has ended.
    future: Option<RunFuture>,
    updates: Vec<(String, UpdateFuture)>,
}

impl FunctionProgram {
    /// A run that has not begun.
    #[must_use]
    pub fn new(birth: Birth, body: Body) -> Self {
        Self {
            shared: Shared::new(birth),
            waker: Arc::default(),
            body: Some(body),
            future: None,
            updates: Vec::new(),
        }
    }

    fn begin(&mut self, input: &Payload) -> Result<(), ProgramError> {
        let Some(body) = self.body.take() else {
            return Err(self.out_of_order());
        };
        let context = Context {
            shared: Arc::clone(&self.shared),
        };
        let future = body(context, input).map_err(|source| ProgramError::Input {
            workflow_type: self.workflow_type().to_owned(),
            source,
        })?;
        self.future = Some(future);
        Ok(())
    }

    fn out_of_order(&self) -> ProgramError {
        ProgramError::OutOfOrder {
            workflow_type: self.workflow_type().to_owned(),
        }
    }

    /// Lets the fact reach whatever waits for it.
    fn tell(&mut self, fact: &Fact, answers: &mut Vec<WorkflowAction>) -> Result<(), ProgramError> {
        match fact {
            Fact::Started { input } => return self.begin(input),
            _ if self.body.is_some() => return Err(self.out_of_order()),
            Fact::ActivityCompleted {
                activity_id,
                result,
            }
            | Fact::LocalActivityCompleted {
                activity_id,
                result,
                ..
            } => self.shared.state().resolve(activity_id, Ok(result.clone())),
            Fact::ActivityFailed { activity_id, error }
            | Fact::LocalActivityFailed {
                activity_id, error, ..
            } => self.activity_failed(activity_id, error.clone()),
            Fact::ActivityTimedOut {
                activity_id,
                timeout_type,
            } => self.activity_failed(activity_id, timeout_type.failure()),
            Fact::TimerFired { timer_id } => {
                self.shared.state().resolve(timer_id, Ok(Payload::null()));
            }
            Fact::ChildCompleted {
                child_id, result, ..
            } => self.shared.state().resolve(child_id, Ok(result.clone())),
            Fact::ChildFailed {
                child_id, error, ..
            } => {
                let failed = wrapped(
                    error_types::CHILD_WORKFLOW_FAILED,
                    "a child workflow",
                    error.clone().into_failure(),
                );
                self.shared.state().resolve(child_id, Err(failed));
            }
            Fact::SignalReceived { signal } => self.signal(signal),
            Fact::UpdateAccepted {
                update_id,
                name,
                input,
            } => answers.extend(self.update(update_id, name, input)),
            Fact::HumanTaskDecided {
                task_id,
                decision,
                actor,
                answer,
            } => self.decided(task_id, decision, actor, answer),
            Fact::CancelRequested { reason } => self.shared.state().cancel(reason),
        }
        Ok(())
    }

    fn activity_failed(&self, activity_id: &str, failure: Failure) {
        let failed = wrapped(error_types::ACTIVITY_FAILED, "an activity", failure);
        self.shared.state().resolve(activity_id, Err(failed));
    }

    fn signal(&self, signal: &WorkflowSignal) {
        match signal.signal_type.as_str() {
            signal_types::CANCEL => {
                let reason = crate::history::cancel_reason(&signal.payload);
                self.shared.state().cancel(&reason);
            }
            signal_types::SHUTDOWN => self.shared.state().shutting_down = true,
            name => {
                let handler = self.shared.state().handlers.signals.get(name).cloned();
                if !handler.is_some_and(|handler| handler(&signal.payload)) {
                    self.shared.state().mail.arrive(signal.clone());
                }
            }
        }
    }

    /// Begins to handle an update; its answer, if it has one at once.
    fn update(&mut self, update_id: &str, name: &str, input: &Payload) -> Option<WorkflowAction> {
        let handler = self.shared.state().handlers.updates.get(name).cloned();
        match handler {
            Some(handler) => {
                let future = (handler.run)(input.clone());
                self.updates.push((update_id.to_owned(), future));
                None
            }
            None => Some(WorkflowAction::FailUpdate {
                update_id: update_id.to_owned(),
                error: self.no_update(name),
            }),
        }
    }

    fn no_update(&self, name: &str) -> Failure {
        let known: Vec<String> = {
            let state = self.shared.state();
            state.handlers.updates.keys().cloned().collect()
        };
        let message = format!(
            "workflow {} has no update {name:?}; it has {known:?}",
            self.workflow_type()
        );
        Failure::new(error_types::UPDATE_FAILED, message).non_retryable()
    }

    fn decided(&self, task_id: &str, decision: &str, actor: &str, answer: &Payload) {
        let answer: serde_json::Value = answer.to_value().unwrap_or_default();
        let decided = serde_json::json!({"decision": decision, "actor": actor, "answer": answer});
        let outcome = Payload::from_value(&decided).unwrap_or_else(|_| Payload::null());
        self.shared.state().resolve(task_id, Ok(outcome));
    }

    /// Polls until nothing wakes any more; how the workflow ended, if it did.
    fn run(&mut self, answers: &mut Vec<WorkflowAction>) -> Result<Option<Ending>, ProgramError> {
        let waker = Waker::from(Arc::clone(&self.waker));
        let mut cx = TaskContext::from_waker(&waker);
        for _ in 0..POLLS_MAX {
            self.waker.take_woken();
            if let Some(future) = &mut self.future
                && let Poll::Ready(ending) = future.as_mut().poll(&mut cx)
            {
                self.future = None;
                // An update that ends the run is answered all the same, if its handler has the answer now.
                self.poll_updates(&mut cx, answers);
                // What came from outside may have led here; a replay would not come the same way.
                return self.untouched().map(|()| Some(ending));
            }
            self.poll_updates(&mut cx, answers);
            if self.waker.take_woken() {
                continue;
            }
            if !self.wake_conditions() {
                return self.at_rest().map(|()| None);
            }
        }
        Err(ProgramError::Restless {
            workflow_type: self.workflow_type().to_owned(),
            polls: POLLS_MAX,
        })
    }

    fn poll_updates(&mut self, cx: &mut TaskContext<'_>, answers: &mut Vec<WorkflowAction>) {
        let mut index = 0;
        while let Some((_, future)) = self.updates.get_mut(index) {
            let Poll::Ready(result) = future.as_mut().poll(cx) else {
                index += 1;
                continue;
            };
            let (update_id, _) = self.updates.remove(index);
            answers.push(match result {
                Ok(result) => WorkflowAction::CompleteUpdate { update_id, result },
                Err(error) => WorkflowAction::FailUpdate { update_id, error },
            });
        }
    }

    /// Whether a condition holds now that did not before.
    fn wake_conditions(&self) -> bool {
        let conditions = self.shared.state().conditions.to_look_at();
        let mut any = false;
        for (key, holds) in conditions {
            if holds() {
                self.shared.state().conditions.wake(key);
                any = true;
            }
        }
        any
    }

    /// A workflow at rest waits for facts, and for nothing else.
    fn at_rest(&self) -> Result<(), ProgramError> {
        if self.future.is_some() && !self.shared.state().waits() {
            return Err(self.foreign());
        }
        self.untouched()
    }

    /// Nothing outside has woken the workflow so far.
    fn untouched(&self) -> Result<(), ProgramError> {
        if self.waker.is_foreign() {
            return Err(self.foreign());
        }
        Ok(())
    }

    fn foreign(&self) -> ProgramError {
        let place = self.shared.state().waits_at();
        let place =
            place.map(|place| format!(" (its last call to the context was made at {place})"));
        ProgramError::Foreign {
            workflow_type: self.workflow_type().to_owned(),
            place: place.unwrap_or_default(),
        }
    }

    fn end(
        &mut self,
        ending: Ending,
        actions: &mut Vec<WorkflowAction>,
    ) -> Result<(), ProgramError> {
        for (update_id, _) in self.updates.drain(..) {
            let message = "the run ended before it answered the update";
            let error = Failure::new(error_types::UPDATE_FAILED, message).non_retryable();
            actions.push(WorkflowAction::FailUpdate { update_id, error });
        }
        let mut state = self.shared.state();
        let continue_with = state.continue_with.take();
        let cancelled = state.cancel_reason().map(str::to_owned);
        drop(state);
        actions.push(match ending {
            Ending::Completed(result) => WorkflowAction::CompleteWorkflow { result },
            Ending::Unreadable(source) => {
                return Err(ProgramError::Output {
                    workflow_type: self.workflow_type().to_owned(),
                    source,
                });
            }
            Ending::Failed(error) => match (error.error_type.as_str(), continue_with, cancelled) {
                (error_types::CONTINUE_AS_NEW, Some(input), _) => {
                    WorkflowAction::ContinueAsNew { input }
                }
                (error_types::CANCELLED, _, Some(reason)) => {
                    WorkflowAction::CancelWorkflow { reason }
                }
                _ => WorkflowAction::FailWorkflow { error },
            },
        });
        Ok(())
    }

    fn step(&mut self, fact: &Fact) -> Result<Vec<WorkflowAction>, ProgramError> {
        let mut answers = Vec::new();
        self.shared.state().memory.begin_step();
        self.tell(fact, &mut answers)?;
        let ending = self.run(&mut answers)?;
        let diverged = self.shared.state().memory.end_step();
        let mut actions = self.shared.state().take_actions();
        if let Some(difference) = diverged {
            return Err(ProgramError::Diverged {
                workflow_type: self.workflow_type().to_owned(),
                difference: Box::new(difference),
            });
        }
        actions.append(&mut answers);
        if let Some(ending) = ending {
            self.end(ending, &mut actions)?;
        }
        Ok(actions)
    }
}

impl Program for FunctionProgram {
    fn workflow_type(&self) -> &str {
        &self.shared.birth.info.workflow_type
    }

    fn apply(&mut self, fact: &Fact) -> Result<Vec<WorkflowAction>, ProgramError> {
        self.waker.set_in_step(true);
        let actions = self.step(fact);
        self.waker.set_in_step(false);
        actions
    }

    fn recall(&mut self, recorded: &Recorded<'_>) {
        self.shared.state().memory.recall(recorded);
    }

    fn take_memories(&mut self) -> Vec<WorkflowEvent> {
        self.shared.state().memory.take_made()
    }

    fn take_local_calls(&mut self) -> Vec<LocalCall> {
        self.shared.state().take_local_calls()
    }

    fn waits_for_local(&self) -> bool {
        self.shared.state().waits_for_local()
    }

    fn take_unread(&mut self) -> Vec<WorkflowSignal> {
        self.shared.state().mail.take_unread()
    }

    fn locate(&self, request: Option<&Request>) -> Option<String> {
        let state = self.shared.state();
        let place = match request {
            Some(request) => state.memory.place_of(request),
            None => state.waits_at(),
        };
        place.map(ToString::to_string)
    }

    fn awaited_signals(&self) -> Vec<String> {
        self.shared.state().mail.awaited()
    }

    fn awaited_conditions(&self) -> Vec<Option<String>> {
        self.shared.state().conditions.awaited()
    }

    fn goes_on(&self) -> bool {
        self.future.is_some()
    }

    fn on_foreign_wake(&mut self, bell: ForeignBell) {
        self.waker.set_bell(bell);
    }

    fn check(&self) -> Result<(), ProgramError> {
        self.untouched()
    }

    fn query(&self, name: &str, input: &Payload) -> Result<Payload, QueryError> {
        let handler = {
            let state = self.shared.state();
            let handler = state.handlers.queries.get(name).cloned();
            handler.ok_or_else(|| QueryError::NotFound {
                name: name.to_owned(),
                known: state.handlers.queries.keys().cloned().collect(),
            })?
        };
        let answer = self.shared.aside(|| handler(input));
        answer.map_err(|failure| QueryError::Failed {
            name: name.to_owned(),
            failure,
        })
    }

    fn validate_update(&self, name: &str, input: &Payload) -> Result<(), Failure> {
        let handler = self.shared.state().handlers.updates.get(name).cloned();
        let handler = handler.ok_or_else(|| self.no_update(name))?;
        let Some(validate) = handler.validate else {
            return Ok(());
        };
        self.shared.aside(|| validate(input))
    }
}

impl Drop for FunctionProgram {
    /// What the workflow's own parts tell each other while they are dropped does not come from outside.
    fn drop(&mut self) {
        self.waker.set_in_step(true);
        self.future = None;
        self.updates.clear();
        self.waker.set_in_step(false);
    }
}

/// What the code sees of a failure elsewhere: what kind of thing failed, with the failure as its cause.
fn wrapped(error_type: &str, what: &str, cause: Failure) -> WorkflowError {
    let message = format!("{what} failed: {cause}");
    Failure::new(error_type, message)
        .non_retryable()
        .with_cause(cause)
        .into()
}
