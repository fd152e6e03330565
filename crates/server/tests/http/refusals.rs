//! Bad requests: a clear problem each, and never a 5xx.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{Answer, World};

async fn post_text(world: &World, text: impl Into<reqwest::Body>, kind: Option<&str>) -> Answer {
    let request = world.request(Method::POST, "/workflows").body(text);
    let request = match kind {
        Some(kind) => request.header("Content-Type", kind),
        None => request,
    };
    world.send(request).await
}

#[tokio::test]
async fn bad_bodies_are_named() {
    let world = World::open().await;
    let json = Some("application/json");
    let bad = StatusCode::BAD_REQUEST;
    for (text, code, named) in [
        ("{", "invalid_json", "EOF"),
        (
            "{\"workflow_type\": \"a\",}",
            "invalid_json",
            "key must be a string",
        ),
        ("\"text\"", "invalid_body", "expected struct"),
        ("{}", "invalid_body", "workflow_type"),
        (r#"{"workflow_type": 1}"#, "invalid_body", "string"),
        (
            r#"{"workflow_type": "a", "inputs": 1}"#,
            "invalid_body",
            "inputs",
        ),
        (
            r#"{"workflow_type": "a", "reuse_policy": "MAYBE"}"#,
            "invalid_body",
            "MAYBE",
        ),
        (
            r#"{"workflow_type": "a", "search_attributes": {"x": []}}"#,
            "invalid_body",
            "an attribute has to be",
        ),
        (
            r#"{"workflow_type": "a", "run_timeout_ms": -1}"#,
            "invalid_body",
            "-1",
        ),
        (
            r#"{"workflow_type": ""}"#,
            "invalid_request",
            "workflow type",
        ),
        ("", "invalid_body", "empty"),
    ] {
        let problem = post_text(&world, text, json).await.refused(bad, code);
        assert!(
            problem["detail"].as_str().unwrap().contains(named),
            "{text}: {problem}"
        );
    }
    let deep = format!(
        "{{\"workflow_type\":\"a\",\"input\":{}{}}}",
        "[".repeat(200),
        "]".repeat(200)
    );
    post_text(&world, deep, json)
        .await
        .refused(bad, "invalid_json");
    let no_text = b"{\"workflow_type\":\"\xff\"}".to_vec();
    post_text(&world, no_text, json)
        .await
        .refused(bad, "invalid_json");
    let huge = format!(
        "{{\"workflow_type\":\"a\",\"input\":\"{}\"}}",
        "x".repeat(70 << 10)
    );
    post_text(&world, huge, json)
        .await
        .refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large");
    let kind = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    for other in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
    ] {
        post_text(&world, "{}", other)
            .await
            .refused(kind, "unsupported_media_type");
    }
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let world = World::open().await;
    for path in [
        "/workflows?limit=0",
        "/workflows?limit=1001",
        "/workflows?limit=x",
        "/workflows?status=melted",
        "/workflows?stauts=failed",
        "/workflows?status=failed&status=failed",
        "/workflows?attributes=1",
        "/workflows?created_from=yesterday",
        "/workflows?workflow_type=%ff",
        "/workflows/not-an-id",
        "/workflows/%ff",
        "tasks?status=asleep",
        "dlq?state=none",
    ] {
        world
            .get(path)
            .await
            .refused(StatusCode::BAD_REQUEST, "invalid_parameter");
    }
    let id = world.start("increment", json!(1)).await;
    for wait in ["soon", "-1s", "", "99999999999s"] {
        let path = format!("/workflows/{id}/result?wait={wait}");
        world
            .get(&path)
            .await
            .refused(StatusCode::BAD_REQUEST, "invalid_parameter");
    }
    let key = world
        .request(Method::POST, "/workflows")
        .header("Idempotency-Key", "ä")
        .json(&json!({"workflow_type": "a"}));
    world
        .send(key)
        .await
        .refused(StatusCode::BAD_REQUEST, "invalid_parameter");
}

