//! Failed attempts as the list of a task and of a dead letter keeps them.

use durable_core::{AttemptRecord, Failure, Payload};

use super::limits::{ATTEMPT_FAILURE_BYTES_MAX, ATTEMPT_MESSAGE_BYTES_MAX, clip};
use super::model::TaskRecord;

/// How the attempt that is under way failed. The list is rewritten at each retry and returned with
/// each claim, so that a large failure is kept in short.
pub(crate) fn attempt_record(task: &TaskRecord, failure: Failure) -> AttemptRecord {
    AttemptRecord {
        attempt: task.attempt,
        worker_id: task.claimed_by.clone().unwrap_or_default(),
        started_at: task.claimed_at,
        failure: in_short(failure),
        omitted_before: 0,
    }
}

/// Bytes of a failure with its causes.
pub(crate) fn failure_bytes(failure: &Failure) -> usize {
    std::iter::successors(Some(failure), |failure| failure.cause.as_deref())
        .map(|failure| failure.error_type.len() + failure.message.len() + failure.details.len())
        .sum()
}

fn in_short(failure: Failure) -> Failure {
    let bytes = failure_bytes(&failure);
    if bytes <= ATTEMPT_FAILURE_BYTES_MAX {
        return failure;
    }
    let message = clip(failure.message, ATTEMPT_MESSAGE_BYTES_MAX);
    Failure {
        message: format!("{message} (details and causes of {bytes} bytes are left out here)"),
        details: Payload::ABSENT,
        cause: None,
        ..failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_failure_is_kept_without_its_details_and_causes() {
        let details = Payload::from_value(&"x".repeat(ATTEMPT_FAILURE_BYTES_MAX)).unwrap();
        let large = Failure::new("Full", "m".repeat(2 * ATTEMPT_MESSAGE_BYTES_MAX))
            .with_details(details)
            .with_cause(Failure::new("Below", "why"));
        let kept = in_short(large);
        assert!(kept.details.is_absent() && kept.cause.is_none());
        assert!(kept.message.contains("are left out here"));
        assert!(failure_bytes(&kept) < ATTEMPT_MESSAGE_BYTES_MAX + 100);
        let small = Failure::new("Small", "why").with_cause(Failure::new("Below", "too"));
        assert_eq!(in_short(small.clone()), small);
    }
}
