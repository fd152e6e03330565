//! The circuit breaker's transitions, one claim each, and what holds for all of them.

use std::time::Duration;

use durable_core::breaker::{PROBES_MAX, TALLIES_MAX};
use durable_core::{Admission, Breaker, CircuitBreakerConfig, CircuitState, Timestamp};
use jiff::SignedDuration;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn at(seconds: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(seconds)
}

fn opened(config: &CircuitBreakerConfig) -> Breaker {
    let mut breaker = Breaker::default();
    for _ in 0..config.failure_threshold {
        breaker.record_failure(config, NOW);
    }
    assert_eq!(breaker.state(), CircuitState::Open);
    breaker
}

#[test]
fn half_open_lets_exactly_the_permitted_probes_through() {
    let config = CircuitBreakerConfig::default();
    let mut breaker = opened(&config);
    assert_eq!(
        breaker.admit(&config, at(59)),
        Admission::Refused { retry_at: at(60) }
    );
    assert_eq!(breaker.admit(&config, at(60)), Admission::Probe);
    assert_eq!(breaker.admit(&config, at(61)), Admission::Probe);
    let refused = Admission::Refused { retry_at: at(120) };
    assert_eq!(breaker.admit(&config, at(61)), refused);
    breaker.record_success(&config, at(62));
    assert_eq!(
        breaker.record_success(&config, at(62)),
        CircuitState::Closed
    );
    assert_eq!(breaker.admit(&config, at(62)), Admission::Allowed);
}

#[test]
fn probe_that_never_reports_gives_its_permit_back() {
    let config = CircuitBreakerConfig {
        success_threshold: 1,
        ..Default::default()
    };
    let mut breaker = opened(&config);
    assert_eq!(breaker.admit(&config, at(60)), Admission::Probe);
    let refused = Admission::Refused { retry_at: at(120) };
    assert_eq!(breaker.admit(&config, at(119)), refused);
    assert_eq!(breaker.admit(&config, at(120)), Admission::Probe);
    assert_eq!(breaker.probes_out(), 1);
}

#[test]
fn permit_given_back_is_free_and_counts_for_nothing() {
    let config = CircuitBreakerConfig::default();
    let mut breaker = opened(&config);
    assert_eq!(breaker.admit(&config, at(60)), Admission::Probe);
    assert_eq!(breaker.admit(&config, at(60)), Admission::Probe);
    breaker.give_back();
    assert_eq!((breaker.probes_out(), breaker.success_count()), (1, 0));
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    assert_eq!(breaker.admit(&config, at(60)), Admission::Probe);
    breaker.record_success(&config, at(61));
    assert_eq!(breaker.success_count(), 1);
}

#[test]
fn report_takes_back_a_permit_that_is_still_out() {
    let config = CircuitBreakerConfig::default();
    let mut breaker = opened(&config);
    assert_eq!(breaker.admit(&config, at(60)), Admission::Probe);
    assert_eq!(breaker.admit(&config, at(90)), Admission::Probe);
    breaker.record_success(&config, at(120));
    assert_eq!(breaker.probes_out(), 0, "one has expired, one has reported");
}

#[test]
fn failed_probe_opens_it_for_another_full_timeout() {
    let config = CircuitBreakerConfig::default();
    let mut breaker = opened(&config);
    breaker.admit(&config, at(60));
    assert_eq!(breaker.record_failure(&config, at(70)), CircuitState::Open);
    assert_eq!(
        breaker.admit(&config, at(71)),
        Admission::Refused { retry_at: at(130) }
    );
}

#[test]
fn stragglers_do_not_move_an_open_breaker() {
    let config = CircuitBreakerConfig::default();
    let mut breaker = opened(&config);
    let before = breaker.clone();
    breaker.record_failure(&config, at(30));
    breaker.record_success(&config, at(30));
    assert_eq!(breaker, before);
}

