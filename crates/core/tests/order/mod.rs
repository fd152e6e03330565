//! A workflow as a user writes one: charge, then ship by a child with a deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::{
    ActivityError, Payload, Workflow, WorkflowAction as A, WorkflowError, WorkflowSignal,
    signal_types,
};
use serde_json::Value;

pub(crate) fn json(text: &'static str) -> Payload {
    Payload::from_json_text(text).unwrap()
}

pub(crate) struct Order {
    amount: u32,
    receipt: Option<String>,
    shipment: Option<u64>,
}

impl Workflow for Order {
    const TYPE: &'static str = "order";
    type Input = u32;
    type Output = String;

    fn new(amount: u32) -> Self {
        Self {
            amount,
            receipt: None,
            shipment: None,
        }
    }

    fn on_start(&mut self) -> Vec<A> {
        let input = Payload::from_value(&self.amount).unwrap();
        vec![
            A::schedule_activity("charge", "charge_card", input),
            A::None,
        ]
    }

    fn on_activity_completed(&mut self, _activity_id: &str, result: Value) -> Vec<A> {
        self.receipt = result.as_str().map(str::to_owned);
        vec![
            A::ScheduleChildWorkflow {
                workflow_id: "ship".into(),
                workflow_type: "shipping".into(),
                input: json("{}"),
            },
            A::StartTimer {
                timer_id: "late".into(),
                duration: Duration::from_secs(60),
            },
        ]
    }

    fn on_activity_failed(&mut self, _activity_id: &str, error: &ActivityError) -> Vec<A> {
        let error = error.clone().into_failure().into();
        vec![A::FailWorkflow { error }]
    }

    fn on_timer_fired(&mut self, _timer_id: &str) -> Vec<A> {
        let error = WorkflowError::new("Late", "the shipment took too long");
        vec![A::FailWorkflow { error }]
    }

    fn on_signal(&mut self, signal: &WorkflowSignal) -> Vec<A> {
        if signal.signal_type != signal_types::CANCEL {
            return vec![];
        }
        let reason = String::from_utf8_lossy(signal.payload.as_bytes()).into_owned();
        vec![
            A::CancelActivity {
                activity_id: "charge".into(),
            },
            A::CancelWorkflow { reason },
        ]
    }

    fn on_child_completed(&mut self, _child_id: &str, result: Value) -> Vec<A> {
        self.shipment = result.as_u64();
        if self.shipment == Some(0) {
            let error = WorkflowError::new("Lost", "an ending of its own, though it is completed");
            return vec![A::FailWorkflow { error }];
        }
        vec![A::CancelTimer {
            timer_id: "late".into(),
        }]
    }

    fn is_completed(&self) -> bool {
        self.shipment.is_some()
    }

    fn result(&self) -> Option<Result<String, WorkflowError>> {
        let (receipt, shipment) = (self.receipt.as_ref()?, self.shipment?);
        Some(Ok(format!("{receipt} shipped as {shipment}")))
    }
}

/// Its result has keys that are no strings, which JSON does not know.
pub(crate) struct Unprintable;

impl Workflow for Unprintable {
    const TYPE: &'static str = "unprintable";
    type Input = ();
    type Output = BTreeMap<Vec<u8>, u8>;

    fn new((): ()) -> Self {
        Self
    }

    fn on_start(&mut self) -> Vec<A> {
        vec![]
    }

    fn on_activity_completed(&mut self, _activity_id: &str, _result: Value) -> Vec<A> {
        vec![]
    }

    fn on_activity_failed(&mut self, _activity_id: &str, _error: &ActivityError) -> Vec<A> {
        vec![]
    }

    fn on_timer_fired(&mut self, _timer_id: &str) -> Vec<A> {
        vec![]
    }

    fn on_signal(&mut self, _signal: &WorkflowSignal) -> Vec<A> {
        vec![]
    }

    fn is_completed(&self) -> bool {
        true
    }

    fn result(&self) -> Option<Result<Self::Output, WorkflowError>> {
        Some(Ok(BTreeMap::from([(vec![1], 1)])))
    }
}
