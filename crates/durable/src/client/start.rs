//! Starting a run.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use durable_core::{AttributeValue, Payload, PayloadError, TraceContext};
use serde::Serialize;
use tracing::{debug, warn};
use uuid::Uuid;

use super::sets::check_start;
use super::{Client, RunHandle, UpdateWithStart};
use crate::engine::{Beginning, Watch};
use crate::error::Kind;
use crate::persistence::model::{
    NewSignal, OwnerRequest, ReusePolicy, StartOutcome, StartRun, TurnOutcome,
};
use crate::persistence::{Bug, StoreResult, planted};
use crate::reliability::AdmissionSample;
use crate::workflow::WorkflowDefinition;
use crate::{Error, Result};

/// How long a start waits for its first turn: then it goes on its own, and whichever comes first starts the run. A turn is put off for as
/// long as the store cannot be reached; whoever starts a run is told.
const BEGIN_MAX: Duration = Duration::from_secs(2);

/// How long an engine in another process may think about an offer.
const OFFER_MAX: Duration = Duration::from_millis(500);

/// A run about to be started: a builder that is awaited.
#[must_use = "a start does nothing unless it is awaited"]
pub struct Start<W> {
    client: Client,
    start: Result<StartRun, PayloadError>,
    workflow: PhantomData<fn() -> W>,
}

/// A workflow known by name only: its result is a [`Payload`].
#[derive(Debug)]
pub enum Untyped {}

impl<W: WorkflowDefinition> Start<W> {
    pub(super) fn of_type(client: Client, input: &W::Input) -> Self {
        let run_id = client.shared.runtime.new_id();
        let start = Payload::from_value(input).map(|input| start_of::<W>(run_id, input));
        Self {
            client,
            start,
            workflow: PhantomData,
        }
    }
}

/// The start of a run as its workflow has it unless told otherwise.
pub(crate) fn start_of<W: WorkflowDefinition>(run_id: Uuid, input: Payload) -> StartRun {
    let defaults = W::defaults();
    let mut start = StartRun::new(run_id, W::TYPE, input);
    start.version = W::VERSION.to_owned();
    start.execution_timeout = defaults.execution_timeout;
    start.run_timeout = defaults.run_timeout;
    start
}

impl Start<Untyped> {
    pub(super) fn named(client: Client, workflow_type: String, input: Payload) -> Self {
        let run_id = client.shared.runtime.new_id();
        let newest = client.shared.workflows.newest(&workflow_type);
        let version = newest.unwrap_or_default();
        let mut start = StartRun::new(run_id, workflow_type, input);
        start.version = version;
        Self {
            client,
            start: Ok(start),
            workflow: PhantomData,
        }
    }
}

