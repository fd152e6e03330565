//! What operators do.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::World;

async fn terminated_run_has_failed_with_the_reason(world: World) {
    let id = world.start("holding", Value::Null).await;
    let run = world
        .post(
            &format!("/workflows/{id}/terminate"),
            &json!({"reason": "enough"}),
        )
        .await;
    let run = run.expect(StatusCode::OK);
    assert_eq!(
        (&run["status"], &run["error"]["type"]),
        (&json!("failed"), &json!("WorkflowTerminated"))
    );
    let again = world.request(Method::POST, &format!("/workflows/{id}/terminate"));
    world
        .send(again)
        .await
        .refused(StatusCode::CONFLICT, "run_finished");
}

async fn ended_run_is_deleted_for_good(world: World) {
    let id = world.start("holding", json!("a secret")).await;
    let path = format!("/workflows/{id}");
    let delete = || world.send(world.request(Method::DELETE, &path));
    let open = delete().await;
    open.refused(StatusCode::CONFLICT, "run_open");
    let end = world.request(Method::POST, &format!("{path}/terminate"));
    world.send(end).await.expect(StatusCode::OK);
    let deleted = delete().await.expect(StatusCode::OK);
    assert_eq!(deleted, json!({"id": id, "complete": true}));
    for gone in [
        path.clone(),
        format!("{path}/events"),
        format!("{path}/history"),
    ] {
        let gone = world.get(&gone).await;
        gone.refused(StatusCode::NOT_FOUND, "not_found");
    }
    let again = delete().await;
    again.refused(StatusCode::NOT_FOUND, "not_found");
}

async fn failed_run_is_retried_and_reset(world: World) {
    let id = world.start("failing", Value::Null).await;
    assert_eq!(world.ended(&id).await["status"], "failed");
    let retried = world
        .send(world.request(Method::POST, &format!("/workflows/{id}/retry")))
        .await;
    assert_eq!(retried.expect(StatusCode::OK)["epoch"], 1);
    assert_eq!(
        world.ended(&id).await["status"],
        "failed",
        "it fails again, by design"
    );
    let reset = world
        .post(
            &format!("/workflows/{id}/reset"),
            &json!({"to_sequence": 1}),
        )
        .await;
    assert_eq!(reset.expect(StatusCode::OK)["epoch"], 2);
    let nowhere = world
        .post(
            &format!("/workflows/{id}/reset"),
            &json!({"to_sequence": 10_000}),
        )
        .await;
    nowhere.refused(StatusCode::BAD_REQUEST, "invalid_request");
}

async fn cancelled_twice_under_one_key_is_cancelled_once(world: World) {
    // Its clean-up waits for a signal, so that there is time to ask again.
    let clean_up = json!([{"do": "wait_signal", "name": "cleaned"}]);
    let steps = json!([
        {"do": "compensate", "steps": clean_up},
        {"do": "wait_signal", "name": "never"},
    ]);
    let id = world
        .start("durable.program", json!({"steps": steps}))
        .await;
    let cancel = async |key: &str| {
        let request = world.request(Method::POST, &format!("/workflows/{id}/cancel"));
        let request = request.header("Idempotency-Key", key);
        world.send(request.json(&json!({"reason": key}))).await
    };
    for key in ["a", "a", "b"] {
        cancel(key).await.expect(StatusCode::ACCEPTED);
    }
    let cleaned = json!({"signal_type": "cleaned"});
    let signal = world
        .post(&format!("/workflows/{id}/signal"), &cleaned)
        .await;
    signal.expect(StatusCode::ACCEPTED);
    assert_eq!(world.ended(&id).await["status"], "cancelled");
    let events = world.get(&format!("/workflows/{id}/events")).await;
    let events = events.expect(StatusCode::OK);
    let asked = events["events"].as_array().unwrap().iter();
    let asked = asked.filter(|event| event["event_data"]["signal"]["signal_type"] == "cancel");
    assert_eq!(asked.count(), 2, "{events}");
    // A repeat is answered as the first time, although the run has ended since.
    cancel("a").await.expect(StatusCode::ACCEPTED);
    cancel("c")
        .await
        .refused(StatusCode::CONFLICT, "run_finished");
}

