//! The events that the golden files hold. Never edited to make a test pass: what was written stays readable.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::{
    ActivityOptions, AttributeValue, CircuitBreakerConfig, ExhaustedPolicy, Failure, Payload,
    RateLimitConfig, RetryPolicy, TimeoutType, Timestamp, WorkflowError, WorkflowEvent as E,
    WorkflowSignal,
};
use uuid::Uuid;

fn json(text: &'static str) -> Payload {
    Payload::from_json_text(text).unwrap()
}

fn instant() -> Timestamp {
    "2026-01-02T03:04:05.678901Z".parse().unwrap()
}

fn child() -> Uuid {
    Uuid::from_u128(0x0190_1234_5678_7abc_8def_0123_4567_89ab)
}

fn rich_failure() -> Failure {
    Failure::new("CardDeclined", "the bank said \"no\"")
        .non_retryable()
        .with_details(json(r#"{"code":9007199254740993}"#))
        .with_cause(Failure::new("Io", "reset by peer"))
}

fn rich_options() -> ActivityOptions {
    ActivityOptions {
        retry_policy: RetryPolicy {
            non_retryable_errors: vec!["CardDeclined".into()],
            ..RetryPolicy::aggressive()
        },
        schedule_to_start_timeout: Duration::from_secs(1),
        start_to_close_timeout: Duration::from_secs(2),
        heartbeat_timeout: Some(Duration::from_secs(3)),
        schedule_to_close_timeout: Some(Duration::from_secs(4)),
        circuit_breaker: Some(CircuitBreakerConfig {
            key: Some("external:bank".into()),
            ..CircuitBreakerConfig::default()
        }),
        rate_limit: None,
        priority: -7,
        on_exhausted: ExhaustedPolicy::Park,
        sequential: false,
    }
}

fn attributes() -> BTreeMap<String, Option<AttributeValue>> {
    BTreeMap::from([
        ("bool".into(), Some(AttributeValue::Bool(true))),
        ("double".into(), Some(AttributeValue::Double(0.1))),
        ("gone".into(), None),
        ("int".into(), Some(AttributeValue::Int(i64::MIN))),
        ("text".into(), Some(AttributeValue::Text("1".into()))),
        ("time".into(), Some(AttributeValue::Time(instant()))),
    ])
}

/// Every kind of event, those with optional parts with and without them; in the order of the files.
pub(crate) fn events() -> Vec<E> {
    let mut events = run_events();
    events.extend(activity_events());
    events.extend(timer_signal_and_child_events());
    events.extend(feature_events());
    events
}

fn run_events() -> Vec<E> {
    vec![
        E::WorkflowStarted {
            input: json(r#"{"order":9007199254740993,"note":"\u0000"}"#),
        },
        E::WorkflowStarted {
            input: Payload::ABSENT,
        },
        E::WorkflowCompleted {
            result: json(" [1 , 2] "),
        },
        E::WorkflowCompleted {
            result: Payload::from_codec(vec![0, 1, 127]).unwrap(),
        },
        E::WorkflowFailed {
            error: WorkflowError::from(rich_failure()),
        },
        E::WorkflowFailed {
            error: WorkflowError::new("WorkflowTerminated", ""),
        },
        E::WorkflowCancelled {
            reason: "customer asked".into(),
        },
        E::CancellationRequested {
            reason: "customer asked".into(),
        },
        E::WorkflowContinuedAsNew {
            iteration: 3,
            input: json("{}"),
        },
        E::WorkflowReset {
            to_sequence: 12,
            epoch: 2,
            reason: "retry \"ship\"".into(),
        },
    ]
}

fn activity_events() -> Vec<E> {
    let activity_id = || String::from("charge-1");
    let limit = RateLimitConfig::new(5, Duration::from_millis(1500));
    vec![
        E::ActivityScheduled {
            activity_id: activity_id(),
            activity_type: "charge".into(),
            input: json("null"),
            options: Box::default(),
        },
        E::ActivityScheduled {
            activity_id: "größe/1".into(),
            activity_type: "charge".into(),
            input: json("[]"),
            options: Box::new(rich_options()),
        },
        E::ActivityScheduled {
            activity_id: activity_id(),
            activity_type: "charge".into(),
            input: json("1"),
            options: Box::new(ActivityOptions {
                rate_limit: Some(limit.clone().with_key("external:bank").with_burst(2)),
                ..ActivityOptions::default()
            }),
        },
        E::ActivityScheduled {
            activity_id: activity_id(),
            activity_type: "charge".into(),
            input: json("1"),
            options: Box::new(ActivityOptions {
                rate_limit: Some(limit),
                ..ActivityOptions::default()
            }),
        },
        E::ActivityScheduled {
            activity_id: activity_id(),
            activity_type: "charge".into(),
            input: json("1"),
            options: Box::default(),
        },
        E::ActivityScheduled {
            activity_id: activity_id(),
            activity_type: "charge".into(),
            input: json("1"),
            options: Box::new(ActivityOptions {
                sequential: false,
                ..ActivityOptions::default()
            }),
        },
        E::ActivityStarted {
            activity_id: activity_id(),
            attempt: 2,
            worker_id: "worker-a".into(),
            started_at: Some(instant()),
        },
        E::ActivityStarted {
            activity_id: activity_id(),
            attempt: 1,
            worker_id: String::new(),
            started_at: None,
        },
        E::ActivityCompleted {
            activity_id: activity_id(),
            result: json(r#""ok""#),
        },
        E::ActivityFailed {
            activity_id: activity_id(),
            error: rich_failure(),
            will_retry: false,
        },
        E::ActivityFailed {
            activity_id: activity_id(),
            error: Failure::new("Io", "reset by peer"),
            will_retry: true,
        },
        E::ActivityTimedOut {
            activity_id: activity_id(),
            timeout_type: TimeoutType::ScheduleToStart,
        },
        E::ActivityTimedOut {
            activity_id: activity_id(),
            timeout_type: TimeoutType::StartToClose,
        },
        E::ActivityTimedOut {
            activity_id: activity_id(),
            timeout_type: TimeoutType::Heartbeat,
        },
        E::ActivityTimedOut {
            activity_id: activity_id(),
            timeout_type: TimeoutType::ScheduleToClose,
        },
        E::ActivityCancelled {
            activity_id: activity_id(),
            reason: "lost the race".into(),
        },
        E::LocalActivityCompleted {
            activity_id: "hash-1".into(),
            activity_type: "hash".into(),
            result: json("7"),
        },
        E::LocalActivityFailed {
            activity_id: "hash-2".into(),
            activity_type: "hash".into(),
            error: rich_failure(),
        },
    ]
}

fn timer_signal_and_child_events() -> Vec<E> {
    vec![
        E::TimerStarted {
            timer_id: "t".into(),
            duration_ms: u64::MAX,
        },
        E::TimerFired {
            timer_id: "t".into(),
        },
        E::TimerCancelled {
            timer_id: "t".into(),
        },
        E::SignalReceived {
            signal: WorkflowSignal {
                signal_id: None,
                signal_type: "approve".into(),
                payload: json(r#"{"by":"ann"}"#),
                sent_at: instant(),
            },
            unread: false,
        },
        E::SignalReceived {
            signal: WorkflowSignal {
                signal_id: Some(child()),
                signal_type: "approve".into(),
                payload: json("1"),
                sent_at: instant(),
            },
            unread: true,
        },
        E::ChildWorkflowStarted {
            workflow_id: child(),
            workflow_type: "ship".into(),
            child_id: "ship-1".into(),
            input: json("1"),
        },
        E::ChildWorkflowCancelRequested {
            workflow_id: child(),
            child_id: "ship-1".into(),
        },
        E::ChildWorkflowCompleted {
            workflow_id: child(),
            child_id: "ship-1".into(),
            result: json("2"),
        },
        E::ChildWorkflowFailed {
            workflow_id: child(),
            child_id: "ship-1".into(),
            error: WorkflowError::from(rich_failure()),
        },
    ]
}

fn feature_events() -> Vec<E> {
    vec![
        E::UpdateAccepted {
            update_id: "u".into(),
            name: "add".into(),
            input: json("1"),
        },
        E::UpdateCompleted {
            update_id: "u".into(),
            result: json("2"),
        },
        E::UpdateFailed {
            update_id: "u".into(),
            error: rich_failure(),
        },
        E::SideEffectRecorded {
            effect_id: "random-1".into(),
            value: json("0.5"),
        },
        E::PatchMarked {
            patch_id: "new-fees".into(),
        },
        E::VersionMarked {
            version: "1.2.3".into(),
        },
        E::SearchAttributesUpserted {
            attributes: attributes(),
        },
        E::HumanTaskOpened {
            task_id: "h".into(),
            request: json(r#"{"form":"refund"}"#),
        },
        E::HumanTaskDecided {
            task_id: "h".into(),
            decision: "approved".into(),
            actor: "ann".into(),
            answer: json(r#"{"amount":5}"#),
        },
    ]
}
