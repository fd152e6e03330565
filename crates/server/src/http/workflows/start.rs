//! Starting runs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use everruns_durable::Client;
use everruns_durable::client::{Start, Untyped};
use everruns_durable::core::Payload;
use everruns_durable::persistence::model::ReusePolicy;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Run;
use super::talk::SignalRequest;
use crate::App;
use crate::http::extract::{Body, IdempotencyKey};
use crate::http::guard::Caller;
use crate::http::problem::{Code, Problem};
use crate::http::views::{AttributeView, AttributeViews, attributes_from};
use crate::http::whole::Whole;
use crate::namesake;

/// A run to start.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct StartRequest {
    /// Which workflow.
    #[schema(min_length = 1, max_length = 200, example = "durable.program")]
    workflow_type: String,
    /// Its input; null where it is left out.
    #[serde(default)]
    #[schema(value_type = Value, required = false, example = json!({"steps": [{"do": "return", "value": 1}]}))]
    input: Payload,
    /// Your own key for the run, such as an order's number.
    #[schema(min_length = 1, max_length = 512)]
    workflow_id: Option<String>,
    /// What happens when the key is used again.
    #[serde(default)]
    reuse_policy: Reuse,
    /// One run per key, whoever asks and how often. The header `Idempotency-Key` does the same.
    #[schema(min_length = 1, max_length = 512)]
    idempotency_key: Option<String>,
    /// What the run can be found by.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeView>, required = false)]
    search_attributes: AttributeViews,
    /// Noted with the run; it never changes.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    memo: Payload,
    /// Time for the run, all its iterations together.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 3_153_600_000_000_u64)]
    execution_timeout_ms: Option<TimeoutMs>,
    /// Time for each iteration.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 3_153_600_000_000_u64)]
    run_timeout_ms: Option<TimeoutMs>,
}

/// From a millisecond to a hundred years.
type TimeoutMs = Whole<1, 3_153_600_000_000>;

/// What happens when a workflow id is used again.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(in crate::http) enum Reuse {
    /// Always start another run.
    #[default]
    AllowDuplicate,
    /// Refuse if any run has it.
    RejectDuplicate,
    /// Start only if the last run with it failed.
    AllowDuplicateFailedOnly,
    /// Terminate the last run if it has not ended, then start.
    TerminateIfRunning,
}

impl From<Reuse> for ReusePolicy {
    fn from(reuse: Reuse) -> Self {
        match reuse {
            Reuse::AllowDuplicate => Self::AllowDuplicate,
            Reuse::RejectDuplicate => Self::RejectDuplicate,
            Reuse::AllowDuplicateFailedOnly => Self::AllowDuplicateFailedOnly,
            Reuse::TerminateIfRunning => Self::TerminateIfRunning,
        }
    }
}

/// A start with a signal on board.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SignalWithStartRequest {
    /// The run to start, unless it is there already.
    start: StartRequest,
    /// The signal that it finds waiting.
    signal: SignalRequest,
}

/// Starts a run. Sent again with the same key, it is the same run.
#[utoipa::path(post, path = "/workflows", tag = "workflows", request_body = StartRequest,
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 512, pattern = "^[!-~]+$", description = "One run per key")),
    responses((status = 201, description = "The run", body = Run)))]
pub(in crate::http) async fn start_workflow(
    State(app): State<App>,
    caller: Caller,
    IdempotencyKey(key): IdempotencyKey,
    Body(request): Body<StartRequest>,
) -> Result<(StatusCode, Json<Run>), Problem> {
    let request = request.check(&caller, key)?;
    let start = request.begin(&app, &caller).await?;
    started(&app, &caller, start).await
}

/// Starts a run that finds a signal waiting. A run that is there already, by idempotency key or workflow id, gets the signal as well.
#[utoipa::path(post, path = "/workflows/signal-with-start", tag = "workflows", request_body = SignalWithStartRequest,
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 512, pattern = "^[!-~]+$", description = "One run and one signal per key")),
    responses((status = 201, description = "The run", body = Run)))]
