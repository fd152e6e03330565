//! Records with every option taken and payloads that are hard to keep, and records with none.

use std::time::Duration;

use everruns_durable::core::{
    ActivityOptions, AttemptRecord, CircuitBreakerConfig, ExhaustedPolicy, Failure, Payload,
    RateLimitConfig, RetryPolicy, Timestamp, TraceContext, WorkflowEvent,
};
use everruns_durable::persistence::model::{
    Blocked, ClosePolicy, DeadLetter, DeadLetterState, Fact, LastAttempt, OutboxRecord,
    OutboxState, OverlapPolicy, Owner, ParentLink, RunRecord, ScheduleRecord, SignalRecord,
    StepLogRecord, TaskRecord, TaskStatus, TimerRecord, UpdateRecord, UpdateState, WorkflowStatus,
};
use uuid::Uuid;

use super::at;

/// Payloads that a careless store changes on the way.
pub(crate) fn odd_payloads() -> Vec<Payload> {
    let texts = [
        "null",
        "9007199254740993",
        "1e400",
        r#""\u0000""#,
        r#"{"a":1,"a":2}"#,
        "[ 1,\n 2 ]",
        r#""𝄞 ü""#,
        "\"\"",
    ];
    let mut payloads: Vec<Payload> = texts.map(json).into();
    let bytes: Vec<u8> = (0..=255).collect();
    payloads.push(Payload::from_codec(bytes).expect("it starts with the mark"));
    payloads.push(Payload::ABSENT);
    payloads
}

pub(crate) fn json(text: &'static str) -> Payload {
    Payload::from_json_text(text).expect("JSON")
}

pub(crate) fn failure() -> Failure {
    Failure::new("CardDeclined", "no \u{1f4b3} ' \" \\ %s")
        .non_retryable()
        .with_details(json("[9007199254740993, 1e400]"))
        .with_cause(Failure::new("Io", "reset"))
}

pub(crate) fn trace() -> TraceContext {
    TraceContext {
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".into(),
        span_id: "00f067aa0ba902b7".into(),
        trace_flags: 255,
    }
}

pub(crate) fn micros(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_000_000 + micros).expect("within range")
}

pub(crate) fn bare_run(id: u128) -> RunRecord {
    RunRecord {
        id: Uuid::from_u128(id),
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
        created_at: at(0),
        updated_at: at(0),
        started_at: None,
        completed_at: None,
    }
}

