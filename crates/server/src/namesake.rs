//! Runs that a start meets by its keys. They may be of a type that whoever starts may not touch, nor hear of.

use everruns_durable::Error;
use everruns_durable::persistence::model::{Page, RunFilter};
use everruns_durable::persistence::{StoreResult, WorkflowEventStore};

use crate::auth::{Denied, Principal};

/// Refuses a start that would signal, end or show the last run with its workflow id, where that is out of scope.
pub(crate) async fn check(
    store: &dyn WorkflowEventStore,
    principal: &Principal,
    workflow_id: Option<&str>,
) -> StoreResult<Result<(), Denied>> {
    let Some(workflow_id) = workflow_id.filter(|_| principal.scopes.workflow_types.is_some())
    else {
        return Ok(Ok(()));
    };
    let filter = RunFilter {
        business_id: Some(workflow_id.to_owned()),
        ..RunFilter::default()
    };
    let last = Page {
        limit: 1,
        offset: 0,
    };
    let runs = store.list_runs(filter, last).await?;
    let foreign = runs
        .runs
        .iter()
        .any(|run| !principal.may_use_type(&run.workflow_type));
    Ok(if foreign {
        Err(taken(principal))
    } else {
        Ok(())
    })
}

/// What may be said of a start that a run stands in the way of: nothing about a run that is out of scope, not even its id. A start by an
/// idempotency key joins no run of another type, so that this is all there is to hide.
pub(crate) async fn refusal(
    store: &dyn WorkflowEventStore,
    principal: &Principal,
    error: &Error,
) -> StoreResult<Option<Denied>> {
    let Some(run_id) = error
        .run_id()
        .filter(|_| principal.scopes.workflow_types.is_some())
    else {
        return Ok(None);
    };
    let run = store.summarize_runs(&[run_id]).await?.pop().flatten();
    let foreign = run.is_some_and(|run| !principal.may_use_type(&run.workflow_type));
    Ok(foreign.then(|| taken(principal)))
}

fn taken(principal: &Principal) -> Denied {
    let name = principal.name.clone();
    Denied::Taken { name }
}
