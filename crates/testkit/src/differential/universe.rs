//! The small world that intents are about: few names, so that they meet often, and ugly ones among them.

use std::time::Duration;

use durable_core::{Failure, Payload, Timestamp, TraceContext};
use uuid::Uuid;

/// Workflow types.
pub(crate) const WORKFLOWS: &[&str] = &["order", "Ship", "zażółć"];
/// Versions.
pub(crate) const VERSIONS: &[&str] = &["", "", "", "v1"];
/// Activity types. Tasks of [`CRASHING`] are hardly ever answered for.
pub(crate) const ACTIVITIES: &[&str] = &["charge", "Mail"];
/// The activity type whose workers die.
pub(crate) const CRASHING: &str = "crash";
/// Activity ids within a run.
pub(crate) const ACTIVITY_IDS: &[&str] = &["a1", "A1", "a_2", "ä", "a'3", "a%4"];
/// Timer ids within a run.
pub(crate) const TIMERS: &[&str] = &["t1", "T1", "t\"2"];
/// Child ids within a run.
pub(crate) const CHILDREN: &[&str] = &["c1", "C1"];
/// Idempotency keys.
pub(crate) const KEYS: &[&str] = &["k1", "K1", "k'2", "k 3", "k1 "];
/// Business ids.
pub(crate) const BUSINESS_IDS: &[&str] = &["b1", "B1", "ß"];
/// Update ids within a run.
pub(crate) const UPDATES: &[&str] = &["u1", "U1", "u\\2"];
/// Workers.
pub(crate) const WORKERS: &[&str] = &["w1", "W1", "w;--"];
/// Builds.
pub(crate) const BUILDS: &[&str] = &["build-1", "build-2"];
/// Schedules.
pub(crate) const SCHEDULES: &[&str] = &["s1", "S1", "_s"];
/// Breakers.
pub(crate) const BREAKERS: &[&str] = &["activity:charge", "External:x"];
/// Keys of results recorded once.
pub(crate) const ONCE: &[&str] = &["d1", "D1", "é"];
/// Names of search attributes.
pub(crate) const ATTRIBUTES: &[&str] = &["city", "City", "n"];
/// Ids that every store refuses.
pub(crate) const REFUSED_IDS: &[&str] = &["", "a\0b"];

/// Payloads: harmless ones first, then those that some reader would change.
const PAYLOADS: &[&str] = &[
    "1",
    "{}",
    "\"text\"",
    "null",
    "[9007199254740993, -9223372036854775808, 1e400]",
    r#"{"a":1,"a":2,"\u0000":"\u0000"}"#,
    r#""\ud83d\ude00 😀 \u2028""#,
    " { \"b\" : 1 , \"a\" : -0.0 } ",
    "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
];

/// An id: a larger `number` is newer, `kind` keeps kinds apart, and the low bytes spread over shards.
pub(crate) fn id(number: u64, kind: u8) -> Uuid {
    let low = (number ^ u64::from(kind) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let high =
        0x0190_0000_0000_7000_u128 + (u128::from(number & 0xffff_ffff) << 16) + u128::from(kind);
    Uuid::from_u128(high << 64 | u128::from(low >> 2 | 0x8000_0000_0000_0000))
}

/// An id within a run, the same for the same numbers.
pub(crate) fn id_within(run: Uuid, number: u64, kind: u8) -> Uuid {
    let (high, _) = run.as_u64_pair();
    id((high >> 16 & 0xff_ffff) << 8 | number, kind)
}

/// The payload of a number.
pub(crate) fn payload(number: u64) -> Payload {
    let at = usize::try_from(number % (PAYLOADS.len() as u64 + 3)).expect("small");
    match PAYLOADS.get(at) {
        Some(text) => Payload::from_json_text(*text).expect("the list holds JSON"),
        None if at == PAYLOADS.len() => Payload::ABSENT,
        None if at == PAYLOADS.len() + 1 => {
            Payload::from_codec(vec![0, 0xff, 0, b'\'', 0x80, 0x0a]).expect("it has the mark")
        }
        None => {
            let long = format!("\"{}\"", "lång ".repeat(300));
            Payload::from_json_text(long).expect("a long string is JSON")
        }
    }
}

/// A payload that every store refuses: a byte longer than the limit.
pub(crate) fn payload_too_large() -> Payload {
    let limit = everruns_durable::persistence::limits::PAYLOAD_BYTES_MAX;
    Payload::from_json_text(format!("\"{}\"", "x".repeat(limit - 1))).expect("a string is JSON")
}

/// The failure of a number: retryable or not, with details and causes now and then.
pub(crate) fn failure(number: u64) -> Failure {
    let mut failure = Failure::new(
        ["Boom", "CardDeclined", "Ünlucky"][usize::try_from(number % 3).expect("small")],
        ["it broke", "", "a \0 and a \" and a \u{2028}"]
            [usize::try_from(number / 3 % 3).expect("small")],
    );
    if number.is_multiple_of(4) {
        failure = failure.non_retryable();
    }
    if number.is_multiple_of(5) {
        // JSON without white space around it: the rest does not survive inside another text.
        failure = failure.with_details(payload(number / 5 % 7));
    }
    if number.is_multiple_of(7) {
        failure = failure.with_cause(Failure::new("Cause", "below"));
    }
    failure
}

/// The trace context of a number, if it has one.
pub(crate) fn trace(number: u64) -> Option<TraceContext> {
    number.is_multiple_of(4).then(|| TraceContext {
        trace_id: format!("{:032x}", number + 1),
        span_id: format!("{:016x}", number + 2),
        trace_flags: 1,
    })
}

/// The instant cut to whole seconds.
pub(crate) fn whole_seconds(instant: Timestamp) -> Timestamp {
    Timestamp::from_second(instant.as_second()).expect("the same second exists")
}

/// Milliseconds.
pub(crate) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}
