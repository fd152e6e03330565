//! The state-machine front door: a workflow as a struct that reacts.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::action::WorkflowAction;
use crate::failure::{ActivityError, Failure, WorkflowError, error_types};
use crate::signal::WorkflowSignal;

/// A workflow written as a state machine: something happened, what is to be done?
///
/// Every method must be a function of the value and its arguments. No clock, no randomness, no
/// input or output: the same calls are made again, in the same order, whenever the run is rebuilt from its
/// history, and must give the same answers.
///
/// A request to stop arrives through [`Workflow::on_signal`] with the type
/// [`signal_types::CANCEL`](crate::signal_types::CANCEL). It is cooperative: the workflow may clean up first, and is
/// cancelled when nothing it asked for is outstanding, or with [`WorkflowAction::CancelWorkflow`] at once. After
/// [`signal_types::SHUTDOWN`](crate::signal_types::SHUTDOWN) it is cancelled when the activities in flight have ended.
///
/// ```
/// use durable_core::{ActivityError, Payload, Workflow, WorkflowAction, WorkflowError, WorkflowSignal};
/// use serde_json::Value;
///
/// struct Greeting { name: String, text: Option<String> }
///
/// impl Workflow for Greeting {
///     const TYPE: &'static str = "greeting";
///     type Input = String;
///     type Output = String;
///
///     fn new(name: String) -> Self {
///         Self { name, text: None }
///     }
///     fn on_start(&mut self) -> Vec<WorkflowAction> {
///         let input = Payload::from_value(&self.name).expect("a string is JSON");
///         vec![WorkflowAction::schedule_activity("greet", "greet", input)]
///     }
///     fn on_activity_completed(&mut self, _id: &str, result: Value) -> Vec<WorkflowAction> {
///         self.text = result.as_str().map(str::to_owned);
///         vec![]
///     }
///     fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
///         vec![WorkflowAction::FailWorkflow { error: error.clone().into_failure().into() }]
///     }
///     fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
///         vec![]
///     }
///     fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> {
///         vec![]
///     }
///     fn is_completed(&self) -> bool {
///         self.text.is_some()
///     }
///     fn result(&self) -> Option<Result<String, WorkflowError>> {
///         self.text.clone().map(Ok)
///     }
/// }
/// ```
pub trait Workflow: Send + Sync + 'static {
    /// Name of the type; it holds across processes and releases.
    const TYPE: &'static str;

    /// What a run is started with.
    type Input: Serialize + DeserializeOwned + Send;

    /// What a run ends with.
    type Output: Serialize + DeserializeOwned + Send;

    /// A run at its beginning.
    fn new(input: Self::Input) -> Self;

    /// The run begins.
    fn on_start(&mut self) -> Vec<WorkflowAction>;

    /// An activity succeeded.
    fn on_activity_completed(&mut self, activity_id: &str, result: Value) -> Vec<WorkflowAction>;

    /// An activity failed for good: its attempts are used up, or its time.
    fn on_activity_failed(
        &mut self,
        activity_id: &str,
        error: &ActivityError,
    ) -> Vec<WorkflowAction>;

    /// A timer fired.
    fn on_timer_fired(&mut self, timer_id: &str) -> Vec<WorkflowAction>;

    /// A signal arrived, or the request to stop.
    fn on_signal(&mut self, signal: &WorkflowSignal) -> Vec<WorkflowAction>;

    /// Whether the run is over. Asked after every step that ended without an ending action of its
    /// own; when it is, [`Workflow::result`] says how.
    fn is_completed(&self) -> bool {
        false
    }

    /// How the run ended; nothing reads as a result of `null`.
    fn result(&self) -> Option<Result<Self::Output, WorkflowError>> {
        None
    }

    /// A child workflow ended with a result.
    fn on_child_completed(&mut self, child_id: &str, result: Value) -> Vec<WorkflowAction> {
        let _ = (child_id, result);
        Vec::new()
    }

    /// A child workflow failed or was cancelled.
    fn on_child_failed(&mut self, child_id: &str, error: &WorkflowError) -> Vec<WorkflowAction> {
        let _ = (child_id, error);
        Vec::new()
    }

    /// An update was taken. It stays open until it is answered by
    /// [`WorkflowAction::CompleteUpdate`] or [`WorkflowAction::FailUpdate`]; unless overridden, it is refused.
    fn on_update(&mut self, update_id: &str, name: &str, input: Value) -> Vec<WorkflowAction> {
        let _ = input;
        let message = format!("workflow {} has no update handler {name:?}", Self::TYPE);
        vec![WorkflowAction::FailUpdate {
            update_id: update_id.to_owned(),
            error: Failure::new(error_types::UPDATE_FAILED, message).non_retryable(),
        }]
    }

    /// A person decided.
    fn on_human_task_decided(
        &mut self,
        task_id: &str,
        decision: &str,
        answer: Value,
    ) -> Vec<WorkflowAction> {
        let _ = (task_id, decision, answer);
        Vec::new()
    }
}