#[test]
fn clock_that_ran_ahead_does_not_keep_it_open() {
    let config = CircuitBreakerConfig::default();
    let mut breaker = opened(&config);
    breaker.admit(&config, at(60));
    breaker.record_failure(&config, at(1_000_000));
    breaker.admit(&config, at(100));
    assert_eq!(breaker.admit(&config, at(160)), Admission::Probe);
}

#[test]
fn reset_closes_it_from_every_state() {
    let config = CircuitBreakerConfig::default();
    let mut breaker = opened(&config);
    breaker.reset();
    assert_eq!(breaker, Breaker::default());
}

#[test]
fn stored_form_is_kept() {
    let config = CircuitBreakerConfig::default();
    let mut breaker = Breaker::default();
    breaker.record_failure(&config, NOW);
    let closed = r#"{"state":"closed","failures":[{"at":"1970-01-01T00:00:00Z","count":1}]}"#;
    assert_eq!(serde_json::to_string(&breaker).unwrap(), closed);
    assert_eq!(serde_json::from_str::<Breaker>(closed).unwrap(), breaker);
    let open = r#"{"state":"open","since":"1970-01-01T00:00:00Z"}"#;
    assert_eq!(serde_json::to_string(&opened(&config)).unwrap(), open);
    let half_open = r#"{"state":"half_open","successes":1,"probes":["1970-01-01T00:00:00Z"]}"#;
    let read: Breaker = serde_json::from_str(half_open).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), half_open);
    assert_eq!(read.probes_out(), 1);
}

/// What happens to a breaker in the property tests.
#[derive(Debug, Clone, Copy)]
enum Call {
    Admit,
    Succeed,
    Fail,
    Reset,
}

fn any_config() -> impl Strategy<Value = CircuitBreakerConfig> {
    let millis = || prop_oneof![0..200_u64, any::<u64>()];
    let threshold = || prop_oneof![0..6_u32, 60..70_u32, any::<u32>()];
    (threshold(), threshold(), millis(), millis()).prop_map(
        |(failures, successes, reset, window)| CircuitBreakerConfig {
            key: None,
            failure_threshold: failures,
            success_threshold: successes,
            reset_timeout: Duration::from_millis(reset),
            window_size: Duration::from_millis(window),
        },
    )
}

fn any_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        5 => Just(Call::Admit),
        2 => Just(Call::Succeed),
        4 => Just(Call::Fail),
        1 => Just(Call::Reset),
    ]
}

fn any_instant() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        8 => (0..2_000_i64).prop_map(at_millis),
        1 => Just(Timestamp::MIN),
        1 => Just(Timestamp::MAX),
    ]
}

fn at_millis(millis: i64) -> Timestamp {
    NOW + SignedDuration::from_millis(millis)
}

fn call(
    breaker: &mut Breaker,
    call: Call,
    config: &CircuitBreakerConfig,
    now: Timestamp,
) -> Option<Admission> {
    match call {
        Call::Admit => return Some(breaker.admit(config, now)),
        Call::Succeed => breaker.record_success(config, now),
        Call::Fail => breaker.record_failure(config, now),
        Call::Reset => {
            breaker.reset();
            CircuitState::Closed
        }
    };
    None
}

