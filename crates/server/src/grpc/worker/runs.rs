//! Starting runs, and where they stand.

use std::time::Duration;

use durable_proto::convert::{
    Malformed, attributes, failure_message, named, payload, payload_bytes,
};
use durable_proto::v1;
use everruns_durable::Client;
use everruns_durable::persistence::model::{ReusePolicy, RunRecord};
use futures_util::future::join_all;
use tonic::Status;
use uuid::Uuid;

use super::convert::instant_ms;
use crate::App;
use crate::auth::{Denied, Principal};
use crate::grpc::status;
use crate::namesake;

/// Most runs of one call.
const RUNS_MAX: usize = 1_000;

pub(super) async fn create(
    app: &App,
    principal: &Principal,
    request: v1::CreateDurableWorkflowRequest,
) -> Result<v1::CreateDurableWorkflowResponse, Status> {
    at_most("workflows", request.workflows.len())?;
    for new in &request.workflows {
        let allowed = principal.require_type(&new.workflow_type);
        allowed.map_err(|error| status::denied(&error))?;
    }
    let client = app
        .acting(principal, "CreateDurableWorkflow", None)
        .map_err(|error| status::library(&error))?;
    let starts = request.workflows.into_iter().enumerate();
    let started = starts.map(|(index, new)| start(&client, principal, index, new));
    let workflows: Result<Vec<_>, Status> = join_all(started).await.into_iter().collect();
    let workflows = workflows?;
    Ok(v1::CreateDurableWorkflowResponse { workflows })
}

async fn start(
    client: &Client,
    principal: &Principal,
    index: usize,
    new: v1::NewWorkflow,
) -> Result<v1::CreatedWorkflow, Status> {
    let misread = |mistake: Malformed| {
        let mistake = mistake.within(&format!("workflows[{index}]"));
        status::malformed(&mistake)
    };
    let workflow_type = named("workflow_type", new.workflow_type).map_err(misread)?;
    let input = payload("input", new.input).map_err(misread)?;
    if workflow_type == durable_program::PROGRAM_TYPE {
        let checked = durable_program::check(&input);
        checked.map_err(|mistake| misread(Malformed::new("input", mistake.to_string())))?;
    }
    let refused = |denied: Denied| {
        Ok(v1::CreatedWorkflow {
            refusal: denied.to_string(),
            ..v1::CreatedWorkflow::default()
        })
    };
    let store = client.store().as_ref();
    let workflow_id = Some(&*new.workflow_id).filter(|id| !id.is_empty());
    let checked = namesake::check(store, principal, workflow_id).await;
    if let Err(denied) = checked.map_err(|error| status::store(&error))? {
        return refused(denied);
    }
    let run_id = Uuid::now_v7();
    let mut start = client.start_named(workflow_type, input).run_id(run_id);
    start = start.reuse_policy(reuse_policy(new.reuse_policy).map_err(misread)?);
    if !new.workflow_id.is_empty() {
        start = start.workflow_id(new.workflow_id);
    }
    if !new.idempotency_key.is_empty() {
        start = start.idempotency_key(new.idempotency_key);
    }
    if let Some(ms) = new.execution_timeout_ms {
        start = start.execution_timeout(Duration::from_millis(ms));
    }
    if let Some(ms) = new.run_timeout_ms {
        start = start.run_timeout(Duration::from_millis(ms));
    }
    let given = attributes("search_attributes", new.search_attributes).map_err(misread)?;
    for (name, value) in given {
        if let Some(value) = value {
            start = start.attribute(name, value);
        }
    }
    if !new.memo.is_empty() {
        start = start.memo(&payload("memo", new.memo).map_err(misread)?);
    }
    match start.await {
        Ok(handle) => Ok(v1::CreatedWorkflow {
            run_id: handle.id().to_string(),
            created: handle.id() == run_id,
            refusal: String::new(),
        }),
        Err(error) if error.is_conflict() || error.is_run_finished() => {
            let hidden = namesake::refusal(store, principal, &error).await;
            match hidden.map_err(|error| status::store(&error))? {
                Some(denied) => refused(denied),
                None => Ok(v1::CreatedWorkflow {
                    refusal: error.to_string(),
                    ..v1::CreatedWorkflow::default()
                }),
            }
        }
        Err(error) => Err(status::library(&error)),
    }
}

fn reuse_policy(number: i32) -> Result<ReusePolicy, Malformed> {
    use v1::ReusePolicy as P;
    Ok(match P::try_from(number) {
        Ok(P::Unspecified | P::AllowDuplicate) => ReusePolicy::AllowDuplicate,
        Ok(P::RejectDuplicate) => ReusePolicy::RejectDuplicate,
        Ok(P::AllowDuplicateFailedOnly) => ReusePolicy::AllowDuplicateFailedOnly,
        Ok(P::TerminateIfRunning) => ReusePolicy::TerminateIfRunning,
        Err(_) => {
            return Err(Malformed::new(
                "reuse_policy",
                format!("{number} is no policy"),
            ));
        }
    })
}

pub(super) async fn status(
    app: &App,
    principal: &Principal,
    request: v1::GetDurableWorkflowStatusRequest,
) -> Result<v1::GetDurableWorkflowStatusResponse, Status> {
    at_most("run_ids", request.run_ids.len())?;
    let asked = request.run_ids.into_iter().map(|run_id| async {
        let id = durable_proto::convert::uuid("run_ids", &run_id);
        let id = id.map_err(|mistake| status::malformed(&mistake))?;
        let found = match app.client().get(id).await {
            Ok(run) => Some(run),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(status::library(&error)),
        };
        // What is out of scope is not there.
        let found = found.filter(|run| principal.may_use_type(&run.workflow_type));
        Ok(found.map_or_else(|| missing(run_id), standing))
    });
    let workflows: Result<Vec<_>, Status> = join_all(asked).await.into_iter().collect();
    let workflows = workflows?;
    Ok(v1::GetDurableWorkflowStatusResponse { workflows })
}

fn missing(run_id: String) -> v1::WorkflowStatus {
    v1::WorkflowStatus {
        run_id,
        ..v1::WorkflowStatus::default()
    }
}

fn standing(run: RunRecord) -> v1::WorkflowStatus {
    v1::WorkflowStatus {
        run_id: run.id.to_string(),
        found: true,
        status: run.status.as_str().to_owned(),
        workflow_type: run.workflow_type,
        workflow_id: run.business_id.unwrap_or_default(),
        result: payload_bytes(run.result),
        error: run.error.map(failure_message),
        created_at_ms: instant_ms(run.created_at),
        completed_at_ms: run.completed_at.map(instant_ms),
    }
}

fn at_most(what: &str, count: usize) -> Result<(), Status> {
    if count <= RUNS_MAX {
        return Ok(());
    }
    let message =
        format!("{what}: {count} in one call, the limit is {RUNS_MAX}; send them in several");
    Err(Status::resource_exhausted(message))
}
