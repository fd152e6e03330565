//! What a run waits for.

use axum::Json;
use axum::extract::State;
use everruns_durable::admin::{ActivityWait, Wait, Why};
use everruns_durable::core::{CircuitState, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Status;
use crate::App;
use crate::http::extract::RunId;
use crate::http::guard::Caller;
use crate::http::problem::Problem;
use crate::http::tasks::TaskState;
use crate::http::views::FailureView;

/// Why a run is where it is.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct WhyView {
    /// The run.
    id: Uuid,
    /// Where it stands.
    status: Status,
    /// All of it in one sentence.
    summary: String,
    /// Where its code waits, if that is known here: a file and a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Everything it waits for, what holds the rest back first.
    waits_for: Vec<WaitView>,
}

/// One thing that a run waits for.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct WaitView {
    /// In a sentence.
    description: String,
    #[serde(flatten)]
    what: WaitKind,
}

/// What kind of thing.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum WaitKind {
    /// Nothing: it has ended.
    Ended,
    /// Another build.
    Blocked { build: String, reason: String },
    /// Something of the run that the store cannot handle and that is set aside.
    SetAside {
        /// `deadline`, `timer`, `task`, `lease`, `message`, `turn` or `result`.
        what: String,
        reason: String,
        attempts: u32,
        next_try: Timestamp,
    },
    /// Its turn.
    Turn {
        since: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
        hosted: bool,
    },
    /// An activity.
    Activity(Box<ActivityView>),
    /// Time to pass.
    Timer {
        timer_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        fires_at: Option<Timestamp>,
    },
    /// A signal.
    Signal { name: String },
    /// A child.
    Child {
        child_id: String,
        run_id: Uuid,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<Status>,
    },
    /// Its own answer to an update.
    Update { update_id: String },
    /// A person.
    HumanTask { task_id: String },
    /// A condition over its own state, such as that an update has come.
    Condition {
        #[serde(skip_serializing_if = "Option::is_none")]
        what: Option<String>,
    },
    /// What only its code knows, perhaps.
    Unknown {
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// An activity that a run waits for.
#[derive(Debug, Serialize, ToSchema)]
struct ActivityView {
    activity_id: String,
    activity_type: String,
    task_id: Uuid,
    /// Where its task stands.
    state: TaskState,
    /// The attempt under way, or the next one.
    attempt: u32,
    max_attempts: u32,
    since: Timestamp,
    /// When something happens to it by the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<FailureView>,
    /// What stands before it in its run's line.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<String>,
    /// The breaker that holds it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    circuit_breaker: Option<String>,
    /// Whether a live worker runs this type.
    hosted: bool,
}

/// What exactly a run waits for.
#[utoipa::path(get, path = "/workflows/{id}/why", tag = "workflows",
    params(("id" = Uuid, Path, description = "The run")),
    responses((status = 200, description = "What it waits for", body = WhyView)))]
pub(in crate::http) async fn why_workflow(
    State(app): State<App>,
    caller: Caller,
    RunId(id): RunId,
) -> Result<Json<WhyView>, Problem> {
    caller.within_scope(&app, id).await?;
    let why = app.client().why(id).await?;
    Ok(Json(why.into()))
}

impl From<Why> for WhyView {
    fn from(why: Why) -> Self {
        let summary = match why.waits.as_slice() {
            [] => "the run waits for nothing that is known".to_owned(),
            [one] => format!("the run waits for {one}"),
            [first, rest @ ..] => format!("the run waits for {first}; and {} more", rest.len()),
        };
        Self {
            id: why.run_id,
            status: why.status.into(),
            summary,
            code: why.code,
            waits_for: why.waits.into_iter().map(WaitView::from).collect(),
        }
    }
}

impl From<Wait> for WaitView {
    fn from(wait: Wait) -> Self {
        let description = wait.to_string();
        let what = match wait {
            Wait::Ended { .. } => WaitKind::Ended,
            Wait::Blocked { build, reason } => WaitKind::Blocked { build, reason },
            Wait::SetAside(aside) => WaitKind::SetAside {
                what: aside.kind.as_str().to_owned(),
                reason: aside.reason,
                attempts: aside.attempts,
                next_try: aside.next_try,
            },
            Wait::Turn {
                since,
                owner,
                hosted,
            } => WaitKind::Turn {
                since,
                owner,
                hosted,
            },
            Wait::Activity(wait) => WaitKind::Activity(Box::new((*wait).into())),
            Wait::Timer { timer_id, fires_at } => WaitKind::Timer { timer_id, fires_at },
            Wait::Signal { name } => WaitKind::Signal { name },
            Wait::Child {
                child_id,
                run_id,
                status,
            } => WaitKind::Child {
                child_id,
                run_id,
                status: status.map(Into::into),
            },
            Wait::Update { update_id } => WaitKind::Update { update_id },
            Wait::HumanTask { task_id } => WaitKind::HumanTask { task_id },
            Wait::Condition { what } => WaitKind::Condition { what },
            Wait::Unknown { reason } => WaitKind::Unknown {
                reason: Some(reason),
            },
            _ => WaitKind::Unknown { reason: None },
        };
        Self { description, what }
    }
}

impl From<ActivityWait> for ActivityView {
    fn from(wait: ActivityWait) -> Self {
        let open = wait
            .breaker
            .filter(|(_, state)| *state != CircuitState::Closed);
        Self {
            activity_id: wait.activity_id,
            activity_type: wait.activity_type,
            task_id: wait.task_id,
            state: wait.status.into(),
            attempt: wait.attempt,
            max_attempts: wait.max_attempts,
            since: wait.since,
            next_at: wait.next_at,
            claimed_by: wait.claimed_by,
            last_error: wait.last_error.as_ref().map(FailureView::from),
            behind: wait.behind,
            circuit_breaker: open.map(|(key, _)| key),
            hosted: wait.hosted,
        }
    }
}