pub(crate) fn full_run(id: u128) -> RunRecord {
    RunRecord {
        version: "1.2.3".into(),
        business_id: Some("order ' 1".into()),
        idempotency_key: Some("key \" 1".into()),
        fingerprint: i64::MIN,
        status: WorkflowStatus::Failed,
        input: json("9007199254740993"),
        result: json(r#""\u0000""#),
        error: Some(failure()),
        memo: Payload::from_codec(vec![0, 255, 254]).expect("it starts with the mark"),
        trace: Some(trace()),
        parent: Some(ParentLink {
            run_id: Uuid::from_u128(77),
            child_id: "child".into(),
            epoch: u32::MAX,
            iteration: 3,
            close_policy: ClosePolicy::Abandon,
        }),
        has_children: true,
        sequence: i64::MAX,
        history_start: 4,
        iteration: u32::MAX,
        epoch: 6,
        arrivals: 7,
        consumed: 5,
        last_turn: Some(Uuid::from_u128(u128::MAX)),
        ready_at: Some(micros(1)),
        owner: Some(Owner {
            worker_id: "worker-1".into(),
            expires_at: micros(2),
        }),
        blocked: Some(Blocked {
            build: "b1".into(),
            reason: "diverged".into(),
        }),
        execution_deadline: Some(micros(3)),
        run_deadline: Some(micros(4)),
        run_timeout: Some(Duration::from_millis(5)),
        created_at: micros(-1),
        updated_at: micros(6),
        started_at: Some(micros(7)),
        completed_at: Some(micros(8)),
        ..bare_run(id)
    }
}

pub(crate) fn full_options() -> ActivityOptions {
    ActivityOptions {
        retry_policy: RetryPolicy {
            non_retryable_errors: vec!["CardDeclined".into()],
            ..RetryPolicy::default()
        },
        heartbeat_timeout: Some(Duration::from_secs(3)),
        schedule_to_close_timeout: Some(Duration::from_secs(9)),
        circuit_breaker: Some(CircuitBreakerConfig {
            key: Some("external:bank".into()),
            ..CircuitBreakerConfig::default()
        }),
        rate_limit: Some(RateLimitConfig::per_second(3).with_key("external:bank")),
        priority: i32::MIN,
        on_exhausted: ExhaustedPolicy::Park,
        sequential: false,
        ..ActivityOptions::default()
    }
}

pub(crate) fn attempts() -> Vec<AttemptRecord> {
    vec![
        AttemptRecord {
            attempt: 1,
            worker_id: "worker-1".into(),
            started_at: Some(micros(1)),
            failure: failure(),
            omitted_before: 0,
        },
        AttemptRecord {
            attempt: 2,
            worker_id: String::new(),
            started_at: None,
            failure: Failure::new("Io", ""),
            omitted_before: 0,
        },
    ]
}

pub(crate) fn bare_task(run: u128, id: u128) -> TaskRecord {
    TaskRecord {
        id: Uuid::from_u128(id),
        run_id: Uuid::from_u128(run),
        activity_id: format!("a{id}"),
        activity_type: "charge".into(),
        input: Payload::ABSENT,
        options: ActivityOptions::default(),
        status: TaskStatus::Pending,
        line: i64::try_from(id).expect("a small id"),
        epoch: 0,
        scheduled_at: at(0),
        visible_at: at(0),
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

pub(crate) fn full_task(run: u128, id: u128) -> TaskRecord {
    TaskRecord {
        input: json("[ 1,\n 2 ]"),
        options: full_options(),
        status: TaskStatus::Claimed,
        line: i64::MAX,
        epoch: 2,
        scheduled_at: micros(1),
        visible_at: micros(2),
        attempt: 3,
        deliveries: 4,
        claimed_by: Some("worker-1".into()),
        claimed_at: Some(micros(3)),
        token: Some(Uuid::from_u128(99)),
        lease_expires_at: Some(micros(4)),
        heartbeat_at: Some(micros(5)),
        heartbeat_details: json("1e400"),
        close_deadline: Some(micros(6)),
        attempts: attempts(),
        requeue_count: 7,
        trace: Some(trace()),
        ..bare_task(run, id)
    }
}

pub(crate) fn timer(run: u128, id: &str) -> TimerRecord {
    TimerRecord {
        run_id: Uuid::from_u128(run),
        timer_id: id.into(),
        fire_at: micros(1),
        epoch: 3,
    }
}

pub(crate) fn bare_fact(arrival: i64) -> Fact {
    Fact {
        arrival,
        event: WorkflowEvent::TimerFired {
            timer_id: "t".into(),
        },
        attempts: Vec::new(),
        last_attempt: None,
        arrived_at: at(arrival),
    }
}

pub(crate) fn full_fact(arrival: i64, result: Payload) -> Fact {
    Fact {
        event: WorkflowEvent::ActivityCompleted {
            activity_id: "a".into(),
            result,
        },
        attempts: attempts(),
        last_attempt: Some(LastAttempt {
            attempt: 3,
            worker_id: "worker-1".into(),
            started_at: micros(2),
        }),
        ..bare_fact(arrival)
    }
}

pub(crate) fn signal(run: u128, id: u128, payload: Payload) -> SignalRecord {
    SignalRecord {
        run_id: Uuid::from_u128(run),
        signal_id: Uuid::from_u128(id),
        signal_type: "approve".into(),
        payload,
        arrival: i64::try_from(id).expect("a small id"),
        sent_at: micros(1),
        processed_at: None,
    }
}

pub(crate) fn update(run: u128, id: &str, state: UpdateState) -> UpdateRecord {
    let completed_at = (state != UpdateState::Pending).then(|| micros(9));
    UpdateRecord {
        run_id: Uuid::from_u128(run),
        update_id: id.into(),
        name: "set".into(),
        input: json("null"),
        arrival: 1,
        state,
        created_at: micros(1),
        completed_at,
    }
}

pub(crate) fn bare_letter(run: u128, id: u128) -> DeadLetter {
    DeadLetter {
        id: Uuid::from_u128(id),
        run_id: Uuid::from_u128(run),
        activity_id: "a".into(),
        activity_type: "charge".into(),
        input: Payload::ABSENT,
        options: ActivityOptions::default(),
        epoch: 0,
        attempts: 0,
        last_error: Failure::new("Io", "x"),
        error_history: Vec::new(),
        parked: false,
        state: DeadLetterState::Dead,
        dead_at: at(1),
        requeued_at: None,
        requeue_count: 0,
    }
}

pub(crate) fn full_letter(run: u128, id: u128) -> DeadLetter {
    DeadLetter {
        input: json("9007199254740993"),
        options: full_options(),
        epoch: 1,
        attempts: 2,
        last_error: failure(),
        error_history: attempts(),
        parked: true,
        state: DeadLetterState::Requeued,
        dead_at: micros(1),
        requeued_at: Some(micros(2)),
        requeue_count: 3,
        ..bare_letter(run, id)
    }
}

pub(crate) fn bare_outbox(run: u128, id: u128) -> OutboxRecord {
    OutboxRecord {
        id: Uuid::from_u128(id),
        run_id: Uuid::from_u128(run),
        event_type: "order.placed".into(),
        payload: Payload::ABSENT,
        idempotency_key: None,
        state: OutboxState::Pending,
        attempts: 0,
        available_at: at(0),
        token: None,
        last_error: None,
        created_at: at(0),
        published_at: None,
    }
}

pub(crate) fn full_outbox(run: u128, id: u128) -> OutboxRecord {
    OutboxRecord {
        payload: json(r#"{"a":1,"a":2}"#),
        idempotency_key: Some("k".into()),
        state: OutboxState::InFlight,
        attempts: 2,
        available_at: micros(1),
        token: Some(Uuid::from_u128(5)),
        last_error: Some("refused".into()),
        created_at: micros(2),
        published_at: Some(micros(3)),
        ..bare_outbox(run, id)
    }
}

pub(crate) fn log(run: u128, id: u128, meta: Payload) -> StepLogRecord {
    StepLogRecord {
        id: Uuid::from_u128(id),
        run_id: Uuid::from_u128(run),
        activity_id: "a".into(),
        attempt: 1,
        level: everruns_durable::persistence::model::LogLevel::Warn,
        message: "ü\n".into(),
        meta,
        created_at: micros(1),
    }
}

pub(crate) fn bare_schedule(id: &str) -> ScheduleRecord {
    ScheduleRecord {
        id: id.into(),
        workflow_type: "report".into(),
        version: String::new(),
        input: Payload::ABSENT,
        cron: "0 5 * * *".into(),
        time_zone: "Europe/Berlin".into(),
        overlap: OverlapPolicy::Skip,
        catchup_window_ms: 0,
        paused: false,
        next_fire_at: None,
        last_fire_at: None,
        last_run: None,
        created_at: at(0),
        updated_at: at(0),
    }
}

pub(crate) fn full_schedule(id: &str) -> ScheduleRecord {
    ScheduleRecord {
        version: "2".into(),
        input: json("[]"),
        overlap: OverlapPolicy::BufferOne,
        catchup_window_ms: i64::MAX,
        paused: true,
        next_fire_at: Some(micros(1)),
        last_fire_at: Some(micros(2)),
        last_run: Some(Uuid::from_u128(3)),
        updated_at: micros(4),
        ..bare_schedule(id)
    }
}
