//! Circuit breakers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use everruns_durable::core::Timestamp;
use everruns_durable::core::breaker::CircuitState;
use everruns_durable::persistence::model::BreakerRecord;
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::Name;
use super::guard::Caller;
use super::problem::{Code, Problem};
use crate::App;

/// A circuit breaker.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BreakerView {
    /// `activity:TYPE`, or a shared name such as `external:openai`.
    key: String,
    /// Where it stands.
    state: BreakerState,
    /// Failures within the window.
    failure_count: u32,
    /// Successes since it let some through again.
    success_count: u32,
    /// When it last opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    opened_at: Option<Timestamp>,
    /// When it last changed.
    updated_at: Timestamp,
}

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BreakerState {
    /// Lets everything through.
    Closed,
    /// Lets nothing through.
    Open,
    /// Lets a few through, to see.
    HalfOpen,
}

impl From<BreakerRecord> for BreakerView {
    fn from(breaker: BreakerRecord) -> Self {
        Self {
            key: breaker.key,
            state: match breaker.state {
                CircuitState::Closed => BreakerState::Closed,
                CircuitState::Open => BreakerState::Open,
                CircuitState::HalfOpen => BreakerState::HalfOpen,
            },
            failure_count: breaker.failure_count,
            success_count: breaker.success_count,
            opened_at: breaker.opened_at,
            updated_at: breaker.updated_at,
        }
    }
}

/// Circuit breakers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BreakerList {
    circuit_breakers: Vec<BreakerView>,
}

/// Circuit breakers, by key. One that never saw a failure is not listed.
#[utoipa::path(get, path = "/circuit-breakers", tag = "circuit breakers",
    responses((status = 200, description = "The breakers", body = BreakerList)))]
pub(super) async fn list_breakers(
    State(app): State<App>,
    _: Caller,
) -> Result<Json<BreakerList>, Problem> {
    let breakers = app.store().list_breakers().await?;
    let circuit_breakers = breakers.into_iter().map(BreakerView::from).collect();
    Ok(Json(BreakerList { circuit_breakers }))
}

/// Forgets what a breaker has seen, which closes it.
#[utoipa::path(post, path = "/circuit-breakers/{key}/reset", tag = "circuit breakers",
    params(("key" = String, Path, description = "The breaker")),
    responses((status = 204, description = "It is closed")))]
pub(super) async fn reset_breaker(
    State(app): State<App>,
    caller: Caller,
    Name(key): Name,
) -> Result<StatusCode, Problem> {
    match key.strip_prefix("activity:") {
        Some(activity_type) => caller.require_queue(activity_type)?,
        None => caller.require_unscoped("a circuit breaker of many activities")?,
    }
    if caller.acting(&app)?.store().reset_breaker(&key).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail = format!("there is no circuit breaker {key:?}");
    Err(Problem::new(Code::NotFound, detail).hint("GET /circuit-breakers lists those there are"))
}
