//! Starting runs, and where they stand.

use std::time::Duration;

use durable_proto::convert::{
    Malformed, attributes, failure_message, named, payload, payload_bytes,
};
use durable_proto::v1;
use everruns_durable::Client;
use everruns_durable::client::{Start, Untyped};
use everruns_durable::persistence::model::{ReusePolicy, RunRecord};
use futures_util::future::join_all;
use tonic::Status;
use uuid::Uuid;

use super::convert::instant_ms;
use crate::App;
use crate::auth::Principal;
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
    // All of them, before the first is started.
    let new = request.workflows.into_iter().enumerate();
    let plans = new.map(|(index, new)| {
        let place = format!("workflows[{index}]");
        let plan = planned(&client, new);
        let plan = plan.map_err(|mistake| status::malformed(&mistake.within(&place)))?;
        match plan.start.check() {
            Ok(()) => Ok(plan),
            Err(error) => Err(Status::invalid_argument(format!("{place}: {error}"))),
        }
    });
    let plans: Result<Vec<Plan>, Status> = plans.collect();
    let started = plans?
        .into_iter()
        .map(|plan| start(&client, principal, plan));
    let workflows = told(join_all(started).await)?;
    Ok(v1::CreateDurableWorkflowResponse { workflows })
}

/// What has been started must be told, so that the errors of the others are theirs. Where none was, the first is that of the call: its code says how to try again.
fn told(
    started: Vec<Result<v1::CreatedWorkflow, Status>>,
) -> Result<Vec<v1::CreatedWorkflow>, Status> {
    let is_none_started = started.iter().all(Result::is_err);
    let own = |started: Result<_, Status>| match started {
        Err(status) if !is_none_started => Ok(refused(status.message())),
        started => started,
    };
    started.into_iter().map(own).collect()
}

/// A run that can be started as far as it can be seen.
struct Plan {
    run_id: Uuid,
    workflow_id: Option<String>,
    start: Start<Untyped>,
}

fn planned(client: &Client, new: v1::NewWorkflow) -> Result<Plan, Malformed> {
    let workflow_type = named("workflow_type", new.workflow_type)?;
    let input = payload("input", new.input)?;
    if workflow_type == durable_program::PROGRAM_TYPE {
        let checked = durable_program::check(&input);
        checked.map_err(|mistake| Malformed::new("input", mistake.to_string()))?;
    }
    let run_id = Uuid::now_v7();
    let workflow_id = Some(new.workflow_id).filter(|id| !id.is_empty());
    let mut start = client.start_named(workflow_type, input).run_id(run_id);
    start = start.reuse_policy(reuse_policy(new.reuse_policy)?);
    if let Some(id) = &workflow_id {
        start = start.workflow_id(id);
    }
    if !new.idempotency_key.is_empty() {
        start = start.idempotency_key(new.idempotency_key);
    }
    if let Some(ms) = new.execution_timeout_ms {
        start = start.execution_timeout(timeout("execution_timeout_ms", ms)?);
    }
    if let Some(ms) = new.run_timeout_ms {
        start = start.run_timeout(timeout("run_timeout_ms", ms)?);
    }
    for (name, value) in attributes("search_attributes", new.search_attributes)? {
        if let Some(value) = value {
            start = start.attribute(name, value);
        }
    }
    if !new.memo.is_empty() {
        start = start.memo(&payload("memo", new.memo)?);
    }
    Ok(Plan {
        run_id,
        workflow_id,
        start,
    })
}

fn timeout(place: &str, ms: u64) -> Result<Duration, Malformed> {
    if ms == 0 {
        return Err(Malformed::new(
            place,
            "it must be at least 1; leave it out for none",
        ));
    }
    Ok(Duration::from_millis(ms))
}

async fn start(
    client: &Client,
    principal: &Principal,
    plan: Plan,
) -> Result<v1::CreatedWorkflow, Status> {
    let store = client.store().as_ref();
    let checked = namesake::check(store, principal, plan.workflow_id.as_deref()).await;
    if let Err(denied) = checked.map_err(|error| status::store(&error))? {
        return Ok(refused(denied));
    }
    match plan.start.await {
        Ok(handle) => Ok(v1::CreatedWorkflow {
            run_id: handle.id().to_string(),
            created: handle.id() == plan.run_id,
            refusal: String::new(),
        }),
        Err(error) if error.is_conflict() || error.is_run_finished() => {
            let hidden = namesake::refusal(store, principal, &error).await;
            let hidden = hidden.map_err(|error| status::store(&error))?;
            Ok(hidden.map_or_else(|| refused(&error), refused))
        }
        Err(error) => Err(status::library(&error)),
    }
}

fn refused(why: impl std::fmt::Display) -> v1::CreatedWorkflow {
    v1::CreatedWorkflow {
        refusal: why.to_string(),
        ..v1::CreatedWorkflow::default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_beside_a_start_is_its_own_refusal_and_alone_that_of_the_call() {
        let started = || v1::CreatedWorkflow {
            run_id: "r".to_owned(),
            created: true,
            refusal: String::new(),
        };
        let failed = || Err(Status::unavailable("gone"));
        let workflows = told(vec![Ok(started()), failed()]).expect("one is started");
        assert_eq!(workflows, [started(), refused("gone")]);
        let status = told(vec![failed(), failed()]).expect_err("none is started");
        assert_eq!(status.code(), tonic::Code::Unavailable);
        assert_eq!(told(Vec::new()).expect("nothing was asked"), []);
    }
}