impl<W> Start<W> {
    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut StartRun)) -> Self {
        if let Ok(start) = &mut self.start {
            change(start);
        }
        self
    }

    /// Your own id for the run, such as an order's number.
    pub fn workflow_id(self, id: impl Into<String>) -> Self {
        self.with(|start| start.business_id = Some(id.into()))
    }

    /// What happens when that id is used again.
    pub fn reuse_policy(self, policy: ReusePolicy) -> Self {
        if planted(Bug::ReusePolicyForgotten) {
            return self;
        }
        self.with(|start| start.reuse_policy = policy)
    }

    /// One run per key, whoever asks and how often.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.with(|start| start.idempotency_key = Some(key.into()))
    }

    /// The run's id, instead of a new one.
    pub fn run_id(self, run_id: Uuid) -> Self {
        self.with(|start| start.run_id = run_id)
    }

    /// A search attribute.
    pub fn attribute(self, name: impl Into<String>, value: impl Into<AttributeValue>) -> Self {
        self.with(|start| {
            start.attributes.insert(name.into(), value.into());
        })
    }

    /// Metadata that never changes.
    pub fn memo<T: Serialize>(mut self, memo: &T) -> Self {
        match (&mut self.start, Payload::from_value(memo)) {
            (Ok(start), Ok(memo)) => start.memo = memo,
            (Ok(_), Err(error)) => self.start = Err(error),
            (Err(_), _) => {}
        }
        self
    }

    /// Time for the run, all its iterations together.
    pub fn execution_timeout(self, timeout: Duration) -> Self {
        self.with(|start| start.execution_timeout = Some(timeout))
    }

    /// Time for each iteration.
    pub fn run_timeout(self, timeout: Duration) -> Self {
        self.with(|start| start.run_timeout = Some(timeout))
    }

    /// Trace context, carried through to every activity.
    pub fn trace(self, trace: TraceContext) -> Self {
        self.with(|start| start.trace = Some(trace))
    }

    /// Sends a signal along (signal-with-start): it also reaches a run that exists already.
    pub fn signal<T: Serialize>(self, signal_type: impl Into<String>, payload: &T) -> Self {
        let signal_id = self.client.shared.runtime.new_id();
        self.signal_as(signal_id, signal_type, payload)
    }

    /// [`Start::signal`] under an id of your own: sent again under the same id, it is the same signal.
    pub fn signal_as<T: Serialize>(
        mut self,
        signal_id: Uuid,
        signal_type: impl Into<String>,
        payload: &T,
    ) -> Self {
        match (&mut self.start, Payload::from_value(payload)) {
            (Ok(start), Ok(payload)) => start.signals.push(NewSignal {
                signal_id,
                signal_type: signal_type.into(),
                payload,
            }),
            (Ok(_), Err(error)) => self.start = Err(error),
            (Err(_), _) => {}
        }
        self
    }

    /// Sends an update along (update-with-start), after all other options: awaited, it answers the run and the update. It also reaches a
    /// run that exists already, found by its idempotency key or workflow id.
    pub fn update<T: Serialize + ?Sized>(
        self,
        name: impl Into<String>,
        input: &T,
    ) -> UpdateWithStart<W> {
        let update = self.client.new_update(name.into(), input);
        UpdateWithStart::new(self, update)
    }

    /// Says whether the run could be started as it is described, without starting it. Whether another one stands in its way is not looked at, nor how large the payloads
    /// are where a codec changes that.
    ///
    /// # Errors
    /// What a start would be refused for: `is_invalid`.
    pub fn check(&self) -> Result<()> {
        let start = self.start.as_ref();
        let start = start.map_err(|error| Error::payload("the start", error.clone()))?;
        Ok(check_start(&*self.client.shared.store, start)?)
    }

    pub(super) async fn send(self) -> Result<RunHandle<W>> {
        let start = self
            .start
            .map_err(|error| Error::payload("the start", error))?;
        self.client.admit()?;
        self.client.start_run(start).await
    }
}

impl Client {
    /// Whether another run would be taken on, by the last sample of the system: neither waits nor
    /// reads the store. [`Start`] asks by itself;
    /// this is for those who start runs past it.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`](crate::persistence::StoreError::Overloaded) while more waits than [`crate::engine::Settings::admission`] allows.
    pub fn admit(&self) -> StoreResult<()> {
        match &self.shared.admission {
            Some(admission) => admission.admit(),
            None => Ok(()),
        }
    }

    /// How the sample stands by which runs are admitted. None: every run is.
    #[must_use]
    pub fn admission_sample(&self) -> Option<AdmissionSample> {
        let admission = self.shared.admission.as_ref()?;
        Some(admission.sample())
    }

    /// Starts a run; where it is hosted beside, it belongs to the engine there at once.
    pub(super) async fn start_run<W>(&self, mut start: StartRun) -> Result<RunHandle<W>> {
        let shared = &self.shared;
        let hosted_here = self.own(&mut start);
        // Before it joins a set: a mistake is this caller's alone.
        check_start(&*shared.store, &start)?;
        // From before it can end on.
        let watch = shared.hub.watch(start.run_id);
        if self.begin(&start, hosted_here).await {
            return Ok(self.handle(start.run_id, Some(watch)));
        }
        // Whoever takes its turns elsewhere may not be heard: its end is looked for.
        let watch = hosted_here.then_some(watch);
        // The run's id makes a repeat harmless, so an unknown outcome is simply tried again.
        let asked = self.asked(start.clone());
        let outcome = self.retried(|| shared.starts.one(asked.clone())).await?;
        self.announce(&start, &outcome, hosted_here);
        match outcome {
            StartOutcome::Started { run_id } => Ok(self.handle(run_id, watch)),
            StartOutcome::Existing { run_id } => Ok(self.handle(run_id, None)),
            StartOutcome::Rejected(rejection) => Err(Kind::Start(rejection).into()),
        }
    }

