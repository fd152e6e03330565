//! Workflows as state machines.

use crate::stage::{assert_mentions, assert_tells, story};

#[test]
fn a_simple_workflow_takes_its_steps_one_after_the_other() {
    let story = story("simple_workflow");
    assert_tells(
        &story,
        &[
            "reserve:",
            "charge:",
            "ship:",
            "the order is complete: parcel 1",
        ],
    );
}

#[test]
fn a_passing_failure_is_retried_and_a_final_one_is_not() {
    let story = story("retry_example");
    assert_tells(
        &story,
        &[
            "attempt 1 of 5: the provider cannot be reached",
            "attempt 2 of 5: the provider cannot be reached",
            "attempt 3 of 5: paid",
            "the payment is complete: receipt",
            "attempt 1 of 5: the card has expired",
            "the payment failed: CardDeclined",
        ],
    );
    let expired = story
        .iter()
        .filter(|line| line.contains("the card has expired") && line.starts_with("attempt"));
    assert_eq!(expired.count(), 1);
}

#[test]
fn a_circuit_breaker_opens_and_closes_again() {
    let story = story("circuit_breaker_example");
    assert_tells(
        &story,
        &[
            "three orders",
            "order",
            "the breaker is open after",
            "the provider is back",
            "order 1 is complete",
            "order 2 is complete",
            "order 3 is complete",
        ],
    );
}

#[test]
fn a_signal_moves_a_run_on_and_a_cancel_undoes_it() {
    let story = story("signal_cancellation");
    assert_tells(
        &story,
        &[
            "Ada: the hotel is booked",
            "Ada: watching prices",
            "Ada's trip is complete: ticket for Ada",
            "Ben: watching prices",
            "Ben's trip was called off",
            "a signal that comes too late is refused",
        ],
    );
    assert_mentions(
        &story,
        &[
            "Ada: the flight is booked",
            "Ben: no longer watching prices",
            "Ben: the hotel is given back",
        ],
    );
}