async fn batch_needs_a_filter_and_begins_dry(world: World) {
    let ids = [
        world.start("holding", json!(1)).await,
        world.start("holding", json!(2)).await,
    ];
    let all = json!({"action": "cancel", "filter": {}});
    world
        .post("/workflows/batch", &all)
        .await
        .refused(StatusCode::BAD_REQUEST, "invalid_request");
    let mut batch =
        json!({"action": "terminate", "filter": {"workflow_type": "holding"}, "reason": "over"});
    let dry = world
        .post("/workflows/batch", &batch)
        .await
        .expect(StatusCode::OK);
    assert_eq!(
        (&dry["affected"], dry["ids"].as_array().unwrap().len()),
        (&json!(2), 2)
    );
    assert_eq!(
        world
            .get(&format!("/workflows/{}/result", ids[0]))
            .await
            .status,
        StatusCode::ACCEPTED
    );
    batch["dry_run"] = json!(false);
    let done = world
        .post("/workflows/batch", &batch)
        .await
        .expect(StatusCode::OK);
    assert_eq!(done["affected"], 2);
    for id in ids {
        assert_eq!(world.ended(&id).await["status"], "failed");
    }
}

async fn dead_letters_are_decided(world: World) {
    let id = world.start("parking", Value::Null).await;
    let letter = loop {
        let list = world
            .get(&format!("dlq?run_id={id}"))
            .await
            .expect(StatusCode::OK);
        if let Some(letter) = list["dead_letters"].as_array().unwrap().first() {
            break letter.clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        (&letter["activity_type"], &letter["parked"]),
        (&json!("break_down"), &json!(true))
    );
    assert_eq!(letter["last_error"]["type"], "Broken");
    let path = format!("dlq/{}", letter["id"].as_str().unwrap());
    world.get(&path).await.expect(StatusCode::OK);
    let done = world
        .post(&format!("{path}/complete"), &json!({"result": "by hand"}))
        .await;
    assert_eq!(done.expect(StatusCode::OK)["state"], "completed");
    assert_eq!(world.ended(&id).await["result"], "by hand");
    world
        .post(&format!("{path}/complete"), &json!({}))
        .await
        .refused(StatusCode::CONFLICT, "conflict");
    let purged = world
        .send(world.request(Method::POST, "dlq/purge"))
        .await
        .expect(StatusCode::OK);
    assert_eq!(purged["purged"], 1);
    world
        .get(&path)
        .await
        .refused(StatusCode::NOT_FOUND, "not_found");
}

async fn schedules_live_and_die(world: World) {
    let body = json!({"id": "nightly", "cron": "0 3 * * *", "time_zone": "Europe/Vienna", "workflow_type": "increment", "input": 1});
    let made = world
        .post("schedules", &body)
        .await
        .expect(StatusCode::CREATED);
    assert!(made["next_fire_at"].is_string(), "{made}");
    let bad = json!({"id": "x", "cron": "61 * * * *", "workflow_type": "increment"});
    world
        .post("schedules", &bad)
        .await
        .refused(StatusCode::BAD_REQUEST, "invalid_request");
    let post = |path: &str| world.send(world.request(Method::POST, path));
    assert_eq!(
        post("schedules/nightly/pause").await.expect(StatusCode::OK)["paused"],
        true
    );
    assert_eq!(
        post("schedules/nightly/resume")
            .await
            .expect(StatusCode::OK)["paused"],
        false
    );
    let run = post("schedules/nightly/trigger")
        .await
        .expect(StatusCode::CREATED);
    assert_eq!(world.ended(run["id"].as_str().unwrap()).await["result"], 2);
    let list = world.get("schedules").await.expect(StatusCode::OK);
    assert_eq!(list["schedules"].as_array().unwrap().len(), 1);
    let gone = world
        .send(world.request(Method::DELETE, "schedules/nightly"))
        .await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    world
        .get("schedules/nightly")
        .await
        .refused(StatusCode::NOT_FOUND, "not_found");
}

async fn workers_are_listed_and_drained(world: World) {
    let id = world.start("increment", json!(1)).await;
    world.ended(&id).await;
    let list = loop {
        let list = world.get("workers").await.expect(StatusCode::OK);
        if list["total"] == 1 {
            break list;
        }
        tokio::task::yield_now().await;
    };
    let worker = &list["workers"][0];
    assert_eq!(worker["id"], world.engine.worker_id());
    assert_eq!(
        (&worker["status"], &list["summary"]["active"]),
        (&json!("active"), &json!(1))
    );
    let path = format!("workers/{}", world.engine.worker_id());
    let drained = world
        .send(world.request(Method::POST, &format!("{path}/drain")))
        .await;
    assert_eq!(drained.expect(StatusCode::ACCEPTED)["status"], "draining");
    world
        .get("workers/nobody")
        .await
        .refused(StatusCode::NOT_FOUND, "not_found");
}

on_every_store!(
    terminated_run_has_failed_with_the_reason,
    ended_run_is_deleted_for_good,
    failed_run_is_retried_and_reset,
    cancelled_twice_under_one_key_is_cancelled_once,
    batch_needs_a_filter_and_begins_dry,
    dead_letters_are_decided,
    schedules_live_and_die,
    workers_are_listed_and_drained,
);