    /// Makes the engine beside the owner of a run that it hosts; answers whether it does.
    pub(super) fn own(&self, start: &mut StartRun) -> bool {
        let shared = &self.shared;
        // A client on its own may know the code, to ask runs by it, and hosts none.
        let Some(beside) = &shared.beside else {
            return false;
        };
        let hosted_here = shared.workflows.hosts(&start.workflow_type, &start.version);
        start.owner = hosted_here.then(|| OwnerRequest {
            worker_id: beside.worker_id.clone(),
            lease: beside.owner_lease,
        });
        hosted_here
    }

    /// Tells whoever takes the run's first turn.
    pub(super) fn announce(&self, start: &StartRun, outcome: &StartOutcome, hosted_here: bool) {
        let shared = &self.shared;
        let (run_id, is_new) = match outcome {
            StartOutcome::Started { run_id } => (*run_id, true),
            StartOutcome::Existing { run_id } => (*run_id, false),
            StartOutcome::Rejected(_) => return,
        };
        self.announce_deadline(start);
        match (hosted_here, is_new) {
            (true, true) => shared.hub.started(run_id, shared.runtime.instant()),
            (true, false) => shared.hub.ready_runs([run_id]),
            (false, _) if shared.store.announces() => {}
            (false, _) => shared.hub.pass_on([run_id]),
        }
    }

    /// Starts a run with its first turn, if that is possible and there is room for it. False: it has not begun, as far as is known.
    pub(super) async fn begin(&self, start: &StartRun, hosted_here: bool) -> bool {
        let shared = &self.shared;
        // Keys, signals and updates have to be looked at first.
        if !start.is_plain() || !shared.store.starts_with_turns() {
            return false;
        }
        let begun = if hosted_here {
            self.begin_here(start).await
        } else {
            self.begin_elsewhere(start).await.is_some()
        };
        if begun {
            self.announce_deadline(start);
        }
        begun
    }

    async fn begin_here(&self, start: &StartRun) -> bool {
        let shared = &self.shared;
        let (name, version) = (&start.workflow_type, &start.version);
        // An audit row goes with the start.
        if self.acting.is_some() || shared.workflows.elsewhere_for(name, version).is_some() {
            return false;
        }
        let (beginning, begun) = Beginning::of(start.clone());
        shared.hub.desk.begin(beginning);
        tokio::select! {
            biased;
            answer = begun => answer.is_ok(),
            () = shared.runtime.sleep(BEGIN_MAX) => false,
        }
    }

    /// Asks an engine in another process for the first turn, and commits it with the start.
    async fn begin_elsewhere(&self, start: &StartRun) -> Option<()> {
        let shared = &self.shared;
        let first_turn = shared.hub.engines.offer(start)?;
        let first_turn = tokio::select! {
            biased;
            first_turn = first_turn => first_turn.ok()?,
            () = shared.runtime.sleep(OFFER_MAX) => return None,
        };
        let (mut turn, told) = first_turn.into_parts();
        if !turn.is_first_of(start.run_id) {
            warn!(run_id = %start.run_id, "what an engine answered to an offer is not its first turn");
            return None;
        }
        turn.start = Some(Box::new(start.clone()));
        let mut outcomes = match self.commit_all(vec![turn], None).await {
            Ok(outcomes) => outcomes.into_iter(),
            Err(error) => {
                // Whether it was carried out is found out by starting it on its own.
                debug!(run_id = %start.run_id, %error, "the run is not started with its turn");
                return None;
            }
        };
        let outcome = outcomes.next()?;
        let begun = matches!(outcome, TurnOutcome::Committed(_));
        // The engine may be gone: then others find the run when its ownership runs out.
        drop(told.send(outcome));
        begun.then_some(())
    }

    /// Whoever takes its first turn announces it too; where nobody hosts it, this engine still ends it in time.
    pub(super) fn announce_deadline(&self, start: &StartRun) {
        let shared = &self.shared;
        let first = start.execution_timeout.into_iter().chain(start.run_timeout);
        if let Some(first) = first.min() {
            shared.hub.due.due_in(shared.runtime.instant(), first);
        }
    }

    fn handle<W>(&self, run_id: Uuid, watch: Option<Watch>) -> RunHandle<W> {
        match watch {
            Some(watch) => RunHandle::watched(self.clone(), run_id, watch),
            None => RunHandle::new(self.clone(), run_id),
        }
    }
}

impl<W: 'static> IntoFuture for Start<W> {
    type Output = Result<RunHandle<W>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
