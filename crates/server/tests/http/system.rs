//! How the system does.

use std::collections::BTreeMap;

use durable_server::auth::Access;
use everruns_durable::core::{CircuitState, Payload, Timestamp};
use everruns_durable::persistence::model::BreakerRecord;
use everruns_durable::prelude::*;
use everruns_durable::reliability::AdmissionSettings;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

/// What the events of runs say about an activity type.
#[derive(Default)]
struct Seen {
    completed: u64,
    failed: u64,
    /// Of each: from its last attempt's start to the end, in whole milliseconds.
    took_ms: Vec<i64>,
    /// Of each: from when it was scheduled to its first attempt's start.
    waited_ms: Vec<i64>,
}

impl Seen {
    /// Reads the events of a run with one activity.
    fn read(&mut self, events: &[Value]) {
        let of_type = |name: &'static str| {
            let events = events.iter();
            events.filter(move |event| event["event_type"] == name)
        };
        let at = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
        let millis = |from: Timestamp, until: Timestamp| {
            (until.as_microsecond() - from.as_microsecond()).max(0) / 1000
        };
        let scheduled = at(&of_type("activity.scheduled").next().unwrap()["created_at"]);
        let started = |event: &Value| at(&event["event_data"]["started_at"]);
        let first = started(of_type("activity.started").next().unwrap());
        let last = started(of_type("activity.started").next_back().unwrap());
        self.completed += of_type("activity.completed").count() as u64;
        self.failed += of_type("activity.failed").count() as u64;
        let mut ends = of_type("activity.completed").chain(of_type("activity.failed"));
        self.took_ms
            .push(millis(last, at(&ends.next().unwrap()["created_at"])));
        self.waited_ms.push(millis(scheduled, first));
    }
}

#[allow(clippy::cast_precision_loss, reason = "a mean")]
fn mean(all: &[i64]) -> f64 {
    all.iter().sum::<i64>() as f64 / all.len() as f64
}

/// The power of two that none is above.
fn within(all: &[i64]) -> f64 {
    let longest = *all.iter().max().unwrap();
    let exponent = i64::BITS - longest.leading_zeros();
    f64::from(exponent).exp2()
}

async fn statistics_are_what_the_events_say(world: World) {
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(("add_one", world.start("increment", json!(n)).await));
    }
    ids.push(("break_down", world.start("failing", Value::Null).await));
    let step = json!({"do": "activity", "type": "sleep", "input": {"ms": 20}});
    let napping = world.start("durable.program", json!({"steps": [step]}));
    ids.push(("sleep", napping.await));
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    for (activity_type, id) in &ids {
        world.ended(id).await;
        let page = world.get(&format!("/workflows/{id}/events")).await;
        let page = page.expect(StatusCode::OK);
        let of_type = seen.entry(activity_type).or_default();
        of_type.read(page["events"].as_array().unwrap());
    }
    assert_eq!(
        (seen["add_one"].completed, seen["break_down"].failed),
        (5, 1)
    );
    let stats = world.get("tasks/stats").await.expect(StatusCode::OK);
    for (activity_type, seen) in &seen {
        let told = &stats["by_activity_type"][activity_type];
        assert_eq!(told["completed_last_hour"], seen.completed, "{stats}");
        assert_eq!(told["failed_last_hour"], seen.failed, "{stats}");
        assert_eq!(told["avg_duration_ms"], mean(&seen.took_ms), "{stats}");
        assert_eq!(told["p99_duration_ms"], within(&seen.took_ms), "{stats}");
        assert_eq!((&told["pending"], &told["claimed"]), (&json!(0), &json!(0)));
    }
    let all = |of: fn(&Seen) -> &Vec<i64>| {
        let all: Vec<i64> = seen.values().flat_map(of).copied().collect();
        mean(&all)
    };
    assert_eq!(
        stats["avg_execution_time_ms"],
        all(|seen| &seen.took_ms),
        "{stats}"
    );
    assert_eq!(
        stats["avg_schedule_to_start_ms"],
        all(|seen| &seen.waited_ms),
        "{stats}"
    );
    assert_eq!(stats["by_priority"], json!({}), "{stats}");
    assert_eq!(stats["oldest_pending_task_age_ms"], 0, "{stats}");
    let health = world.get("health").await.expect(StatusCode::OK);
    assert_eq!(
        (&health["running_workflows"], &health["dlq_size"]),
        (&json!(0), &json!(1)),
        "{health}"
    );
    for path in ["/metrics", "metrics"] {
        let metrics = world.get(path).await;
        assert_eq!(metrics.status, StatusCode::OK);
        for line in [
            "durable_workflows_started_total 7",
            "durable_workflows_completed_total{workflow_type=\"increment\"} 5",
            "durable_activities_failed_total{activity_type=\"break_down\"} 1",
            "durable_dlq_entries 1",
            "workflow_runs_started_total 7",
            "workflow_steps_executed_total 7",
            "workflow_steps_failed_total 1",
            "step_execution_latency_seconds_count 7",
        ] {
            assert!(
                metrics.text.lines().any(|found| found == line),
                "{line}: {}",
                metrics.text
            );
        }
    }
}

