//! The rate limiter: never too many, never stuck.

use std::time::Duration;

use durable_core::{ActivityOptions, Granted, RateLimitConfig, RateLimiter, Timestamp};
use proptest::prelude::*;

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap()
}

fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// What people write, and the odd corners.
fn config() -> impl Strategy<Value = RateLimitConfig> {
    let permits = prop_oneof![1..20_u32, Just(1_000_000), Just(u32::MAX)];
    let period = prop_oneof![0..5_000_u64, Just(86_400_000)].prop_map(Duration::from_millis);
    let burst = prop::option::of(prop_oneof![0..30_u32, Just(u32::MAX)]);
    (permits, period, burst).prop_map(|(permits, period, burst)| RateLimitConfig {
        burst,
        ..RateLimitConfig::new(permits, period)
    })
}

fn any_config() -> impl Strategy<Value = RateLimitConfig> {
    (any::<u32>(), any::<Duration>(), any::<Option<u32>>()).prop_map(|(permits, period, burst)| {
        RateLimitConfig {
            burst,
            ..RateLimitConfig::new(permits, period)
        }
    })
}

fn any_instant() -> impl Strategy<Value = Timestamp> {
    let seconds = Timestamp::MIN.as_second()..=Timestamp::MAX.as_second();
    seconds.prop_map(|second| Timestamp::from_second(second).unwrap())
}

/// Steps of the clock in nanoseconds, some of them back, with how many are wanted then.
fn schedule() -> impl Strategy<Value = Vec<(i64, u32)>> {
    let step = prop_oneof![
        6 => 0..2_000_000_000_i64,
        2 => 0..1_000_i64,
        1 => -3_600_000_000_000..0_i64,
    ];
    prop::collection::vec((step, prop_oneof![0..50_u32, Just(u32::MAX)]), 0..60)
}

proptest! {
    #[test]
    fn never_more_than_burst_and_rate_over_the_time_elapsed(config in config(), schedule in schedule()) {
        let mut limiter = RateLimiter::default();
        let (mut now, mut granted, mut elapsed) = (at(1_700_000_000_000), 0_u128, 0_u128);
        for (step, wanted) in schedule {
            now = Timestamp::from_nanosecond(now.as_nanosecond() + i128::from(step)).unwrap();
            elapsed += u128::try_from(step).unwrap_or(0);
            granted += u128::from(limiter.admit(&config, wanted, now).granted);
            let burst = u128::from(config.burst.unwrap_or(config.permits).max(1));
            // A period of 0 counts as the shortest interval there is, a nanosecond.
            let by_rate = match config.period.as_nanos() {
                0 => elapsed,
                period => elapsed * u128::from(config.permits) / period,
            };
            prop_assert!(granted <= burst + by_rate, "{granted} > {burst} + {by_rate}");
        }
    }

    #[test]
    fn one_is_granted_after_the_time_it_says(config in config(), schedule in schedule()) {
        let mut limiter = RateLimiter::default();
        let mut now = at(1_700_000_000_000);
        for (step, wanted) in schedule {
            now = Timestamp::from_nanosecond(now.as_nanosecond() + i128::from(step)).unwrap();
            let answer = limiter.admit(&config, wanted, now);
            prop_assert_eq!(answer.retry_after.is_some(), answer.granted < wanted);
            if let Some(after) = answer.retry_after {
                prop_assert!(!after.is_zero());
                let mut later = limiter;
                prop_assert_eq!(later.admit(&config, 1, now + after).granted, 1);
            }
        }
    }

    #[test]
    fn nothing_panics(calls in prop::collection::vec((any_config(), any::<u32>(), any_instant()), 0..20)) {
        let mut limiter = RateLimiter::default();
        for (config, wanted, now) in calls {
            let answer = limiter.admit(&config, wanted, now);
            prop_assert!(answer.granted <= wanted);
        }
        limiter.admit(&RateLimitConfig::new(1, Duration::MAX).with_burst(u32::MAX), 1, Timestamp::MAX);
    }

    #[test]
    fn state_is_the_same_after_it_was_stored(config in config(), schedule in schedule()) {
        let mut limiter = RateLimiter::default();
        let mut now = at(1_700_000_000_000);
        for (step, wanted) in schedule {
            now = Timestamp::from_nanosecond(now.as_nanosecond() + i128::from(step)).unwrap();
            limiter.admit(&config, wanted, now);
            let stored = serde_json::to_string(&limiter).unwrap();
            prop_assert_eq!(serde_json::from_str::<RateLimiter>(&stored).unwrap(), limiter);
        }
    }
}

#[test]
fn burst_is_there_at_once_and_then_permits_come_one_by_one() {
    let config = RateLimitConfig::new(4, Duration::from_secs(1)).with_burst(2);
    let mut limiter = RateLimiter::default();
    let granted: Vec<u32> = [0, 0, 249, 250, 500, 10_000]
        .map(|instant| limiter.admit(&config, 5, at(instant)).granted)
        .to_vec();
    assert_eq!(granted, [2, 0, 0, 1, 1, 2]);
}

#[test]
fn burst_is_a_periods_worth_by_default() {
    let mut limiter = RateLimiter::default();
    let answer = limiter.admit(&RateLimitConfig::per_second(7), 100, at(0));
    assert_eq!(answer.granted, 7);
}

#[test]
fn without_permits_nothing_is_ever_granted() {
    let mut limiter = RateLimiter::default();
    for instant in [at(0), at(1), Timestamp::MAX] {
        let answer = limiter.admit(&RateLimitConfig::per_second(0), 1, instant);
        assert_eq!(answer.granted, 0);
        assert!(answer.retry_after.unwrap() >= Duration::from_secs(60));
    }
    let nothing = limiter.admit(&RateLimitConfig::per_second(0), 0, at(0));
    let expected = Granted {
        granted: 0,
        retry_after: None,
    };
    assert_eq!(nothing, expected);
}

#[test]
fn clock_that_goes_back_delays_by_an_interval_and_no_more() {
    let config = RateLimitConfig::per_second(1);
    let mut limiter = RateLimiter::default();
    assert_eq!(limiter.admit(&config, 1, at(3_600_000)).granted, 1);
    let answer = limiter.admit(&config, 1, at(0));
    assert_eq!(
        (answer.granted, answer.retry_after),
        (0, Some(millis(1000)))
    );
    assert_eq!(limiter.admit(&config, 1, at(1000)).granted, 1);
}

#[test]
fn key_is_the_types_own_unless_one_is_named() {
    let own = RateLimitConfig::per_second(1);
    assert_eq!(own.key_for("charge"), "activity:charge");
    assert_eq!(own.with_key("bank").key_for("charge"), "bank");
}

#[test]
fn options_without_a_limit_are_stored_as_before_and_read_back_with_one() {
    let stored = serde_json::to_string(&ActivityOptions::default()).unwrap();
    assert!(!stored.contains("rate_limit"), "{stored}");
    let options = ActivityOptions {
        rate_limit: Some(RateLimitConfig::new(3, millis(1500)).with_key("k")),
        ..ActivityOptions::default()
    };
    let stored = serde_json::to_value(&options).unwrap();
    let expected = serde_json::json!({"key": "k", "permits": 3, "period_ms": 1500});
    assert_eq!(stored["rate_limit"], expected);
    assert_eq!(
        serde_json::from_value::<ActivityOptions>(stored).unwrap(),
        options
    );
}
