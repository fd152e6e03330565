//! How the system does.

use durable_server::auth::Access;
use everruns_durable::core::{CircuitState, Payload};
use everruns_durable::persistence::model::BreakerRecord;
use everruns_durable::prelude::*;
use everruns_durable::reliability::AdmissionSettings;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

async fn statistics_are_what_the_events_say(world: World) {
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(world.start("increment", json!(n)).await);
    }
    ids.push(world.start("failing", Value::Null).await);
    let (mut completed, mut failed) = (0, 0);
    for id in &ids {
        world.ended(id).await;
        let page = world
            .get(&format!("/workflows/{id}/events"))
            .await
            .expect(StatusCode::OK);
        for event in page["events"].as_array().unwrap() {
            completed += u64::from(event["event_type"] == "activity.completed");
            failed += u64::from(event["event_type"] == "activity.failed");
        }
    }
    assert_eq!((completed, failed), (5, 1));
    let stats = world.get("tasks/stats").await.expect(StatusCode::OK);
    let by_type = &stats["by_activity_type"];
    assert_eq!(
        by_type["add_one"]["completed_last_hour"], completed,
        "{stats}"
    );
    assert_eq!(by_type["break_down"]["failed_last_hour"], failed, "{stats}");
    assert_eq!(by_type["add_one"]["pending"], 0);
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
            "durable_workflows_started_total 6",
            "durable_workflows_completed_total{workflow_type=\"increment\"} 5",
            "durable_activities_failed_total{activity_type=\"break_down\"} 1",
            "durable_dlq_entries 1",
            "workflow_runs_started_total 6",
            "workflow_steps_executed_total 6",
            "workflow_steps_failed_total 1",
            "step_execution_latency_seconds_count 6",
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
    ] {
        assert!(value(name) >= 0.0, "{name}");
    }
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
