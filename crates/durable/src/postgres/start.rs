//! Starts.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use durable_core::{ActivityOptions, AttributeValue, Payload, PayloadError, TraceContext};
use serde::Serialize;
use uuid::Uuid;

use super::Within;
use crate::activity::Activity;
use crate::client::{Untyped, start_of};
use crate::codec::{PayloadCodec, encoded, known_as};
use crate::error::Kind;
use crate::persistence::model::{NewSignal, ReusePolicy, StartOutcome, StartRejection, StartRun};
use crate::persistence::postgres::{DEFAULT_SCHEMA, start_run};
use crate::workflow::{ActivityRequest, ActivityRun, WorkflowDefinition};
use crate::{Error, Result};

/// A run about to be started inside a transaction: a builder that is awaited and answers the run's id. Where a run with its
/// idempotency key exists, that one's.
#[must_use = "a start does nothing unless it is awaited"]
pub struct StartIn<'t, W> {
    within: Within<'t>,
    schema: String,
    codec: Option<Arc<dyn PayloadCodec>>,
    start: Result<StartRun, PayloadError>,
    workflow: PhantomData<fn() -> W>,
}

/// Starts a run inside a transaction.
#[allow(
    clippy::needless_pass_by_value,
    reason = "a call site reads better without a reference"
)]
pub fn start_in<'t, W: WorkflowDefinition>(
    transaction: impl Into<Within<'t>>,
    input: W::Input,
) -> StartIn<'t, W> {
    let start = Payload::from_value(&input).map(|input| start_of::<W>(Uuid::now_v7(), input));
    StartIn::new(transaction.into(), start)
}

/// Starts a run of a type known by name only; give it the [`version`](StartIn::version) that its code declares, if it does.
pub fn start_named_in<'t>(
    transaction: impl Into<Within<'t>>,
    workflow_type: impl Into<String>,
    input: Payload,
) -> StartIn<'t, Untyped> {
    let start = StartRun::new(Uuid::now_v7(), workflow_type, input);
    StartIn::new(transaction.into(), Ok(start))
}

/// Runs one activity, as a run of its own, if the transaction commits. The run's result is the activity's.
pub fn enqueue_in<'t, A: Activity>(
    transaction: impl Into<Within<'t>>,
    input: A::Input,
) -> StartIn<'t, ActivityRun<A>> {
    start_in(transaction, ActivityRequest::of::<A>(input))
}

/// [`enqueue_in`] of an activity known by name only.
pub fn enqueue_named_in<'t>(
    transaction: impl Into<Within<'t>>,
    activity_type: impl Into<String>,
    input: Payload,
    options: Option<ActivityOptions>,
) -> StartIn<'t, Untyped> {
    let request = ActivityRequest {
        activity_type: activity_type.into(),
        input,
        options,
    };
    start_named_in(
        transaction,
        ActivityRequest::<Payload>::WORKFLOW_TYPE,
        request.into(),
    )
}

impl<'t, W> StartIn<'t, W> {
    fn new(within: Within<'t>, start: Result<StartRun, PayloadError>) -> Self {
        Self {
            within,
            schema: DEFAULT_SCHEMA.to_owned(),
            codec: None,
            start,
            workflow: PhantomData,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut StartRun)) -> Self {
        if let Ok(start) = &mut self.start {
            change(start);
        }
        self
    }

    fn with_payload<T: Serialize>(
        mut self,
        value: &T,
        change: impl FnOnce(&mut StartRun, Payload),
    ) -> Self {
        match Payload::from_value(value) {
            Ok(payload) => self.with(|start| change(start, payload)),
            Err(error) => {
                self.start = self.start.and(Err(error));
                self
            }
        }
    }

    /// The schema of the engine's tables, where it is not `durable`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// The codec that the engines have: payloads are stored as they store them.
    pub fn codec(mut self, codec: Arc<dyn PayloadCodec>) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Your own id for the run, such as an order's number.
    pub fn workflow_id(self, id: impl Into<String>) -> Self {
        self.with(|start| start.business_id = Some(id.into()))
    }

    /// What happens when that id is used again.
    pub fn reuse_policy(self, policy: ReusePolicy) -> Self {
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
    pub fn memo<T: Serialize>(self, memo: &T) -> Self {
        self.with_payload(memo, |start, memo| start.memo = memo)
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
        self.with_payload(payload, |start, payload| {
            start.signals.push(NewSignal {
                signal_id: Uuid::now_v7(),
                signal_type: signal_type.into(),
                payload,
            });
        })
    }

    async fn send(self) -> Result<Uuid> {
        let start = self
            .start
            .map_err(|error| Error::payload("the start", error))?;
        let outcome = match self.codec {
            None => start_run(self.within, &self.schema, start).await?,
            Some(codec) => start_encoded(self.within, &self.schema, &*codec, start).await?,
        };
        match outcome {
            StartOutcome::Started { run_id } | StartOutcome::Existing { run_id } => Ok(run_id),
            StartOutcome::Rejected(rejection) => Err(Kind::Start(rejection).into()),
        }
    }
}

/// A start stays the same start, however its input is encoded: where a key is taken, it is compared under each number it may be known by.
async fn start_encoded(
    within: Within<'_>,
    schema: &str,
    codec: &dyn PayloadCodec,
    start: StartRun,
) -> Result<StartOutcome> {
    let forms = known_as(codec, &start);
    let mut start = encoded(codec, start).await?;
    let mut refused = None;
    for form in forms {
        start.sealed_fingerprint = Some(form);
        match start_run(within, schema, start.clone()).await? {
            conflict @ StartOutcome::Rejected(StartRejection::KeyConflict { .. }) => {
                refused = Some(conflict);
            }
            outcome => return Ok(outcome),
        }
    }
    Ok(refused.expect("a start has a fingerprint"))
}

impl StartIn<'_, Untyped> {
    /// The version that the workflow's code declares.
    pub fn version(self, version: impl Into<String>) -> Self {
        self.with(|start| start.version = version.into())
    }
}

impl<'t, W: 'static> IntoFuture for StartIn<'t, W> {
    type Output = Result<Uuid>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 't>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
