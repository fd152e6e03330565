//! How an attempt ended, said so that a store takes it.
//!
//! Whatever an activity answers, its attempt ends: what is too long is clipped here, at the edge, for a store that refuses a result
//! would refuse it for ever.

use std::mem::take;

use durable_core::{Failure, Payload, error_types};

use crate::persistence::StoreError;
use crate::persistence::limits::{ID_BYTES_MAX, PAYLOAD_BYTES_MAX, TEXT_BYTES_MAX, clip};
use crate::persistence::model::TaskOutcome;

/// It answered. A result that is too large is a failure that the run sees; where payloads are encoded on their way, the store says
/// whether it is.
pub(crate) fn completed(result: Payload, is_encoded_later: bool) -> TaskOutcome {
    let bytes = result.len();
    if bytes <= PAYLOAD_BYTES_MAX || is_encoded_later {
        return TaskOutcome::Completed { result };
    }
    invalid(format!(
        "the result has {bytes} bytes, the limit is {PAYLOAD_BYTES_MAX}"
    ))
}

/// It failed. Type and messages are clipped; details, those of all causes together, are left out from where they are too large.
pub(crate) fn failed(mut failure: Failure) -> TaskOutcome {
    let mut room = PAYLOAD_BYTES_MAX;
    let mut part = Some(&mut failure);
    while let Some(failure) = part {
        failure.error_type = clip(take(&mut failure.error_type), ID_BYTES_MAX);
        failure.message = clip(take(&mut failure.message), TEXT_BYTES_MAX);
        match room.checked_sub(failure.details.len()) {
            Some(left) => room = left,
            None => failure.details = Payload::ABSENT,
        }
        part = failure.cause.as_deref_mut();
    }
    TaskOutcome::Failed { failure }
}

/// It stopped as it was asked to.
pub(crate) fn cancelled(reason: String) -> TaskOutcome {
    let reason = clip(reason, TEXT_BYTES_MAX);
    TaskOutcome::Cancelled { reason }
}

/// The store does not take how it ended. To try again would be refused again.
pub(crate) fn refused(error: &StoreError) -> TaskOutcome {
    invalid(clip(
        format!("how the activity ended cannot be stored: {error}"),
        TEXT_BYTES_MAX,
    ))
}

fn invalid(message: String) -> TaskOutcome {
    TaskOutcome::Failed {
        failure: Failure::new(error_types::INVALID_OUTPUT, message).non_retryable(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::check::check_failure;
    use crate::persistence::limits::check_text;

    #[test]
    fn a_failure_of_any_size_can_be_stored_and_stays_what_it_is() {
        let large = Payload::from_value(&"x".repeat(PAYLOAD_BYTES_MAX - 2)).unwrap();
        let cause = Failure::new("Cause", "c").with_details(large.clone());
        let failure = Failure::new("T".repeat(5_000), "m\0".repeat(PAYLOAD_BYTES_MAX))
            .with_details(large.clone())
            .with_cause(cause)
            .non_retryable();
        let TaskOutcome::Failed { failure } = failed(failure) else {
            panic!("a failure");
        };
        check_failure(&failure).unwrap();
        check_text("message", &failure.message, TEXT_BYTES_MAX).unwrap();
        assert!(!failure.retryable, "not to be tried again after all");
        assert_eq!(failure.details, large);
        assert!(failure.cause.unwrap().details.is_absent(), "no room left");
    }

    #[test]
    fn a_reason_of_any_size_can_be_stored() {
        let TaskOutcome::Cancelled { reason } = cancelled("r\0".repeat(TEXT_BYTES_MAX)) else {
            panic!("cancelled");
        };
        check_text("reason", &reason, TEXT_BYTES_MAX).unwrap();
    }
}