#[tokio::test]
async fn wrong_ways_and_methods_are_told() {
    let world = World::open().await;
    world
        .get("/nowhere")
        .await
        .refused(StatusCode::NOT_FOUND, "no_route");
    world
        .get("/v1/durable/nowhere")
        .await
        .refused(StatusCode::NOT_FOUND, "no_route");
    let answer = world.send(world.request(Method::PUT, "/workflows")).await;
    answer.refused(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed");
    let allow = answer.headers["allow"].to_str().unwrap();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
}

#[tokio::test]
async fn runs_that_are_not_there_are_not_found() {
    let world = World::open().await;
    let id = "00000000-0000-7000-8000-000000000001";
    for path in [
        "",
        "/events",
        "/events/stream",
        "/history",
        "/logs",
        "/result",
        "/updates/u",
    ] {
        world
            .get(&format!("/workflows/{id}{path}"))
            .await
            .refused(StatusCode::NOT_FOUND, "not_found");
    }
    for (path, body) in [
        ("signal", json!({"signal_type": "x"})),
        ("query", json!({"name": "x"})),
        ("update", json!({"name": "x"})),
        ("cancel", json!({})),
        ("shutdown", Value::Null),
        ("terminate", json!({})),
        ("retry", Value::Null),
        ("reset", json!({"to_sequence": 1})),
        ("approve", json!({})),
    ] {
        let request = world.request(Method::POST, &format!("/workflows/{id}/{path}"));
        let request = if body.is_null() {
            request
        } else {
            request.json(&body)
        };
        world
            .send(request)
            .await
            .refused(StatusCode::NOT_FOUND, "not_found");
    }
}

#[tokio::test]
async fn draining_server_is_alive_and_not_ready() {
    let world = World::open().await;
    assert_eq!(
        world.get("/readyz").await.expect(StatusCode::OK)["status"],
        "ok"
    );
    world.app.draining().cancel();
    let answer = world
        .get("/readyz")
        .await
        .expect(StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer["reasons"][0].as_str().unwrap().contains("draining"));
    world.get("/livez").await.expect(StatusCode::OK);
    world.get("/healthz").await.expect(StatusCode::OK);
}

#[tokio::test]
async fn draining_server_keeps_nobody_waiting() {
    let world = World::open().await;
    // Nobody hosts it: nothing that is asked of it is answered.
    let id = world.start("elsewhere", Value::Null).await;
    let run_id: Uuid = id.parse().unwrap();
    let update = json!({"name": "x", "update_id": "u"});
    let path = format!("/workflows/{id}/update?wait=60s");
    let asked = world.post(&path, &update);
    let drain = async {
        let store = world.app.store();
        while store.get_update(run_id, "u").await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        world.app.draining().cancel();
    };
    let (asked, ()) = tokio::join!(asked, drain);
    assert_eq!(asked.expect(StatusCode::ACCEPTED)["status"], "pending");
    let polled = world
        .get(&format!("/workflows/{id}/updates/u?wait=60s"))
        .await;
    assert_eq!(polled.expect(StatusCode::ACCEPTED)["status"], "pending");
    let query = json!({"name": "q"});
    let query = world.post(&format!("/workflows/{id}/query"), &query).await;
    query.refused(StatusCode::SERVICE_UNAVAILABLE, "shutting_down");
    assert!(query.headers.contains_key("retry-after"));
    let result = world.get(&format!("/workflows/{id}/result?wait=60s")).await;
    result.expect(StatusCode::ACCEPTED);
}

#[tokio::test]
async fn an_array_is_no_body_and_an_object_no_word() {
    let world = World::open().await;
    let id = Uuid::from_u128(1);
    let run = |path: &str| format!("/workflows/{id}/{path}");
    let start = |fields: Value| {
        let mut body = json!({"workflow_type": "a"});
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        ("/workflows".to_owned(), body)
    };
    let nothing = json!([null, null, null, null, null]);
    let batch = |action: Value| {
        (
            "/workflows/batch".to_owned(),
            json!({"action": action, "filter": {"workflow_type": "a"}, "dry_run": true}),
        )
    };
    for (path, body) in [
        (
            "/workflows".to_owned(),
            json!(["durable.program", {"steps": []}]),
        ),
        ("dlq/purge".to_owned(), nothing.clone()),
        (run("cancel"), json!(["because"])),
        (run("signal"), json!(["go", 1])),
        (run("query"), json!(["vars", null])),
        (run("update"), json!(["set_var", {"name": "a", "value": 1}])),
        (run("reset"), json!([1, "because"])),
        ("/workflows/batch".to_owned(), json!([{}, "cancel"])),
        batch(json!({"cancel": null})),
        start(json!({"reuse_policy": {"REJECT_DUPLICATE": null}})),
        start(json!({"search_attributes": {"t": ["time", "2026-01-01T00:00:00Z"]}})),
        start(
            json!({"search_attributes": {"t": {"type": {"time": null}, "value": "2026-01-01T00:00:00Z"}}}),
        ),
    ] {
        let answer = world.post(&path, &body).await;
        let problem = answer.refused(StatusCode::BAD_REQUEST, "invalid_body");
        assert!(problem["hint"].is_string(), "{path} {body}: {problem}");
    }
}

#[tokio::test]
async fn parameters_that_a_route_does_not_take_are_refused() {
    let world = World::open().await;
    let id = world.start("increment", json!(1)).await;
    for path in [
        "health?verbose=1".to_owned(),
        "workers?limit=1".to_owned(),
        format!("/workflows/{id}?limit=1"),
        format!("/workflows/{id}/why?x"),
        format!("/workflows/{id}/result?wait=1s&x=1"),
    ] {
        let answer = world.get(&path).await;
        answer.refused(StatusCode::BAD_REQUEST, "invalid_parameter");
    }
    let cancelled = world
        .post(&format!("/workflows/{id}/cancel?reason=x"), &json!({}))
        .await;
    cancelled.refused(StatusCode::BAD_REQUEST, "invalid_parameter");
    world.get("health?").await.expect(StatusCode::OK);
}
