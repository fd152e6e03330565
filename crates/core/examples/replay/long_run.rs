//! A run of many steps and its history: what replay is measured with.

use durable_core::{
    ActivityError, Fact, NumberedEvent, Payload, ProgramState, RunIdentity, TraitProgram, Turn,
    TurnError, Workflow, WorkflowAction, WorkflowError, WorkflowSignal,
};
use serde_json::Value;
use uuid::Uuid;

/// Asks for one activity after the other, without an end.
pub(crate) struct LongRun {
    done: usize,
}

impl LongRun {
    fn step(&self) -> Vec<WorkflowAction> {
        let id = format!("step-{}", self.done);
        let input = Payload::from_stored(r#"{"order":"A-1","amount":1999}"#);
        vec![WorkflowAction::schedule_activity(id, "charge", input)]
    }
}

impl Workflow for LongRun {
    const TYPE: &'static str = "long_run";
    type Input = ();
    type Output = ();

    fn new((): ()) -> Self {
        Self { done: 0 }
    }
    fn on_start(&mut self) -> Vec<WorkflowAction> {
        self.step()
    }
    fn on_activity_completed(&mut self, _id: &str, _result: Value) -> Vec<WorkflowAction> {
        self.done += 1;
        self.step()
    }
    fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
        let error = WorkflowError::from(error.clone().into_failure());
        vec![WorkflowAction::FailWorkflow { error }]
    }
    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        vec![]
    }
    fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        vec![]
    }
}

/// The run.
pub(crate) fn identity() -> RunIdentity {
    RunIdentity::new(Uuid::from_u128(1))
}

/// Its history: two events for the start and two for each step, so many in all.
///
/// # Errors
/// Those of the program, which makes none.
pub(crate) fn history(events: usize) -> Result<Vec<NumberedEvent>, TurnError> {
    let program = Box::new(TraitProgram::<LongRun>::new());
    let mut run = ProgramState::new(identity(), program);
    let mut turn = Turn::default();
    let input = Payload::null();
    run.take(&Fact::Started { input }, &mut turn)?;
    for step in 0..(events / 2).saturating_sub(1) {
        let fact = Fact::ActivityCompleted {
            activity_id: format!("step-{step}"),
            result: Payload::from_stored(r#"{"ok":true,"value":42}"#),
        };
        run.take(&fact, &mut turn)?;
    }
    Ok(turn.events)
}
