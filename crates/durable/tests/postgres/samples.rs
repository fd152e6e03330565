//! Records with every field filled, and with every field that may be empty empty.

use std::time::Duration;

use durable_core::{
    ActivityOptions, AttemptRecord, CircuitBreakerConfig, ExhaustedPolicy, Failure, Payload,
    RateLimitConfig, RetryPolicy, Timestamp, TraceContext, WorkflowEvent, WorkflowSignal,
};
use everruns_durable::persistence::model::{
    Blocked, ClosePolicy, DeadLetter, DeadLetterState, Fact, LastAttempt, LogLevel, Message,
    MessageRecord, NewSignal, OutboxRecord, OutboxState, OverlapPolicy, Owner, ParentLink,
    ReusePolicy, RunRecord, ScheduleRecord, SignalRecord, StepLogRecord, StoredStart, TaskRecord,
    TaskStatus, TimerRecord, UpdateRecord, UpdateState, WorkflowStatus,
};
use everruns_durable::persistence::sql::rows::RunHead;
use uuid::Uuid;

/// An instant, in whole microseconds, that many seconds after a fixed one.
pub(crate) fn t(seconds: i64) -> Timestamp {
    Timestamp::from_microsecond(1_800_000_000_123_456 + seconds * 1_000_000).unwrap()
}

/// An id; the random half differs too, so that ids spread over shards.
pub(crate) fn id(n: u128) -> Uuid {
    Uuid::from_u128((0x0190_0000_0000_7000_u128 << 64) | n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2)
}

/// Text that PostgreSQL's JSONB would not keep, or not as it is.
pub(crate) fn odd_payload() -> Payload {
    Payload::from_json_text(
        r#" {"a":1, "a":9007199254740993, "z":"\u0000\ud83d\ude00", "e":1e400 } "#,
    )
    .unwrap()
}

/// What a codec made: no UTF-8, and zeros.
pub(crate) fn codec_payload() -> Payload {
    Payload::from_codec(vec![0, 255, 0, 128, 39, 92]).unwrap()
}

