//! Failures.

use durable_core::failure::CAUSES_MAX;
use durable_core::{Failure, error_types};

use super::{Malformed, payload, payload_bytes};
use crate::v1;

/// A failure that came in. Causes beyond the deepest that is kept are cut off.
///
/// # Errors
/// Details that are not JSON.
pub fn failure(place: &str, message: v1::Failure) -> Result<Failure, Malformed> {
    // From the outside in, without recursion: how deep it goes is the sender's choice.
    let mut chain = Vec::new();
    let mut next = Some(Box::new(message));
    while let Some(mut part) = next {
        next = part.cause.take().filter(|_| chain.len() < CAUSES_MAX);
        chain.push(own(place, *part)?);
    }
    let whole = chain.into_iter().rev().reduce(|cause, mut failure| {
        failure.cause = Some(Box::new(cause));
        failure
    });
    whole.ok_or_else(|| Malformed::new(place, "it is missing"))
}

fn own(place: &str, message: v1::Failure) -> Result<Failure, Malformed> {
    let error_type = if message.r#type.is_empty() {
        error_types::GENERIC.to_owned()
    } else {
        message.r#type
    };
    let mut failure = Failure::new(error_type, message.message);
    failure.retryable = !message.non_retryable;
    if !message.details.is_empty() {
        failure.details = payload(&format!("{place}.details"), message.details)?;
    }
    Ok(failure)
}

/// A failure to send.
#[must_use]
pub fn failure_message(failure: Failure) -> v1::Failure {
    let Failure {
        error_type,
        message,
        retryable,
        details,
        cause,
    } = failure;
    v1::Failure {
        r#type: error_type,
        message,
        non_retryable: !retryable,
        details: payload_bytes(details),
        cause: cause.map(|cause| Box::new(failure_message(*cause))),
    }
}

#[cfg(test)]
mod tests {
    use durable_core::Payload;

    use super::*;

    #[test]
    fn a_failure_comes_back_as_it_went() {
        let details = Payload::from_value(&[1, 2]).expect("JSON");
        let cause = Failure::new("Cause", "why").non_retryable();
        let sent = Failure::new("T", "m")
            .with_details(details)
            .with_cause(cause);
        let back = failure("failure", failure_message(sent.clone()));
        assert_eq!(back, Ok(sent));
    }

    #[test]
    fn a_failure_without_a_type_has_the_general_one_and_is_retryable() {
        let back = failure("failure", v1::Failure::default()).expect("read");
        assert_eq!(back.error_type, error_types::GENERIC);
        assert!(back.retryable);
    }

    #[test]
    fn endless_causes_are_cut_off() {
        let deep = (0..10_000).fold(v1::Failure::default(), |cause, _| v1::Failure {
            cause: Some(Box::new(cause)),
            ..v1::Failure::default()
        });
        let kept = failure("failure", deep).expect("read");
        let causes = std::iter::successors(kept.cause.as_deref(), |f| f.cause.as_deref());
        assert_eq!(causes.count(), CAUSES_MAX);
    }
}
