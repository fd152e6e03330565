//! What load balancers and supervisors ask, without a token: `/livez`, `/healthz`, `/readyz`.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;

use crate::App;

/// How long the store may take to answer before this process is not ready.
const STORE_WAIT: Duration = Duration::from_secs(2);

/// A probe's answer.
#[derive(Debug, Serialize)]
pub(super) struct Probe {
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
}

/// The process is there.
pub(super) async fn livez() -> Json<Probe> {
    Json(Probe {
        status: "ok",
        reasons: Vec::new(),
    })
}

/// Requests should come here: the store answers, and the process is not about to go.
pub(super) async fn readyz(State(app): State<App>) -> (StatusCode, Json<Probe>) {
    let mut reasons = Vec::new();
    if app.draining().is_cancelled() {
        reasons.push("the server is draining".to_owned());
    }
    match tokio::time::timeout(STORE_WAIT, app.store().clock(None)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            // The error may name hosts and users; that is for the log.
            tracing::warn!(%error, "the store does not answer");
            reasons.push("the store does not answer".to_owned());
        }
        Err(_) => reasons.push("the store does not answer in time".to_owned()),
    }
    if reasons.is_empty() {
        return (
            StatusCode::OK,
            Json(Probe {
                status: "ok",
                reasons,
            }),
        );
    }
    let status = "unavailable";
    (
        StatusCode::SERVICE_UNAVAILABLE,
        Json(Probe { status, reasons }),
    )
}