pub(crate) fn failure() -> Failure {
    Failure::new("CardDeclined", "no funds\u{0}\u{1F600}")
        .with_details(Payload::from_json_text(r#"[9007199254740993, "\u0000", 1e400]"#).unwrap())
        .with_cause(Failure::new("Io", "reset").non_retryable())
}

fn trace() -> TraceContext {
    TraceContext {
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        span_id: "b7ad6b7169203331".into(),
        trace_flags: 255,
    }
}

pub(crate) fn attempt(n: u32) -> AttemptRecord {
    AttemptRecord {
        attempt: n,
        worker_id: format!("worker-{n}"),
        started_at: n.is_multiple_of(2).then(|| t(5)),
        failure: failure(),
        omitted_before: 0,
    }
}

pub(crate) fn full_options() -> ActivityOptions {
    ActivityOptions {
        retry_policy: RetryPolicy::exponential(),
        schedule_to_start_timeout: Duration::from_millis(1_234),
        start_to_close_timeout: Duration::from_secs(600),
        heartbeat_timeout: Some(Duration::from_millis(2_500)),
        schedule_to_close_timeout: Some(Duration::from_secs(3_600)),
        circuit_breaker: Some(CircuitBreakerConfig::default()),
        rate_limit: Some(RateLimitConfig::per_second(3).with_key("external:bank")),
        priority: -7,
        on_exhausted: ExhaustedPolicy::Park,
        sequential: false,
    }
}

/// A run with every field filled.
pub(crate) fn full_run(run_id: Uuid) -> RunRecord {
    RunRecord {
        id: run_id,
        workflow_type: "order".into(),
        version: "v2".into(),
        business_id: Some("order-'1\"".into()),
        idempotency_key: Some("key;1".into()),
        fingerprint: i64::MIN,
        status: WorkflowStatus::Running,
        input: odd_payload(),
        result: codec_payload(),
        error: Some(failure()),
        memo: Payload::null(),
        trace: Some(trace()),
        parent: Some(ParentLink {
            run_id: id(999),
            child_id: "ship".into(),
            epoch: 3,
            iteration: 4,
            close_policy: ClosePolicy::Abandon,
        }),
        has_children: true,
        sequence: 1 << 40,
        history_start: 7,
        iteration: 2,
        epoch: 1,
        arrivals: 12,
        consumed: 11,
        last_turn: Some(id(998)),
        ready_at: Some(t(1)),
        owner: Some(Owner {
            worker_id: "w".into(),
            expires_at: t(15),
        }),
        blocked: Some(Blocked {
            build: "b1".into(),
            reason: "diverged".into(),
        }),
        execution_deadline: Some(t(100)),
        run_deadline: Some(t(50)),
        run_timeout: Some(Duration::from_millis(50_001)),
        created_at: t(0),
        updated_at: t(1),
        started_at: Some(t(2)),
        completed_at: Some(t(3)),
    }
}

/// A run with every field that may be empty empty.
pub(crate) fn bare_run(run_id: Uuid) -> RunRecord {
    RunRecord {
        id: run_id,
        workflow_type: "order".into(),
        version: String::new(),
        business_id: None,
        idempotency_key: None,
        fingerprint: 0,
        status: WorkflowStatus::Pending,
        input: Payload::ABSENT,
        result: Payload::ABSENT,
        error: None,
        memo: Payload::ABSENT,
        trace: None,
        parent: None,
        has_children: false,
        sequence: 0,
        history_start: 0,
        iteration: 0,
        epoch: 0,
        arrivals: 0,
        consumed: 0,
        last_turn: None,
        ready_at: None,
        owner: None,
        blocked: None,
        execution_deadline: None,
        run_deadline: None,
        run_timeout: None,
        created_at: t(0),
        updated_at: t(0),
        started_at: None,
        completed_at: None,
    }
}

/// What a write sees of a run.
pub(crate) fn head(run: &RunRecord) -> RunHead {
    RunHead {
        id: run.id,
        workflow_type: run.workflow_type.clone(),
        business_id: run.business_id.clone(),
        idempotency_key: run.idempotency_key.clone(),
        fingerprint: run.fingerprint,
        status: run.status,
        parent: run.parent.clone(),
        has_children: run.has_children,
        sequence: run.sequence,
        history_start: run.history_start,
        iteration: run.iteration,
        epoch: run.epoch,
        arrivals: run.arrivals,
        consumed: run.consumed,
        last_turn: run.last_turn,
        ready_at: run.ready_at,
        owner: run.owner.clone(),
        blocked: run.blocked.clone(),
        execution_deadline: run.execution_deadline,
        run_deadline: run.run_deadline,
        run_timeout_ms: run
            .run_timeout
            .map(|d| i64::try_from(d.as_millis()).unwrap()),
        created_at: run.created_at,
        updated_at: run.updated_at,
        started_at: run.started_at,
        completed_at: run.completed_at,
        task_count: 0,
        line_count: 0,
    }
}

pub(crate) fn full_task(run_id: Uuid, n: u128) -> TaskRecord {
    TaskRecord {
        id: id(n),
        run_id,
        activity_id: format!("activity-{n}"),
        activity_type: "charge".into(),
        input: codec_payload(),
        options: full_options(),
        status: TaskStatus::Claimed,
        line: i64::MAX,
        epoch: 9,
        scheduled_at: t(1),
        visible_at: t(2),
        attempt: 4,
        deliveries: 5,
        claimed_by: Some("worker".into()),
        claimed_at: Some(t(3)),
        token: Some(id(n + 1000)),
        lease_expires_at: Some(t(18)),
        heartbeat_at: Some(t(4)),
        heartbeat_details: odd_payload(),
        close_deadline: Some(t(3_600)),
        attempts: vec![attempt(1), attempt(2)],
        requeue_count: 6,
        trace: Some(trace()),
    }
}

pub(crate) fn bare_task(run_id: Uuid, n: u128) -> TaskRecord {
    TaskRecord {
        id: id(n),
        run_id,
        activity_id: format!("activity-{n}"),
        activity_type: "charge".into(),
        input: Payload::ABSENT,
        options: ActivityOptions::default(),
        status: TaskStatus::Pending,
        line: 0,
        epoch: 0,
        scheduled_at: t(0),
        visible_at: t(0),
        attempt: 0,
        deliveries: 0,
        claimed_by: None,
        claimed_at: None,
        token: None,
        lease_expires_at: None,
        heartbeat_at: None,
        heartbeat_details: Payload::ABSENT,
        close_deadline: None,
        attempts: Vec::new(),
        requeue_count: 0,
        trace: None,
    }
}

pub(crate) fn timer(run_id: Uuid, timer_id: &str, fire_at: Timestamp) -> TimerRecord {
    TimerRecord {
        run_id,
        timer_id: timer_id.into(),
        fire_at,
        epoch: 2,
    }
}

pub(crate) fn full_fact(arrival: i64) -> Fact {
    Fact {
        arrival,
        event: WorkflowEvent::ActivityCompleted {
            activity_id: "a".into(),
            result: odd_payload(),
        },
        attempts: vec![attempt(1), attempt(2)],
        last_attempt: Some(LastAttempt {
            attempt: 3,
            worker_id: "w".into(),
            started_at: t(3),
        }),
        arrived_at: t(4),
    }
}

pub(crate) fn signal_fact(arrival: i64) -> Fact {
    Fact {
        arrival,
        event: WorkflowEvent::SignalReceived {
            signal: WorkflowSignal {
                signal_id: None,
                signal_type: "pay".into(),
                payload: Payload::ABSENT,
                sent_at: t(1),
            },
            unread: false,
        },
        attempts: Vec::new(),
        last_attempt: None,
        arrived_at: t(1),
    }
}

pub(crate) fn signal(run_id: Uuid, n: u128, arrival: i64) -> SignalRecord {
    SignalRecord {
        run_id,
        signal_id: id(n),
        signal_type: "pay".into(),
        payload: if n.is_multiple_of(2) {
            Payload::ABSENT
        } else {
            codec_payload()
        },
        arrival,
        sent_at: t(1),
        processed_at: None,
    }
}

pub(crate) fn update(run_id: Uuid, update_id: &str, state: UpdateState) -> UpdateRecord {
    let pending = state == UpdateState::Pending;
    UpdateRecord {
        run_id,
        update_id: update_id.into(),
        name: "set".into(),
        input: if pending {
            Payload::ABSENT
        } else {
            odd_payload()
        },
        arrival: 3,
        state,
        created_at: t(1),
        completed_at: (!pending).then(|| t(2)),
    }
}

pub(crate) fn letter(run_id: Uuid, n: u128) -> DeadLetter {
    DeadLetter {
        id: id(n),
        run_id,
        activity_id: "a".into(),
        activity_type: "charge".into(),
        input: codec_payload(),
        options: full_options(),
        epoch: 1,
        attempts: 3,
        last_error: failure(),
        error_history: vec![attempt(1)],
        parked: true,
        state: DeadLetterState::Dead,
        dead_at: t(9),
        requeued_at: None,
        requeue_count: 0,
    }
}

pub(crate) fn outbox(run_id: Uuid, n: u128, available_at: Timestamp) -> OutboxRecord {
    let full = n.is_multiple_of(2);
    OutboxRecord {
        id: id(n),
        run_id,
        event_type: "order.paid".into(),
        payload: if full { odd_payload() } else { Payload::ABSENT },
        idempotency_key: full.then(|| "k".into()),
        state: OutboxState::Pending,
        attempts: 2,
        available_at,
        token: full.then(|| id(77)),
        last_error: full.then(|| "refused".into()),
        created_at: t(0),
        published_at: full.then(|| t(8)),
    }
}

pub(crate) fn log(run_id: Uuid, n: u128) -> StepLogRecord {
    StepLogRecord {
        id: id(n),
        run_id,
        activity_id: "a".into(),
        attempt: 1,
        level: LogLevel::Warn,
        message: "slow\n'".into(),
        meta: if n.is_multiple_of(2) {
            codec_payload()
        } else {
            Payload::ABSENT
        },
        created_at: t(1),
    }
}

/// One message of each kind, payloads absent, odd and encoded.
pub(crate) fn messages(sender: Uuid) -> Vec<MessageRecord> {
    let start = StoredStart {
        run_id: id(500),
        workflow_type: "child".into(),
        version: "1".into(),
        input: codec_payload(),
        business_id: Some("b".into()),
        reuse_policy: ReusePolicy::RejectDuplicate,
        attributes: [("n".to_owned(), durable_core::AttributeValue::Int(1))].into(),
        memo: odd_payload(),
        execution_timeout_ms: Some(5),
        run_timeout_ms: None,
        trace: Some(trace()),
        sealed_fingerprint: Some(-1),
    };
    let all = [
        Message::StartChild {
            start,
            close_policy: ClosePolicy::Terminate,
            child_id: "c".into(),
            epoch: 1,
            iteration: 2,
        },
        Message::ChildFinished {
            parent: id(501),
            child_id: "c".into(),
            epoch: 1,
            iteration: 2,
            status: WorkflowStatus::Failed,
            result: Payload::ABSENT,
            error: Some(failure()),
        },
        Message::Signal {
            run_id: id(502),
            signal: NewSignal {
                signal_id: id(503),
                signal_type: "pay".into(),
                payload: odd_payload(),
            },
        },
        Message::CloseChildren,
    ];
    all.into_iter()
        .zip(0..)
        .map(|(message, idx)| MessageRecord {
            sender,
            sequence_num: 5,
            idx,
            message,
        })
        .collect()
}

pub(crate) fn schedule(schedule_id: &str, full: bool) -> ScheduleRecord {
    ScheduleRecord {
        id: schedule_id.into(),
        workflow_type: "report".into(),
        version: String::new(),
        input: if full { odd_payload() } else { Payload::ABSENT },
        cron: "0 3 * * *".into(),
        time_zone: "Europe/Berlin".into(),
        overlap: OverlapPolicy::BufferOne,
        catchup_window_ms: 60_000,
        paused: false,
        next_fire_at: full.then(|| t(10)),
        last_fire_at: full.then(|| t(-10)),
        last_run: full.then(|| id(42)),
        created_at: t(-100),
        updated_at: t(-50),
    }
}
