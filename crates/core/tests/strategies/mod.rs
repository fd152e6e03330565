//! Events of every kind with few ids, so that nonsense meets itself. Boxed: unboxed, they overflow a test's stack.

use std::collections::BTreeMap;

use durable_core::{
    ActivityOptions, AttributeValue, Failure, Payload, RetryPolicy, TimeoutType, Timestamp,
    WorkflowError, WorkflowEvent as E, WorkflowSignal,
};
use proptest::prelude::*;
use uuid::Uuid;

fn id() -> impl Strategy<Value = String> {
    prop_oneof![20 => "[abc]", 1 => Just(String::new()), 1 => ".{0,8}"]
}

pub(crate) fn payload() -> BoxedStrategy<Payload> {
    prop_oneof![
        Just(Payload::ABSENT),
        Just(Payload::null()),
        any::<i64>().prop_map(|n| Payload::from_value(&n).unwrap()),
        ".{0,12}".prop_map(|s| Payload::from_value(&s).unwrap()),
        prop::collection::vec(any::<u8>(), 0..12).prop_map(Payload::from_stored),
    ]
    .boxed()
}

fn failure() -> BoxedStrategy<Failure> {
    let plain = (id(), ".{0,8}", any::<bool>()).prop_map(|(error_type, message, retryable)| {
        let mut failure = Failure::new(error_type, message);
        failure.retryable = retryable;
        failure
    });
    plain
        .prop_recursive(3, 8, 1, |cause| {
            cause.prop_map(|cause| Failure::new("Outer", "").with_cause(cause))
        })
        .boxed()
}

fn error() -> BoxedStrategy<WorkflowError> {
    prop_oneof![
        failure().prop_map(WorkflowError::from),
        Just(WorkflowError::new("WorkflowTerminated", "stop")),
        Just(WorkflowError::new("InvalidInput", "bad")),
    ]
    .boxed()
}

fn instant() -> impl Strategy<Value = Timestamp> {
    any::<i32>().prop_map(|seconds| Timestamp::from_second(seconds.into()).unwrap())
}

fn uuid() -> impl Strategy<Value = Uuid> {
    (0..3_u128).prop_map(Uuid::from_u128)
}

fn options() -> impl Strategy<Value = ActivityOptions> {
    (any::<i32>(), proptest::num::f64::ANY).prop_map(|(priority, jitter)| ActivityOptions {
        priority,
        retry_policy: RetryPolicy {
            jitter,
            ..RetryPolicy::default()
        },
        ..ActivityOptions::default()
    })
}

fn attributes() -> impl Strategy<Value = BTreeMap<String, Option<AttributeValue>>> {
    let value = prop_oneof![
        ".{0,4}".prop_map(AttributeValue::Text),
        any::<i64>().prop_map(AttributeValue::Int),
        any::<f64>().prop_map(AttributeValue::Double),
        Just(AttributeValue::Double(f64::INFINITY)),
        any::<bool>().prop_map(AttributeValue::Bool),
        instant().prop_map(AttributeValue::Time),
    ];
    prop::collection::btree_map(id(), prop::option::of(value), 0..3)
}

fn run_event() -> BoxedStrategy<E> {
    prop_oneof![
        payload().prop_map(|input| E::WorkflowStarted { input }),
        payload().prop_map(|result| E::WorkflowCompleted { result }),
        error().prop_map(|error| E::WorkflowFailed { error }),
        id().prop_map(|reason| E::WorkflowCancelled { reason }),
        id().prop_map(|reason| E::CancellationRequested { reason }),
        (0..4_u32, payload())
            .prop_map(|(iteration, input)| E::WorkflowContinuedAsNew { iteration, input }),
        (prop_oneof![-1..20_i64, any::<i64>()], 0..4_u32).prop_map(|(to_sequence, epoch)| {
            E::WorkflowReset {
                to_sequence,
                epoch,
                reason: String::new(),
            }
        }),
    ]
    .boxed()
}

