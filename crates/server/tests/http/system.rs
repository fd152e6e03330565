//! How the system does.

use durable_server::auth::Access;
use everruns_durable::prelude::*;
use everruns_durable::reliability::AdmissionSettings;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn statistics_are_what_the_events_say() {
    for world in [World::open().await, World::sqlite().await] {
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