#[tokio::test]
async fn what_passes_through_the_store_is_counted() {
    let world = World::measured().await;
    let options = json!({"max_attempts": 2, "initial_interval_ms": 1});
    let step = json!({"do": "activity", "type": "fail_n", "input": {"n": 1}, "options": options});
    let id = world
        .start("durable.program", json!({"steps": [step]}))
        .await;
    assert_eq!(world.ended(&id).await["status"], "completed");
    let store = world.app.store();
    let now = store.clock(None).await.unwrap();
    let breaker = BreakerRecord {
        key: "activity:x".to_owned(),
        state: CircuitState::Open,
        failure_count: 5,
        success_count: 0,
        opened_at: Some(now),
        data: Payload::null(),
        version: 0,
        updated_at: now,
    };
    assert!(store.save_breaker(breaker, None).await.unwrap());

    let metrics = world.get("/metrics").await.text;
    let value = |name: &str| {
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name} is not in {metrics}"));
        line.parse::<f64>().unwrap()
    };
    for name in [
        "durable_activities_scheduled_total",
        "durable_activities_retried_total",
        "step_retry_delay_seconds_count",
        "durable_circuit_breaker_opens_total{key=\"activity:x\"}",
    ] {
        assert_eq!(value(name), 1.0, "{name}");
    }
    // The second attempt came from the queue; how often it was looked at is the worker's business.
    for name in [
        "worker_claims_total",
        "worker_claim_size_count",
        "worker_claim_size_sum",
        "durable_tasks_claimed_total",
        "durable_tasks_claim_latency_seconds_count",
    ] {
        assert!(value(name) >= 1.0, "{name}");
    }
    for name in [
        "durable_activity_schedule_to_start_seconds_count",
        "durable_dlq_requeued_total",
        "durable_retention_rows_deleted_total",
        "durable_retention_stuck_runs",
    ] {
        assert!(value(name) >= 0.0, "{name}");
    }
}

#[tokio::test]
async fn a_server_that_set_nothing_aside_says_so() {
    let world = World::sqlite().await;
    let id = world.start("holding", Value::Null).await;
    let listed = world.get("set-aside").await.expect(StatusCode::OK);
    assert_eq!(listed, json!({"set_aside": []}));
    let path = format!("set-aside/{id}/retry");
    let retried = world.post(&path, &Value::Null).await;
    let problem = retried.expect(StatusCode::NOT_FOUND);
    let detail = problem["detail"].as_str().unwrap();
    assert_eq!(
        detail,
        format!("nothing of run {id} is set aside by this server")
    );
}

#[tokio::test]
async fn start_is_refused_with_a_time_to_come_back_when_too_much_waits() {
    let engine = Engine::in_memory().configure(|settings| {
        // Below zero there is room for nothing.
        settings.admission = Some(AdmissionSettings {
            max_queue_ratio: -1.0,
            ..AdmissionSettings::default()
        });
    });
    let world = World::with(engine, Access::open(), None).await;
    let start = json!({"workflow_type": "increment", "input": 1});
    let with_signal = json!({"start": start, "signal": {"signal_type": "go"}});
    for (path, body) in [
        ("/workflows", start),
        ("/workflows/signal-with-start", with_signal),
    ] {
        let answer = world.post(path, &body).await;
        answer.refused(StatusCode::SERVICE_UNAVAILABLE, "overloaded");
        assert_eq!(answer.headers["retry-after"], "5", "{path}");
    }
    let runs = world.get("/workflows").await.expect(StatusCode::OK);
    assert_eq!(runs["workflows"], json!([]));
}

on_every_store!(statistics_are_what_the_events_say,);