pub(in crate::http) async fn signal_with_start(
    State(app): State<App>,
    caller: Caller,
    IdempotencyKey(key): IdempotencyKey,
    Body(request): Body<SignalWithStartRequest>,
) -> Result<(StatusCode, Json<Run>), Problem> {
    let SignalWithStartRequest { start, signal } = request;
    let start = start.check(&caller, key)?;
    let signal_type = signal.signal_type;
    let signal_id = start
        .idempotency_key
        .as_deref()
        .map(|key| id_of(&["signal-with-start", key]));
    let start = start.begin(&app, &caller).await?;
    let start = match signal_id {
        Some(id) => start.signal_as(id, signal_type, &signal.payload),
        None => start.signal(signal_type, &signal.payload),
    };
    started(&app, &caller, start).await
}

/// Starts it and shows the run, whoever started it first.
async fn started(
    app: &App,
    caller: &Caller,
    start: Start<Untyped>,
) -> Result<(StatusCode, Json<Run>), Problem> {
    let run = match start.await {
        Ok(run) => run,
        Err(error) => {
            let hidden = namesake::refusal(app.store().as_ref(), caller, &error).await?;
            return Err(hidden.map_or_else(|| error.into(), Problem::from));
        }
    };
    super::show(app, run.id())
        .await
        .map(|run| (StatusCode::CREATED, Json(run)))
}

impl StartRequest {
    /// A start may signal, end or show the run that has its workflow id already: it has to be within the caller's scope too.
    async fn begin(self, app: &App, caller: &Caller) -> Result<Start<Untyped>, Problem> {
        let store = app.store().as_ref();
        namesake::check(store, caller, self.workflow_id.as_deref()).await??;
        Ok(self.into_start(&caller.acting(app)?))
    }

    /// Refuses what is out of scope or can be seen to be wrong now.
    fn check(mut self, caller: &Caller, header: Option<String>) -> Result<Self, Problem> {
        caller.require_type(&self.workflow_type)?;
        check_input(&self.workflow_type, &self.input)?;
        match (&self.idempotency_key, header) {
            (Some(own), Some(header)) if *own != header => {
                return Err(Problem::new(
                    Code::Conflict,
                    "idempotency_key and the header Idempotency-Key differ",
                )
                .hint("send one of them"));
            }
            (None, Some(header)) => self.idempotency_key = Some(header),
            _ => {}
        }
        Ok(self)
    }

    fn into_start(self, client: &Client) -> Start<Untyped> {
        let input = present(self.input);
        let mut start = client
            .start_named(self.workflow_type, input)
            .reuse_policy(self.reuse_policy.into());
        if let Some(id) = self.workflow_id {
            start = start.workflow_id(id);
        }
        if let Some(key) = self.idempotency_key {
            start = start.idempotency_key(key);
        }
        for (name, value) in attributes_from(self.search_attributes) {
            start = start.attribute(name, value);
        }
        if !self.memo.is_absent() {
            start = start.memo(&self.memo);
        }
        if let Some(timeout) = self.execution_timeout_ms {
            start = start.execution_timeout(Duration::from_millis(timeout.0));
        }
        if let Some(timeout) = self.run_timeout_ms {
            start = start.run_timeout(Duration::from_millis(timeout.0));
        }
        start
    }
}

/// What was left out is null: a workflow's input is always there.
pub(in crate::http) fn present(input: Payload) -> Payload {
    if input.is_absent() {
        Payload::null()
    } else {
        input
    }
}

/// A mistake in a program is told to whoever starts it, not found by the run.
pub(in crate::http) fn check_input(workflow_type: &str, input: &Payload) -> Result<(), Problem> {
    if workflow_type != durable_program::PROGRAM_TYPE {
        return Ok(());
    }
    durable_program::check(&present(input.clone())).map_err(|mistake| {
        Problem::new(Code::InvalidProgram, mistake.to_string())
            .hint("docs/guide/program.md has the language")
    })
}

/// An id that is the same for the same words.
pub(in crate::http) fn id_of(words: &[&str]) -> Uuid {
    let mut hash = Sha256::new();
    for word in words {
        hash.update(word.len().to_le_bytes());
        hash.update(word);
    }
    let digest = hash.finalize();
    uuid::Builder::from_custom_bytes(std::array::from_fn(|at| digest[at])).into_uuid()
}

/// A new id.
pub(in crate::http) fn new_id() -> Uuid {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has randomness to give");
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}