fn activity_event() -> BoxedStrategy<E> {
    let clock = prop_oneof![
        Just(TimeoutType::ScheduleToStart),
        Just(TimeoutType::StartToClose),
        Just(TimeoutType::Heartbeat),
        Just(TimeoutType::ScheduleToClose),
    ];
    prop_oneof![
        3 => (id(), id(), payload(), options()).prop_map(|(activity_id, activity_type, input, options)| {
            E::ActivityScheduled { activity_id, activity_type, input, options: Box::new(options) }
        }),
        1 => (id(), 0..3_u32, id(), prop::option::of(instant())).prop_map(
            |(activity_id, attempt, worker_id, started_at)| {
                E::ActivityStarted { activity_id, attempt, worker_id, started_at }
            }
        ),
        1 => (id(), payload())
            .prop_map(|(activity_id, result)| E::ActivityCompleted { activity_id, result }),
        1 => (id(), failure(), any::<bool>()).prop_map(|(activity_id, error, will_retry)| {
            E::ActivityFailed { activity_id, error, will_retry }
        }),
        1 => (id(), clock).prop_map(|(activity_id, timeout_type)| {
            E::ActivityTimedOut { activity_id, timeout_type }
        }),
        1 => (id(), id())
            .prop_map(|(activity_id, reason)| E::ActivityCancelled { activity_id, reason }),
        1 => (id(), id(), payload()).prop_map(|(activity_id, activity_type, result)| {
            E::LocalActivityCompleted { activity_id, activity_type, result }
        }),
        1 => (id(), id(), failure()).prop_map(|(activity_id, activity_type, error)| {
            E::LocalActivityFailed { activity_id, activity_type, error }
        }),
    ]
    .boxed()
}

fn timer_signal_or_child_event() -> BoxedStrategy<E> {
    prop_oneof![
        (id(), any::<u64>()).prop_map(|(timer_id, duration_ms)| E::TimerStarted {
            timer_id,
            duration_ms
        }),
        id().prop_map(|timer_id| E::TimerFired { timer_id }),
        id().prop_map(|timer_id| E::TimerCancelled { timer_id }),
        (id(), payload(), instant(), any::<bool>()).prop_map(
            |(signal_type, payload, sent_at, unread)| {
                let signal = WorkflowSignal {
                    signal_id: None,
                    signal_type,
                    payload,
                    sent_at,
                };
                E::SignalReceived { signal, unread }
            }
        ),
        (uuid(), id(), id(), payload()).prop_map(
            |(workflow_id, workflow_type, child_id, input)| {
                E::ChildWorkflowStarted {
                    workflow_id,
                    workflow_type,
                    child_id,
                    input,
                }
            }
        ),
        (uuid(), id(), payload()).prop_map(|(workflow_id, child_id, result)| {
            E::ChildWorkflowCompleted {
                workflow_id,
                child_id,
                result,
            }
        }),
        (uuid(), id(), error()).prop_map(|(workflow_id, child_id, error)| {
            E::ChildWorkflowFailed {
                workflow_id,
                child_id,
                error,
            }
        }),
    ]
    .boxed()
}

fn feature_event() -> BoxedStrategy<E> {
    prop_oneof![
        (id(), id(), payload()).prop_map(|(update_id, name, input)| E::UpdateAccepted {
            update_id,
            name,
            input
        }),
        (id(), payload()).prop_map(|(update_id, result)| E::UpdateCompleted { update_id, result }),
        (id(), failure()).prop_map(|(update_id, error)| E::UpdateFailed { update_id, error }),
        (id(), payload()).prop_map(|(effect_id, value)| E::SideEffectRecorded { effect_id, value }),
        id().prop_map(|patch_id| E::PatchMarked { patch_id }),
        id().prop_map(|version| E::VersionMarked { version }),
        attributes().prop_map(|attributes| E::SearchAttributesUpserted { attributes }),
        (id(), payload()).prop_map(|(task_id, request)| E::HumanTaskOpened { task_id, request }),
        (id(), id(), id(), payload()).prop_map(|(task_id, decision, actor, answer)| {
            E::HumanTaskDecided {
                task_id,
                decision,
                actor,
                answer,
            }
        }),
    ]
    .boxed()
}

/// Any event.
pub(crate) fn event() -> BoxedStrategy<E> {
    prop_oneof![
        run_event(),
        activity_event(),
        timer_signal_or_child_event(),
        feature_event(),
    ]
    .boxed()
}
