//! A run's row, as a record and without its payloads.

use std::time::Duration;

use crate::persistence::StoreResult;
use crate::persistence::model::{
    Blocked, ClosePolicy, Owner, ParentLink, RunRecord, RunSummary, WorkflowStatus,
};
use crate::persistence::sql::rows::RunHead;
use crate::persistence::sqlite::cells::Cells;

/// Reads the columns of `run_columns!`.
pub(crate) fn record(row: &mut Cells<'_, '_>) -> StoreResult<RunRecord> {
    Ok(RunRecord {
        id: row.id()?,
        workflow_type: row.text()?,
        version: row.text()?,
        business_id: row.text_opt()?,
        idempotency_key: row.text_opt()?,
        fingerprint: row.int()?,
        status: row.name(WorkflowStatus::parse)?,
        input: row.body()?,
        result: row.body()?,
        error: row.json_opt()?,
        memo: row.body()?,
        trace: row.trace()?,
        parent: parent(row)?,
        has_children: row.flag()?,
        sequence: row.int()?,
        history_start: row.int()?,
        iteration: row.int()?,
        epoch: row.int()?,
        arrivals: row.int()?,
        consumed: row.int()?,
        last_turn: row.id_opt()?,
        ready_at: row.at_opt()?,
        owner: owner(row)?,
        blocked: blocked(row)?,
        execution_deadline: row.at_opt()?,
        run_deadline: row.at_opt()?,
        run_timeout: row.int_opt()?.map(Duration::from_millis),
        created_at: row.at()?,
        updated_at: row.at()?,
        started_at: row.at_opt()?,
        completed_at: row.at_opt()?,
    })
}

/// Reads the columns of `SUMMARY`.
pub(super) fn summary(row: &mut Cells<'_, '_>) -> StoreResult<RunSummary> {
    Ok(RunSummary {
        id: row.id()?,
        workflow_type: row.text()?,
        version: row.text()?,
        business_id: row.text_opt()?,
        status: row.name(WorkflowStatus::parse)?,
        parent_id: row.id_opt()?,
        blocked: blocked(row)?.map(Blocked::listed),
        sequence: row.int()?,
        iteration: row.int()?,
        epoch: row.int()?,
        created_at: row.at()?,
        updated_at: row.at()?,
        started_at: row.at_opt()?,
        completed_at: row.at_opt()?,
    })
}

/// Reads the columns of `GET_HEAD`.
pub(super) fn head(row: &mut Cells<'_, '_>) -> StoreResult<RunHead> {
    Ok(RunHead {
        id: row.id()?,
        workflow_type: row.text()?,
        business_id: row.text_opt()?,
        idempotency_key: row.text_opt()?,
        fingerprint: row.int()?,
        status: row.name(WorkflowStatus::parse)?,
        parent: parent(row)?,
        has_children: row.flag()?,
        sequence: row.int()?,
        history_start: row.int()?,
        iteration: row.int()?,
        epoch: row.int()?,
        arrivals: row.int()?,
        consumed: row.int()?,
        last_turn: row.id_opt()?,
        ready_at: row.at_opt()?,
        owner: owner(row)?,
        blocked: blocked(row)?,
        execution_deadline: row.at_opt()?,
        run_deadline: row.at_opt()?,
        run_timeout_ms: row.int_opt()?,
        created_at: row.at()?,
        updated_at: row.at()?,
        started_at: row.at_opt()?,
        completed_at: row.at_opt()?,
        task_count: row.int()?,
        line_count: row.int()?,
    })
}

/// Five columns: all or none.
fn parent(row: &mut Cells<'_, '_>) -> StoreResult<Option<ParentLink>> {
    let (run_id, child_id) = (row.id_opt()?, row.text_opt()?);
    let (epoch, iteration, policy) = (row.int_opt()?, row.int_opt()?, row.str_opt()?);
    let Some(run_id) = run_id else {
        return Ok(None);
    };
    Ok(Some(ParentLink {
        run_id,
        child_id: row.present(child_id)?,
        epoch: row.present(epoch)?,
        iteration: row.present(iteration)?,
        close_policy: row.present(policy.and_then(parse_close_policy))?,
    }))
}

fn owner(row: &mut Cells<'_, '_>) -> StoreResult<Option<Owner>> {
    let (worker_id, expires_at) = (row.text_opt()?, row.at_opt()?);
    let Some(worker_id) = worker_id else {
        return Ok(None);
    };
    Ok(Some(Owner {
        worker_id,
        expires_at: row.present(expires_at)?,
    }))
}

fn blocked(row: &mut Cells<'_, '_>) -> StoreResult<Option<Blocked>> {
    let (build, reason) = (row.text_opt()?, row.text_opt()?);
    let Some(build) = build else {
        return Ok(None);
    };
    Ok(Some(Blocked {
        build,
        reason: row.present(reason)?,
    }))
}

/// The stored name.
pub(super) const fn close_policy(policy: ClosePolicy) -> &'static str {
    match policy {
        ClosePolicy::Cancel => "cancel",
        ClosePolicy::Terminate => "terminate",
        ClosePolicy::Abandon => "abandon",
    }
}

fn parse_close_policy(name: &str) -> Option<ClosePolicy> {
    let all = [
        ClosePolicy::Cancel,
        ClosePolicy::Terminate,
        ClosePolicy::Abandon,
    ];
    all.into_iter().find(|policy| close_policy(*policy) == name)
}
