//! Runs: started, talked to, read.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::World;

async fn start_answers_the_run_with_its_id_first(world: World) {
    let body = json!({
        "workflow_type": "holding", "input": {"n": 9007199254740993_u64}, "workflow_id": "order-1",
        "search_attributes": {"customer": "A1", "amount": 3}, "memo": {"from": "test"},
        "execution_timeout_ms": 60000,
    });
    let answer = world.post("/workflows", &body).await;
    let run = answer.expect(StatusCode::CREATED);
    assert!(answer.text.starts_with("{\"id\":\""), "{}", answer.text);
    assert_eq!(run["workflow_id"], "order-1");
    assert_eq!(
        run["input"]["n"], 9007199254740993_u64,
        "numbers come back exactly"
    );
    assert_eq!(
        run["search_attributes"],
        json!({"customer": "A1", "amount": 3})
    );
    assert_eq!(run["memo"]["from"], "test");
    assert!(run["deadline"].is_string(), "{run}");
    let id = run["id"].as_str().unwrap();
    let again = world
        .get(&format!("/workflows/{id}"))
        .await
        .expect(StatusCode::OK);
    assert_eq!(again["id"], run["id"]);
    let alias = world
        .get(&format!("/api/durable/workflows/{id}"))
        .await
        .expect(StatusCode::OK);
    assert_eq!(alias["id"], run["id"], "the alias answers the same");
}

async fn result_is_waited_for_and_says_how_it_ended(world: World) {
    let id = world.start("increment", json!(41)).await;
    assert_eq!(
        world.ended(&id).await,
        json!({"id": id, "status": "completed", "result": 42})
    );

    let id = world.start("failing", Value::Null).await;
    let ended = world.ended(&id).await;
    assert_eq!(ended["status"], "failed");
    assert_eq!(ended["error"]["type"], "ActivityFailed", "{ended}");
    assert_eq!(ended["error"]["cause"]["type"], "Broken", "{ended}");

    let id = world.start("holding", Value::Null).await;
    let path = format!("/workflows/{id}/result?wait=10ms");
    let waiting = world.get(&path).await.expect(StatusCode::ACCEPTED);
    assert_eq!(waiting["id"], id.as_str());
    assert!(waiting.get("result").is_none() && waiting.get("error").is_none());

    let cancel = json!({"reason": "changed my mind"});
    world
        .post(&format!("/workflows/{id}/cancel"), &cancel)
        .await
        .expect(StatusCode::ACCEPTED);
    let ended = world.ended(&id).await;
    assert_eq!(
        (&ended["status"], &ended["error"]["message"]),
        (&json!("cancelled"), &json!("changed my mind"))
    );
}

async fn same_key_is_the_same_run(world: World) {
    let start = |key: &'static str, input: Value| {
        let body = json!({"workflow_type": "holding", "input": input});
        world.send(
            world
                .request(Method::POST, "/workflows")
                .header("Idempotency-Key", key)
                .json(&body),
        )
    };
    let first = start("k1", json!(1)).await.expect(StatusCode::CREATED);
    let second = start("k1", json!(1)).await.expect(StatusCode::CREATED);
    assert_eq!(first["id"], second["id"]);
    let problem = start("k1", json!(2))
        .await
        .refused(StatusCode::CONFLICT, "conflict");
    assert_eq!(
        problem["run_id"], first["id"],
        "the run that has the key is named"
    );

    let body = json!({"workflow_type": "holding", "idempotency_key": "k1", "input": 1});
    let third = world
        .post("/workflows", &body)
        .await
        .expect(StatusCode::CREATED);
    assert_eq!(first["id"], third["id"], "the field and the header are one");
    let differing = world
        .request(Method::POST, "/workflows")
        .header("Idempotency-Key", "k2")
        .json(&body);
    world
        .send(differing)
        .await
        .refused(StatusCode::CONFLICT, "conflict");
}

async fn signal_with_a_key_is_sent_once(world: World) {
    let id = world.start("holding", Value::Null).await;
    let path = format!("/workflows/{id}/signal");
    let send = || {
        let body = json!({"signal_type": "other", "payload": 1});
        world.send(
            world
                .request(Method::POST, &path)
                .header("Idempotency-Key", "s1")
                .json(&body),
        )
    };
    let first = send().await.expect(StatusCode::ACCEPTED);
    let second = send().await.expect(StatusCode::ACCEPTED);
    assert_eq!(first["signal_id"], second["signal_id"]);
    world
        .post(&path, &json!({"signal_type": "go", "payload": "now"}))
        .await
        .expect(StatusCode::ACCEPTED);
    assert_eq!(world.ended(&id).await["result"], "now");
    let events = world
        .get(&format!("/workflows/{id}/events"))
        .await
        .expect(StatusCode::OK);
    let signals = events["events"].as_array().unwrap();
    let signals = signals
        .iter()
        .filter(|event| event["event_type"] == "signal.received");
    assert_eq!(signals.count(), 2, "{events}");
    world
        .post(&path, &json!({"signal_type": "go"}))
        .await
        .refused(StatusCode::CONFLICT, "run_finished");
}

async fn signal_with_start_reaches_the_run_that_is_there(world: World) {
    let body = json!({
        "start": {"workflow_type": "holding", "workflow_id": "cart-1"},
        "signal": {"signal_type": "other", "payload": 1},
    });
    let path = "/workflows/signal-with-start";
    let first = world.post(path, &body).await.expect(StatusCode::CREATED);
    let second = world.post(path, &body).await.expect(StatusCode::CREATED);
    assert_eq!(first["id"], second["id"]);
}