proptest! {
    /// Instants in any order, the ends of time among them, and a configuration that changes under it.
    #[test]
    fn never_panics_and_stays_small(
        calls in prop::collection::vec((any_call(), any_instant(), any_config()), 0..200),
    ) {
        let mut breaker = Breaker::default();
        for (what, now, config) in calls {
            call(&mut breaker, what, &config, now);
            prop_assert!(breaker.probes_out() <= PROBES_MAX as usize);
            let stored = serde_json::to_vec(&breaker).unwrap();
            prop_assert!(stored.len() < 64 * 1024);
            prop_assert_eq!(&serde_json::from_slice::<Breaker>(&stored).unwrap(), &breaker);
        }
    }

    /// The test counts the permits itself: given, reported back, expired.
    #[test]
    fn probes_never_exceed_the_permitted_number(
        success_threshold in 1..5_u32,
        calls in prop::collection::vec((any_call(), 0..40_i64), 0..200),
    ) {
        let config = CircuitBreakerConfig {
            failure_threshold: 2,
            success_threshold,
            reset_timeout: Duration::from_millis(50),
            window_size: Duration::from_millis(100),
            key: None,
        };
        let (mut breaker, mut now, mut out) = (Breaker::default(), NOW, Vec::new());
        for (what, step) in calls {
            now += SignedDuration::from_millis(step);
            out.retain(|given: &Timestamp| now < *given + config.reset_timeout);
            let permitted = success_threshold as usize;
            match (call(&mut breaker, what, &config, now), what) {
                (Some(Admission::Probe), _) => out.push(now),
                (Some(Admission::Refused { retry_at }), _) => {
                    prop_assert!(retry_at > now);
                    let half_open = breaker.state() == CircuitState::HalfOpen;
                    prop_assert!(!half_open || out.len() == permitted, "refused with a free permit");
                }
                (None, Call::Succeed) if !out.is_empty() => drop(out.remove(0)),
                _ => {}
            }
            if breaker.state() != CircuitState::HalfOpen {
                out.clear();
            }
            prop_assert!(out.len() <= permitted, "{} probes out", out.len());
        }
    }

    /// Against a model that remembers every failure.
    #[test]
    fn opens_exactly_at_the_threshold_within_the_window(
        failure_threshold in 1..=TALLIES_MAX as u32,
        steps in prop::collection::vec(0..30_i64, 1..200),
    ) {
        let config = CircuitBreakerConfig {
            failure_threshold,
            window_size: Duration::from_millis(100),
            ..Default::default()
        };
        let (mut breaker, mut now, mut failures) = (Breaker::default(), NOW, Vec::new());
        for step in steps {
            now += SignedDuration::from_millis(step);
            failures.push(now);
            failures.retain(|failed: &Timestamp| now < *failed + config.window_size);
            let opens = failures.len() >= failure_threshold as usize;
            let state = breaker.record_failure(&config, now);
            prop_assert_eq!(state == CircuitState::Open, opens);
            if opens {
                breaker.reset();
                failures.clear();
            }
        }
    }

    /// Above the exact range the window's edge is blurred by one tally, and by no more.
    #[test]
    fn large_thresholds_open_late_by_at_most_one_tally(
        failure_threshold in TALLIES_MAX as u32 + 1..500,
        step_micros in 0..500_i64,
    ) {
        let config = CircuitBreakerConfig {
            failure_threshold,
            window_size: Duration::from_millis(64),
            ..Default::default()
        };
        let failed_at = |n: i64| NOW + SignedDuration::from_micros(n * step_micros);
        let mut breaker = Breaker::default();
        let opened = (0..4000).find(|n| {
            breaker.record_failure(&config, failed_at(*n)) == CircuitState::Open
        });
        let span_micros = step_micros * i64::from(failure_threshold - 1);
        if span_micros < 63_000 {
            prop_assert_eq!(opened, Some(i64::from(failure_threshold) - 1));
        }
        if span_micros >= 64_000 {
            prop_assert_eq!(opened, None);
        }
    }

    #[test]
    fn clock_that_jumps_back_delays_probes_by_no_more_than_the_timeout(
        ahead in 0..1_000_000_i64,
        back in 0..1_000_000_i64,
    ) {
        let config = CircuitBreakerConfig::default();
        let mut breaker = Breaker::default();
        for _ in 0..config.failure_threshold {
            breaker.record_failure(&config, at(ahead));
        }
        let now = at(ahead - back);
        if let Admission::Refused { retry_at } = breaker.admit(&config, now) {
            prop_assert!(retry_at <= now + config.reset_timeout);
            prop_assert_eq!(breaker.admit(&config, retry_at), Admission::Probe);
        }
    }

    #[test]
    fn stored_bytes_of_any_kind_are_read_or_refused(text in ".{0,200}") {
        let _ = serde_json::from_str::<Breaker>(&text);
    }
}
