//! Finding runs.

use axum::Json;
use axum::extract::State;
use everruns_durable::core::Timestamp;
use everruns_durable::persistence::model::{CountLimit, Page, RunFilter, WorkflowStatus};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{Run, RunSummary};
use crate::App;
use crate::http::cursor::{self, List};
use crate::http::extract::{Params, RunId};
use crate::http::guard::Caller;
use crate::http::problem::{Code, Problem};
use crate::http::views::{AttributeViews, attributes_from};

/// Which runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ListParams {
    /// One status, or several with commas between them.
    #[param(
        pattern = "^(pending|running|completed|failed|cancelled)(,(pending|running|completed|failed|cancelled))*$",
        example = "running,failed"
    )]
    status: Option<String>,
    /// Only this workflow type.
    workflow_type: Option<String>,
    /// Only runs with this key of yours.
    workflow_id: Option<String>,
    /// Only with all of these search attributes: a JSON object.
    #[param(value_type = Option<String>, example = r#"{"customer":"A1"}"#)]
    attributes: Option<String>,
    /// Only children of this run.
    parent: Option<Uuid>,
    /// Only started at or after.
    created_from: Option<Timestamp>,
    /// Only started before.
    created_until: Option<Timestamp>,
    /// Only runs that a build could not take on.
    blocked: Option<bool>,
    /// Most runs: 50 unless given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// A page of runs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct RunList {
    workflows: Vec<RunSummary>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Whether the page ended early because as many runs were examined as one request may examine;
    /// go on with `next_cursor`, or narrow the filter.
    partial: bool,
}

/// Which runs to count.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct CountParams {
    /// One status, or several with commas between them.
    #[param(
        pattern = "^(pending|running|completed|failed|cancelled)(,(pending|running|completed|failed|cancelled))*$",
        example = "running,failed"
    )]
    status: Option<String>,
    /// Only this workflow type.
    workflow_type: Option<String>,
    /// Only runs with this key of yours.
    workflow_id: Option<String>,
    /// Only with all of these search attributes: a JSON object.
    #[param(value_type = Option<String>, example = r#"{"customer":"A1"}"#)]
    attributes: Option<String>,
    /// Only children of this run.
    parent: Option<Uuid>,
    /// Only started at or after.
    created_from: Option<Timestamp>,
    /// Only started before.
    created_until: Option<Timestamp>,
    /// Only runs that a build could not take on.
    blocked: Option<bool>,
    /// Count to the end, instead of up to 10,000. A count that takes too long is refused with
    /// `query_too_broad`.
    exact: Option<bool>,
    /// Ignored.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Ignored.
    cursor: Option<String>,
}

/// How many.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Count {
    /// How many were counted.
    count: u64,
    /// Whether these are all; otherwise there are at least as many.
    exact: bool,
}

/// Runs, newest first. With a token that is limited to some types, a page may hold fewer than its limit and yet not be the last.
/// Inputs and results are in the run itself: `GET /workflows/{id}`.
#[utoipa::path(get, path = "/workflows", tag = "workflows", params(ListParams),
    responses((status = 200, description = "A page", body = RunList)))]
pub(in crate::http) async fn list_workflows(
    State(app): State<App>,
    caller: Caller,
    Params(params): Params<ListParams>,
) -> Result<Json<RunList>, Problem> {
    let page = Page {
        limit: limit(params.limit)?,
        offset: 0,
    };
    let found = app.client().list(params.filter()?, page).await?;
    let visible = found
        .runs
        .into_iter()
        .filter(|run| caller.may_use_type(&run.workflow_type));
    Ok(Json(RunList {
        workflows: visible.map(RunSummary::from).collect(),
        next_cursor: found.next.map(|id| cursor::after(List::Runs, &id)),
        partial: found.partial,
    }))
}

/// How many runs there are of a kind, up to 10,000 unless `exact` is asked for; `limit` and `cursor` change nothing.
#[utoipa::path(get, path = "/workflows/count", tag = "workflows", params(CountParams),
    responses((status = 200, description = "How many", body = Count)))]
pub(in crate::http) async fn count_workflows(
    State(app): State<App>,
    caller: Caller,
    Params(params): Params<CountParams>,
) -> Result<Json<Count>, Problem> {
    require_type_named(&caller, params.workflow_type.as_deref())?;
    limit(params.limit)?;
    let how_far = if params.exact.unwrap_or_default() {
        CountLimit::Exact
    } else {
        CountLimit::Capped
    };
    let filter = params.into_list().filter()?.before(None);
    let counted = app.client().count(filter, how_far).await?;
    Ok(Json(Count {
        count: counted.count,
        exact: counted.exact,
    }))
}

/// A run as it stands.
#[utoipa::path(get, path = "/workflows/{id}", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "The run", body = Run)))]
pub(in crate::http) async fn get_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<Json<Run>, Problem> {
    caller.within_scope(&app, id).await?;
    super::show(&app, id).await.map(Json)
}

impl CountParams {
    /// The same filters as those of a list.
    fn into_list(self) -> ListParams {
        ListParams {
            status: self.status,
            workflow_type: self.workflow_type,
            workflow_id: self.workflow_id,
            attributes: self.attributes,
            parent: self.parent,
            created_from: self.created_from,
            created_until: self.created_until,
            blocked: self.blocked,
            limit: self.limit,
            cursor: self.cursor,
        }
    }
}

impl ListParams {
    fn filter(&self) -> Result<RunFilter, Problem> {
        Ok(RunFilter {
            statuses: statuses(self.status.as_deref())?,
            workflow_type: self.workflow_type.clone(),
            business_id: self.workflow_id.clone(),
            attributes: attributes_from(attributes(self.attributes.as_deref())?),
            parent: self.parent,
            created_from: self.created_from,
            created_until: self.created_until,
            blocked: self.blocked.unwrap_or_default(),
            before: cursor::place(List::Runs, self.cursor.as_deref())?,
        })
    }
}

/// What is done to all types at once cannot be done with a token that is limited to some.
pub(in crate::http) fn require_type_named(
    caller: &Caller,
    workflow_type: Option<&str>,
) -> Result<(), Problem> {
    match workflow_type {
        Some(workflow_type) => Ok(caller.require_type(workflow_type)?),
        None if caller.scopes.workflow_types.is_none() => Ok(()),
        None => Err(Problem::new(
            Code::Forbidden,
            format!("token {:?} is limited to some workflow types", caller.name),
        )
        .hint("name one of them in workflow_type")),
    }
}

/// The size of a page within its bounds.
pub(in crate::http) fn limit(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(Page::default().limit),
        Some(limit @ 1..=1000) => Ok(limit),
        Some(limit) => Err(Problem::new(
            Code::InvalidParameter,
            format!("limit is {limit}; it has to be from 1 to 1000"),
        )),
    }
}

fn statuses(text: Option<&str>) -> Result<Vec<WorkflowStatus>, Problem> {
    let names = text.into_iter().flat_map(|text| text.split(','));
    names
        .map(|name| {
            WorkflowStatus::parse(name).ok_or_else(|| {
                Problem::new(Code::InvalidParameter, format!("{name:?} is no status"))
                    .hint("there are pending, running, completed, failed and cancelled")
            })
        })
        .collect()
}

fn attributes(text: Option<&str>) -> Result<AttributeViews, Problem> {
    let Some(text) = text else {
        return Ok(AttributeViews::new());
    };
    serde_json::from_str(text).map_err(|error| {
        Problem::new(Code::InvalidParameter, format!("attributes: {error}"))
            .hint(r#"send a JSON object, such as {"customer":"A1","amount":3}"#)
    })
}
