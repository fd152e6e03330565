//! A run as it is shown.

use everruns_durable::core::{Payload, Timestamp};
use everruns_durable::persistence::model::{self, Blocked, ParentLink, RunRecord, WorkflowStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::views::{AttributeView, AttributeViews, FailureView, attributes_to};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum Status {
    /// Started, no turn taken yet.
    Pending,
    /// At least one turn taken.
    Running,
    /// Ended with a result.
    Completed,
    /// Ended with an error.
    Failed,
    /// Ended because it was asked to.
    Cancelled,
}

impl From<WorkflowStatus> for Status {
    fn from(status: WorkflowStatus) -> Self {
        match status {
            WorkflowStatus::Pending => Self::Pending,
            WorkflowStatus::Running => Self::Running,
            WorkflowStatus::Completed => Self::Completed,
            WorkflowStatus::Failed => Self::Failed,
            WorkflowStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Status> for WorkflowStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::Running => Self::Running,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

/// A run, in lists: without what it was given and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(in crate::http) struct RunSummary {
    /// The run's id.
    id: Uuid,
    /// Your own key for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    /// Which workflow.
    workflow_type: String,
    /// The version it is pinned to; empty when its type has none.
    version: String,
    /// Where it stands.
    status: Status,
    /// The run that started it as a child.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<Uuid>,
    /// Why it does not get on, if a build could not take its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<BlockedView>,
    /// When it was started.
    created_at: Timestamp,
    /// When its first turn was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Timestamp>,
}

impl From<model::RunSummary> for RunSummary {
    fn from(run: model::RunSummary) -> Self {
        Self {
            id: run.id,
            workflow_id: run.business_id,
            workflow_type: run.workflow_type,
            version: run.version,
            status: run.status.into(),
            parent_id: run.parent_id,
            blocked: run.blocked.map(Into::into),
            created_at: run.created_at,
            started_at: run.started_at,
            completed_at: run.completed_at,
        }
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(in crate::http) struct Run {
    /// The run's id.
    id: Uuid,
    /// Your own key for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    /// Which workflow.
    workflow_type: String,
    /// The version it is pinned to; empty when its type has none.
    version: String,
    /// Where it stands.
    status: Status,
    /// What it was given: the input of its current iteration.
    #[schema(value_type = Value)]
    input: Payload,
    /// Its result, once it has completed.
    #[serde(skip_serializing_if = "Payload::is_absent")]
    #[schema(value_type = Value)]
    result: Payload,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureView>,
    /// Its search attributes.
    #[schema(value_type = BTreeMap<String, AttributeView>)]
    search_attributes: AttributeViews,
    /// What was noted at its start.
    #[serde(skip_serializing_if = "Payload::is_absent")]
    #[schema(value_type = Value)]
    memo: Payload,
    /// The key it was started under.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    /// The run that started it as a child.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<ParentView>,
    /// Why it does not get on, if a build could not take its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<BlockedView>,
    /// Number of its last event.
    sequence: i64,
    /// From 0; continuing as new adds one.
    iteration: u32,
    /// From 0; a reset adds one.
    epoch: u32,
    /// When it must be over.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    /// When it was started.
    created_at: Timestamp,
    /// When its first turn was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Timestamp>,
    /// When it last changed.
    updated_at: Timestamp,
}

impl Run {
    pub(in crate::http) fn new(
        run: RunRecord,
        attributes: everruns_durable::persistence::model::Attributes,
    ) -> Self {
        Self {
            deadline: run.deadline(),
            id: run.id,
            workflow_id: run.business_id,
            workflow_type: run.workflow_type,
            version: run.version,
            status: run.status.into(),
            input: run.input,
            result: run.result,
            error: run.error.as_ref().map(FailureView::from),
            search_attributes: attributes_to(attributes),
            memo: run.memo,
            idempotency_key: run.idempotency_key,
            parent: run.parent.map(Into::into),
            blocked: run.blocked.map(Into::into),
            sequence: run.sequence,
            iteration: run.iteration,
            epoch: run.epoch,
            created_at: run.created_at,
            started_at: run.started_at,
            completed_at: run.completed_at,
            updated_at: run.updated_at,
        }
    }
}

/// A child's parent.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(in crate::http) struct ParentView {
    /// The parent's run.
    id: Uuid,
    /// The name it gave the child.
    child_id: String,
}

impl From<ParentLink> for ParentView {
    fn from(parent: ParentLink) -> Self {
        Self {
            id: parent.run_id,
            child_id: parent.child_id,
        }
    }
}

/// Why a run does not get on.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(in crate::http) struct BlockedView {
    /// The build that could not take its turn.
    build: String,
    /// Why.
    reason: String,
}

impl From<Blocked> for BlockedView {
    fn from(blocked: Blocked) -> Self {
        Self {
            build: blocked.build,
            reason: blocked.reason,
        }
    }
}
