//! What an `async fn` does durably.

use std::panic::Location;
use std::sync::Arc;

use durable_core::function::{Context, RunInfo, Scope, Shielded, SignalHandler, Until};
use durable_core::{Payload, Timestamp, WorkflowError, error_types};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{
    ActivityCall, ChildCall, LocalActivityCall, Saga, SignalCall, Sleep, Span, State, UpdateSetup,
    WorkflowDefinition, WorkflowResult,
};
use crate::activity::Activity;
use crate::persistence::{Bug, planted};

/// A workflow's door to the world: everything it does through this is recorded, and is as it was when the run is rebuilt.
///
/// Calls are builders that are awaited. A call has its place in the history from the moment it is made, so calls that are made
/// first and awaited together (`join!`, `try_join_all`, `FuturesUnordered`) run beside each other; one that is dropped before it
/// answered is given up. Cheap to clone.
///
/// When the run is asked to stop, everything that is waited for answers with an error for which
/// [`is_cancelled`](durable_core::Failure::is_cancelled) holds; calls made after that work, so that the code can clean up.
#[derive(Clone)]
pub struct WorkflowContext {
    pub(super) core: Context,
}

impl WorkflowContext {
    pub(super) const fn new(core: Context) -> Self {
        Self { core }
    }

    /// Who the run is.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        self.core.info()
    }

    /// Calls an activity.
    #[track_caller]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a call site reads better without a reference"
    )]
    pub fn activity<A: Activity>(&self, input: A::Input) -> ActivityCall<A::Output> {
        let ticket = self.core.ticket(Location::caller());
        ActivityCall::new(
            ticket,
            A::TYPE.to_owned(),
            Payload::from_value(&input),
            A::options(),
        )
    }

    /// Calls an activity known by name only.
    #[track_caller]
    pub fn activity_named<O: DeserializeOwned>(
        &self,
        activity_type: impl Into<String>,
        input: impl Serialize,
    ) -> ActivityCall<O> {
        let ticket = self.core.ticket(Location::caller());
        let input = Payload::from_value(&input);
        ActivityCall::new(ticket, activity_type.into(), input, Default::default())
    }

    /// Calls an activity in the process that takes this run's turns: no queue, no other worker, recorded all the same. For
    /// short work; it is not retried unless asked, and has a timeout of 10 s unless given another.
    #[track_caller]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a call site reads better without a reference"
    )]
    pub fn local_activity<A: Activity>(&self, input: A::Input) -> LocalActivityCall<A::Output> {
        let ticket = self.core.ticket(Location::caller());
        LocalActivityCall::new(ticket, A::TYPE.to_owned(), Payload::from_value(&input))
    }

    /// Calls a local activity known by name only.
    #[track_caller]
    pub fn local_activity_named<O: DeserializeOwned>(
        &self,
        activity_type: impl Into<String>,
        input: impl Serialize,
    ) -> LocalActivityCall<O> {
        let ticket = self.core.ticket(Location::caller());
        LocalActivityCall::new(ticket, activity_type.into(), Payload::from_value(&input))
    }

    /// Starts another workflow and waits for its result.
    #[track_caller]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a call site reads better without a reference"
    )]
    pub fn child<W: WorkflowDefinition>(&self, input: W::Input) -> ChildCall<W::Output> {
        let input = Payload::from_value(&input);
        let defaults = W::defaults();
        let mut call = self.child_call(Location::caller(), W::TYPE.to_owned(), input);
        if !W::VERSION.is_empty() {
            call = call.version(W::VERSION);
        }
        if let Some(timeout) = defaults.execution_timeout {
            call = call.execution_timeout(timeout);
        }
        if let Some(timeout) = defaults.run_timeout {
            call = call.run_timeout(timeout);
        }
        call
    }

    /// Starts a workflow known by name only and waits for its result.
    #[track_caller]
    pub fn child_named<O: DeserializeOwned>(
        &self,
        workflow_type: impl Into<String>,
        input: impl Serialize,
    ) -> ChildCall<O> {
        let input = Payload::from_value(&input);
        self.child_call(Location::caller(), workflow_type.into(), input)
    }

    fn child_call<O: DeserializeOwned>(
        &self,
        place: &'static Location<'static>,
        workflow_type: String,
        input: Result<Payload, durable_core::PayloadError>,
    ) -> ChildCall<O> {
        let ticket = self.core.ticket(place);
        ChildCall::new(ticket, self.info(), workflow_type, input)
    }

    /// Sleeps, for days if need be: a [`Duration`](std::time::Duration), or a text such as `PT10M`.
    #[track_caller]
    pub fn sleep(&self, span: impl Span) -> Sleep {
        Sleep::new(self.core.ticket(Location::caller()), span.into_duration())
    }

    /// Waits for a signal of a name. Signals are read in the order in which they came; those that come early wait.
    #[track_caller]
    pub fn signal<T: DeserializeOwned>(&self, name: impl Into<String>) -> SignalCall<T> {
        SignalCall::new(self.clone(), name.into(), Location::caller())
    }

    /// Sets up a handler that is given the signals of a name as they come, those that wait already included. One that cannot be
    /// read as a `T` is left to [`WorkflowContext::signal`].
    pub fn on_signal<T: DeserializeOwned>(
        &self,
        name: impl Into<String>,
        handler: impl Fn(T) + Send + Sync + 'static,
    ) {
        let handler = move |payload: &Payload| match payload.to_value() {
            Ok(value) => {
                handler(value);
                true
            }
            Err(_) => false,
        };
        let handler: SignalHandler = Arc::new(handler);
        self.core.on_signal(name, &handler);
    }

    /// Sets up a query. The handler looks at the workflow's own state ([`State`]) and must not change it; what it asks the context
    /// for comes to nothing.
    pub fn on_query<I: DeserializeOwned, O: Serialize>(
        &self,
        name: impl Into<String>,
        handler: impl Fn(I) -> O + Send + Sync + 'static,
    ) {
        let handler = move |input: &Payload| {
            let input = input.to_value().map_err(super::update::unreadable)?;
            Payload::from_value(&handler(input)).map_err(super::update::unwritable)
        };
        self.core.on_query(name, Arc::new(handler));
    }

    /// Sets up an update: a request that changes the workflow's state and is answered. The handler may call activities and
    /// sleep; it runs beside the workflow. See [`UpdateSetup::validate`].
    pub fn on_update<I, O, F, Fut>(&self, name: impl Into<String>, handler: F) -> UpdateSetup<I>
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = WorkflowResult<O>> + Send + 'static,
    {
        UpdateSetup::new(self.core.clone(), name.into(), handler)
    }

    /// State of the workflow's own that its handlers share.
    pub fn state<T: Send + 'static>(&self, initial: T) -> State<T> {
        State::new(initial)
    }

    /// Waits until a condition over the workflow's own state holds; it is looked at after everything that happens.
    #[track_caller]
    pub fn until(&self, holds: impl Fn() -> bool + Send + Sync + 'static) -> Until {
        self.core.until(holds, Location::caller())
    }

    /// Computes a value once, and gives the same one back ever after.
    ///
    /// # Errors
    /// When the value has no JSON form, or the recorded one cannot be read as a `T`.
    #[track_caller]
    pub fn side_effect<T: Serialize + DeserializeOwned>(
        &self,
        compute: impl FnOnce() -> T,
    ) -> WorkflowResult<T> {
        if planted(Bug::SideEffectComputedAnew) {
            return Ok(compute());
        }
        let value = self
            .core
            .side_effect(|| Payload::from_value(&compute()))
            .map_err(|error| WorkflowError::new(error_types::INVALID_OUTPUT, error.to_string()))?;
        value
            .to_value()
            .map_err(|error| WorkflowError::new(error_types::INVALID_PAYLOAD, error.to_string()))
    }

    /// The moment at which this line first ran.
    ///
    /// # Panics
    /// When the history has something else than a moment here: the code is not the one that made it, and the run is blocked.
    #[must_use]
    #[track_caller]
    pub fn now(&self) -> Timestamp {
        self.side_effect(|| self.core.clock_now())
            .expect("history has a moment here")
    }

    /// A UUID that is the same whenever this line runs again, and no other's.
    #[must_use]
    #[track_caller]
    pub fn uuid(&self) -> Uuid {
        self.core.unique()
    }

    /// A random number that is the same whenever this line runs again.
    #[must_use]
    #[track_caller]
    pub fn random_u64(&self) -> u64 {
        let bytes = self.core.unique().into_bytes();
        // The first and the last eight bytes: version and variant bits are fixed in either half, but not in the same places.
        let half = |from: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[from..from + 8]);
            u64::from_be_bytes(eight)
        };
        half(0) ^ half(8).rotate_left(32)
    }

    /// A random number from 0 (inclusive) to 1 (exclusive) that is the same whenever this line runs again.
    #[must_use]
    #[track_caller]
    #[allow(
        clippy::cast_precision_loss,
        reason = "53 bits are what a double holds"
    )]
    pub fn random(&self) -> f64 {
        (self.random_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether this run takes the new side of a change to deployed code: true for runs that come here for the first time, false
    /// for those that were past this line before it had a `patched`. The decision is recorded and never changes.
    #[must_use]
    pub fn patched(&self, change: &str) -> bool {
        self.core.patched(change)
    }

    /// A part of the workflow that can be abandoned from elsewhere, such as a signal's handler.
    #[must_use]
    pub fn scope(&self) -> Scope {
        Scope::new()
    }

    /// A part of the workflow that goes on when the run is asked to stop: cleaning up that must not be left half done. The part's
    /// own calls are shielded; one that was polled before it was moved in is not.
    pub fn shield<F: Future>(&self, part: F) -> Shielded<F> {
        self.core.shield(part)
    }

    /// Steps with undo steps, which run in reverse order if a later one fails or the run is asked to stop.
    #[must_use]
    pub fn saga(&self) -> Saga {
        Saga::new(self.clone())
    }

    /// Whether the run was asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.core.cancel_reason().is_some()
    }

    /// Why the run was asked to stop, if it was.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<String> {
        self.core.cancel_reason()
    }

    /// Whether the run was asked to finish what is in flight and then stop.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.core.is_shutting_down()
    }

    /// Ends this iteration: the run goes on under the same id with an empty history and this input. Signals that were not read
    /// come along. To be returned at once: `return ctx.continue_as_new(next)`.
    ///
    /// # Errors
    /// Always: that is how the code ends here.
    pub fn continue_as_new<O>(&self, input: impl Serialize) -> WorkflowResult<O> {
        let input = Payload::from_value(&input)
            .map_err(|error| WorkflowError::new(error_types::INVALID_INPUT, error.to_string()))?;
        self.core.continue_with(input);
        Err(WorkflowError::new(
            error_types::CONTINUE_AS_NEW,
            "the run continues as new",
        ))
    }
}

impl std::fmt::Debug for WorkflowContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WorkflowContext").field(self.info()).finish()
    }
}
