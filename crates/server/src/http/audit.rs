//! Who changed what.

use axum::Json;
use axum::extract::State;
use everruns_durable::core::{Payload, Timestamp};
use everruns_durable::persistence::model::{AuditFilter, AuditKind, AuditRecord, Page};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::cursor::{self, List};
use super::extract::Params;
use super::guard::Caller;
use super::problem::Problem;
use super::workflows::find::limit;
use crate::App;

/// Which changes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditParams {
    /// Only by whoever has this name: a token's, or `anonymous` where none is asked for.
    actor: Option<String>,
    /// Only by this operation, such as `terminate_workflow`.
    action: Option<String>,
    /// Only of this kind of thing.
    #[param(inline)]
    target_kind: Option<TargetKind>,
    /// Only of what has this id.
    target_id: Option<String>,
    /// Only by this request.
    request_id: Option<Uuid>,
    /// Only at or after.
    from: Option<Timestamp>,
    /// Only before.
    until: Option<Timestamp>,
    /// Most changes: 50 unless given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// What kind of thing was changed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TargetKind {
    Run,
    DeadLetter,
    /// All that a purge deleted.
    DeadLetters,
    Schedule,
    Worker,
    /// A circuit breaker.
    Breaker,
}

/// A change.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditView {
    id: Uuid,
    /// When, by the store's clock.
    at: Timestamp,
    /// All that one request changed has this in common.
    request_id: Uuid,
    /// Who: a token's name, or `anonymous` where none is asked for.
    actor: String,
    /// In which role.
    role: String,
    /// By which operation.
    action: String,
    /// The request's `Idempotency-Key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    /// What kind of thing was changed.
    target_kind: TargetKind,
    /// Which one: a run's or a letter's id, a schedule's, a worker's, a breaker's key; of a purge the activity type, or `*`.
    target_id: String,
    /// More about it, such as the reason.
    #[serde(skip_serializing_if = "Payload::is_absent")]
    #[schema(value_type = Value, required = false)]
    detail: Payload,
}

/// A page of changes, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditList {
    audit: Vec<AuditView>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Who changed what through this server, newest first.
#[utoipa::path(get, path = "/audit", tag = "audit", params(AuditParams),
    responses((status = 200, description = "A page", body = AuditList)))]
pub(super) async fn list_audit(
    State(app): State<App>,
    _: Caller,
    Params(params): Params<AuditParams>,
) -> Result<Json<AuditList>, Problem> {
    let limit = limit(params.limit)?;
    let filter = params.filter()?;
    let rows = app
        .client()
        .list_audit(filter.clone(), Page::first(limit))
        .await?;
    let next = match rows.last() {
        Some(last) if rows.len() == limit => {
            let before = Some(last.id);
            let rest = AuditFilter { before, ..filter };
            let more = !app
                .client()
                .list_audit(rest, Page::first(1))
                .await?
                .is_empty();
            before.filter(|_| more)
        }
        _ => None,
    };
    Ok(Json(AuditList {
        audit: rows.into_iter().map(AuditView::from).collect(),
        next_cursor: next.map(|id| cursor::after(List::Audit, &id)),
    }))
}

impl AuditParams {
    fn filter(self) -> Result<AuditFilter, Problem> {
        Ok(AuditFilter {
            before: cursor::place(List::Audit, self.cursor.as_deref())?,
            actor: self.actor,
            action: self.action,
            kind: self.target_kind.map(Into::into),
            target_id: self.target_id,
            request_id: self.request_id,
            from: self.from,
            until: self.until,
        })
    }
}

impl From<AuditRecord> for AuditView {
    fn from(row: AuditRecord) -> Self {
        Self {
            id: row.id,
            at: row.at,
            request_id: row.request_id,
            actor: row.actor,
            role: row.role,
            action: row.action,
            idempotency_key: row.idempotency_key,
            target_kind: row.target.kind.into(),
            target_id: row.target.id,
            detail: row.detail,
        }
    }
}

impl From<AuditKind> for TargetKind {
    fn from(kind: AuditKind) -> Self {
        match kind {
            AuditKind::Run => Self::Run,
            AuditKind::DeadLetter => Self::DeadLetter,
            AuditKind::DeadLetters => Self::DeadLetters,
            AuditKind::Schedule => Self::Schedule,
            AuditKind::Worker => Self::Worker,
            AuditKind::Breaker => Self::Breaker,
        }
    }
}

impl From<TargetKind> for AuditKind {
    fn from(kind: TargetKind) -> Self {
        match kind {
            TargetKind::Run => Self::Run,
            TargetKind::DeadLetter => Self::DeadLetter,
            TargetKind::DeadLetters => Self::DeadLetters,
            TargetKind::Schedule => Self::Schedule,
            TargetKind::Worker => Self::Worker,
            TargetKind::Breaker => Self::Breaker,
        }
    }
}
