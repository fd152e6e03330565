//! Which activities were called, with what.

use std::sync::Arc;

use async_trait::async_trait;
use durable_core::{ActivityError, Payload};
use parking_lot::Mutex;

use crate::activity::{Activity, ActivityContext};

/// Calls of activities, mocked and real, each attempt one, in the order in which they began.
#[derive(Clone, Default)]
pub(super) struct Calls {
    made: Arc<Mutex<Vec<(&'static str, Payload)>>>,
}

impl Calls {
    /// An attempt begins.
    pub(super) fn note<A: Activity>(&self, input: &A::Input) {
        let input = Payload::from_value(input).unwrap_or_default();
        self.made.lock().push((A::TYPE, input));
    }

    /// What an activity was given, attempt by attempt.
    pub(super) fn of<A: Activity>(&self) -> Vec<A::Input> {
        let made = self.made.lock();
        let inputs = made.iter().filter(|(name, _)| *name == A::TYPE);
        let read = |payload: &Payload| payload.to_value().expect("written by the same type");
        inputs.map(|(_, input)| read(input)).collect()
    }

    /// All of them by name.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.made.lock().iter().map(|(name, _)| *name).collect()
    }
}

/// A real activity whose calls are noted.
pub(super) struct Noted<A> {
    pub(super) activity: A,
    pub(super) calls: Calls,
}

#[async_trait]
impl<A: Activity> Activity for Noted<A> {
    const TYPE: &'static str = A::TYPE;
    type Input = A::Input;
    type Output = A::Output;

    async fn execute(
        &self,
        ctx: &ActivityContext,
        input: A::Input,
    ) -> Result<A::Output, ActivityError> {
        self.calls.note::<A>(&input);
        self.activity.execute(ctx, input).await
    }
}