async fn queries_and_updates_are_answered(world: World) {
    let id = world.start("holding", Value::Null).await;
    let update = json!({"name": "add", "input": 3, "update_id": "u1"});
    let path = format!("/workflows/{id}/update");
    let answer = world.post(&path, &update).await.expect(StatusCode::OK);
    assert_eq!(
        answer,
        json!({"id": id, "update_id": "u1", "status": "completed", "result": 3})
    );
    let again = world.post(&path, &update).await.expect(StatusCode::OK);
    assert_eq!(again["result"], 3, "the same update is not done twice");
    let polled = world
        .get(&format!("/workflows/{id}/updates/u1"))
        .await
        .expect(StatusCode::OK);
    assert_eq!(polled["result"], 3);
    let negative = json!({"name": "add", "input": -1, "update_id": "u2"});
    let refused = world.post(&path, &negative).await;
    let refused = refused.refused(StatusCode::UNPROCESSABLE_ENTITY, "update_failed");
    let error =
        json!({"type": "Negative", "message": "only more", "retryable": false, "details": null});
    assert_eq!(
        (&refused["error"], &refused["run_id"]),
        (&error, &json!(id))
    );
    let polled = world.get(&format!("/workflows/{id}/updates/u2")).await;
    let failed = json!({"id": id, "update_id": "u2", "status": "failed", "error": error});
    assert_eq!(polled.expect(StatusCode::OK), failed);
    world
        .get(&format!("/workflows/{id}/updates/nobody"))
        .await
        .refused(StatusCode::NOT_FOUND, "not_found");

    let path = format!("/workflows/{id}/query");
    let answer = world
        .post(&path, &json!({"name": "total"}))
        .await
        .expect(StatusCode::OK);
    assert_eq!(answer, json!({"result": 3}));
    world
        .post(&path, &json!({"name": "nothing"}))
        .await
        .refused(StatusCode::NOT_FOUND, "query_not_found");
}

async fn history_is_read_in_pages_and_exported_whole(world: World) {
    let id = world.start("increment", json!(1)).await;
    world.ended(&id).await;
    let mut path = format!("/workflows/{id}/events?limit=2");
    let mut types = Vec::new();
    loop {
        let page = world.get(&path).await.expect(StatusCode::OK);
        for event in page["events"].as_array().unwrap() {
            types.push(event["event_type"].as_str().unwrap().to_owned());
        }
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("/workflows/{id}/events?limit=2&cursor={cursor}");
    }
    assert_eq!(
        types,
        [
            "workflow.started",
            "activity.scheduled",
            "activity.started",
            "activity.completed",
            "workflow.completed"
        ]
    );
    let file = world.get(&format!("/workflows/{id}/history")).await;
    file.expect(StatusCode::OK);
    let history = everruns_durable::client::History::from_json(&file.text).unwrap();
    assert_eq!(history.events.len(), types.len());
}

async fn programs_run_and_their_mistakes_are_told_at_the_start(world: World) {
    let program = json!({"steps": [
        {"do": "activity", "type": "add", "input": {"a": 1, "b": 2}, "save": "sum"},
        {"do": "return", "value": {"$": "sum"}},
    ]});
    let id = world.start("durable.program", program).await;
    assert_eq!(world.ended(&id).await["result"], 3);
    let bad = json!({"workflow_type": "durable.program", "input": {"steps": [{"do": "sleep", "ms": 1}, {"do": "dance"}]}});
    let problem = world
        .post("/workflows", &bad)
        .await
        .refused(StatusCode::BAD_REQUEST, "invalid_program");
    assert!(
        problem["detail"].as_str().unwrap().contains("steps[1]"),
        "{problem}"
    );
    let schedule =
        json!({"id": "s", "cron": "* * * * *", "workflow_type": "durable.program", "input": {}});
    world
        .post("schedules", &schedule)
        .await
        .refused(StatusCode::BAD_REQUEST, "invalid_program");
}

async fn why_names_what_the_run_waits_for(world: World) {
    let id = world.start("holding", Value::Null).await;
    let path = format!("/workflows/{id}/why");
    let why = loop {
        let why = world.get(&path).await.expect(StatusCode::OK);
        if why["waits_for"][0]["kind"] == "signal" {
            break why;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(why["waits_for"][0]["name"], "go", "{why}");
    assert!(
        why["summary"].as_str().unwrap().contains("signal \"go\""),
        "{why}"
    );
    assert!(
        why["code"].as_str().unwrap().contains("world.rs:"),
        "the line that waits is named: {why}"
    );
    world
        .post(&format!("/workflows/{id}/terminate"), &json!({}))
        .await
        .expect(StatusCode::OK);
    assert_eq!(
        world.get(&path).await.expect(StatusCode::OK)["waits_for"][0]["kind"],
        "ended"
    );
}

on_every_store!(
    start_answers_the_run_with_its_id_first,
    result_is_waited_for_and_says_how_it_ended,
    same_key_is_the_same_run,
    signal_with_a_key_is_sent_once,
    signal_with_start_reaches_the_run_that_is_there,
    queries_and_updates_are_answered,
    history_is_read_in_pages_and_exported_whole,
    programs_run_and_their_mistakes_are_told_at_the_start,
    why_names_what_the_run_waits_for,
);
