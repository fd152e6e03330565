//! The same for many runs at once.

use axum::Json;
use axum::extract::State;
use everruns_durable::client::BatchOptions;
use everruns_durable::core::Timestamp;
use everruns_durable::persistence::model::RunFilter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Status;
use super::find::require_type_named;
use crate::App;
use crate::http::extract::Body;
use crate::http::guard::Caller;
use crate::http::problem::Problem;
use crate::http::views::{AttributeView, AttributeViews, attributes_from};
use crate::http::whole::Whole;

/// What to do to which runs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct BatchRequest {
    /// What to do.
    action: BatchAction,
    /// To which runs; one that selects everything is refused.
    filter: BatchFilter,
    /// Why, for the runs' histories.
    #[serde(default)]
    reason: String,
    /// Most runs; all that match where it is left out.
    #[schema(value_type = Option<u64>, minimum = 1)]
    limit: Option<Whole<1>>,
    /// Only tells which runs it would be, unless it is set to false.
    #[serde(default = "yes")]
    #[schema(default = true)]
    dry_run: bool,
}

const fn yes() -> bool {
    true
}

/// What to do.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum BatchAction {
    /// Ask them to stop.
    Cancel,
    /// End them at once.
    Terminate,
}

/// Which runs; all conditions must hold. Runs that have ended are left alone.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct BatchFilter {
    /// In any of these.
    #[serde(default)]
    status: Vec<Status>,
    /// Only this workflow type.
    workflow_type: Option<String>,
    /// Only runs with this key of yours.
    workflow_id: Option<String>,
    /// Only with all of these.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, AttributeView>, required = false)]
    search_attributes: AttributeViews,
    /// Only children of this run.
    parent: Option<Uuid>,
    /// Only started at or after.
    created_from: Option<Timestamp>,
    /// Only started before.
    created_until: Option<Timestamp>,
}

/// What a batch came to.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct BatchResult {
    /// Whether nothing was done.
    dry_run: bool,
    /// Runs that were asked or ended, or would be.
    affected: u64,
    /// Runs that matched and were left alone: they ended meanwhile, or take nothing more.
    passed_over: u64,
    /// In a dry run: which they would be, newest first.
    ids: Vec<Uuid>,
}

/// Cancels or terminates all runs that match; without `"dry_run": false` it only tells which they would be.
#[utoipa::path(post, path = "/workflows/batch", tag = "workflows", request_body = BatchRequest,
    responses((status = 200, description = "What it came to", body = BatchResult)))]
pub(in crate::http) async fn batch_workflows(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<BatchRequest>,
) -> Result<Json<BatchResult>, Problem> {
    require_type_named(&caller, request.filter.workflow_type.as_deref())?;
    let client = caller.acting(&app)?;
    let options = BatchOptions {
        limit: request
            .limit
            .map(|limit| usize::try_from(limit.0).unwrap_or(usize::MAX)),
        reason: request.reason,
        dry_run: request.dry_run,
    };
    let filter = request.filter.into();
    let outcome = match request.action {
        BatchAction::Cancel => client.batch_cancel(filter, options).await?,
        BatchAction::Terminate => client.batch_terminate(filter, options).await?,
    };
    Ok(Json(BatchResult {
        dry_run: request.dry_run,
        affected: outcome.affected,
        passed_over: outcome.passed_over,
        ids: outcome.runs,
    }))
}

impl From<BatchFilter> for RunFilter {
    fn from(filter: BatchFilter) -> Self {
        Self {
            statuses: filter.status.into_iter().map(Into::into).collect(),
            workflow_type: filter.workflow_type,
            business_id: filter.workflow_id,
            attributes: attributes_from(filter.search_attributes),
            parent: filter.parent,
            created_from: filter.created_from,
            created_until: filter.created_until,
            ..Self::default()
        }
    }
}
