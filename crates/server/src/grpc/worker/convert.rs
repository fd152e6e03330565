//! Tasks, leases and outcomes between the wire and the library.

use bytes::Bytes;
use durable_proto::convert::{Malformed, failure, payload, payload_bytes, required, uuid};
use durable_proto::v1;
use everruns_durable::core::{Failure, Timestamp, error_types};
use everruns_durable::persistence::model::{ClaimedTask, FinishOutcome, TaskLease, TaskOutcome};
use v1::task_done::End;

/// A lease that came in.
pub(super) fn lease(message: Option<v1::Lease>) -> Result<TaskLease, Malformed> {
    let lease = required("lease", message)?;
    Ok(TaskLease {
        run_id: uuid("lease.run_id", &lease.run_id)?,
        task_id: uuid("lease.task_id", &lease.task_id)?,
        attempt: lease.attempt,
        token: uuid("lease.token", &lease.token)?,
    })
}

/// A lease to send.
pub(super) fn lease_message(lease: &TaskLease) -> v1::Lease {
    v1::Lease {
        run_id: lease.run_id.to_string(),
        task_id: lease.task_id.to_string(),
        attempt: lease.attempt,
        token: lease.token.to_string(),
    }
}

/// A task to send.
pub(super) fn task_message(task: ClaimedTask) -> v1::Task {
    let ms =
        |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let idempotency_key = format!("{}:{}", task.lease.run_id, task.lease.task_id);
    v1::Task {
        lease: Some(lease_message(&task.lease)),
        activity_type: task.activity_type,
        activity_id: task.activity_id,
        input: payload_bytes(task.input),
        max_attempts: task.options.retry_policy.max_attempts,
        deliveries: task.deliveries,
        idempotency_key,
        heartbeat_details: payload_bytes(task.heartbeat_details),
        start_to_close_timeout_ms: ms(task.options.start_to_close_timeout),
        heartbeat_timeout_ms: task.options.heartbeat_timeout.map(ms),
        scheduled_at_ms: instant_ms(task.scheduled_at),
        started_at_ms: instant_ms(task.started_at),
        traceparent: task
            .trace
            .map(|trace| trace.to_string())
            .unwrap_or_default(),
    }
}

/// An instant to send.
pub(super) fn instant_ms(instant: Timestamp) -> i64 {
    instant.as_millisecond()
}

/// How a task ended; none: it was not run.
pub(super) fn ended(end: Option<End>) -> Option<TaskOutcome> {
    match end {
        Some(End::Result(result)) => Some(completed(result)),
        Some(End::Failure(message)) => Some(failed(Some(message))),
        Some(End::Cancelled(reason)) => Some(TaskOutcome::Cancelled { reason }),
        Some(End::Released(_)) => None,
        None => Some(unreadable(&Malformed::new("end", "it is missing"))),
    }
}

/// It answered.
pub(super) fn completed(result: Bytes) -> TaskOutcome {
    match payload("result", result) {
        Ok(result) => TaskOutcome::Completed { result },
        Err(mistake) => unreadable(&mistake),
    }
}

/// It failed. Where only the details cannot be read, what it said is kept as the cause.
pub(super) fn failed(message: Option<v1::Failure>) -> TaskOutcome {
    let message = match required("failure", message) {
        Ok(message) => message,
        Err(mistake) => return unreadable(&mistake),
    };
    let said = v1::Failure {
        r#type: message.r#type.clone(),
        message: message.message.clone(),
        ..v1::Failure::default()
    };
    let failure = match (failure("failure", message), failure("failure", said)) {
        (Ok(failure), _) => failure,
        (Err(mistake), Ok(said)) => invalid(&mistake).with_cause(said),
        (Err(mistake), Err(_)) => invalid(&mistake),
    };
    TaskOutcome::Failed { failure }
}

/// An attempt of which the worker sent what cannot be read has failed, as with a result that is too large: to try again would end the same, and the
/// worker's other tasks have nothing to do with it.
pub(super) fn unreadable(mistake: &Malformed) -> TaskOutcome {
    TaskOutcome::Failed {
        failure: invalid(mistake),
    }
}

fn invalid(mistake: &Malformed) -> Failure {
    let message = format!(
        "what the worker sent of the activity cannot be read: {mistake}; send JSON, which has no NaN and no infinity"
    );
    Failure::new(error_types::INVALID_OUTPUT, message).non_retryable()
}

/// What became of an answer.
pub(super) fn outcome(lease: &TaskLease, outcome: &FinishOutcome) -> v1::TaskOutcome {
    let outcome = match outcome {
        FinishOutcome::Recorded { .. } => v1::Outcome::Recorded,
        FinishOutcome::Retrying { .. } => v1::Outcome::Retrying,
        FinishOutcome::Parked => v1::Outcome::Parked,
        FinishOutcome::LeaseLost => v1::Outcome::LeaseLost,
    };
    settled(lease, outcome)
}

/// What became of a task that was given back.
pub(super) fn release_outcome(lease: &TaskLease, released: bool) -> v1::TaskOutcome {
    let outcome = if released {
        v1::Outcome::Released
    } else {
        v1::Outcome::LeaseLost
    };
    settled(lease, outcome)
}

fn settled(lease: &TaskLease, outcome: v1::Outcome) -> v1::TaskOutcome {
    v1::TaskOutcome {
        lease: Some(lease_message(lease)),
        outcome: outcome.into(),
    }
}
