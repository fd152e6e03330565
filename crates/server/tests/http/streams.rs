//! What is sent as it happens.

use std::time::Duration;

use durable_server::auth::{Access, Role, TokenFile, TokenRecord};
use futures_util::StreamExt as _;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::World;

/// After so long a stream that should end never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads server-sent events until the stream ends or `enough` says so.
async fn read(response: reqwest::Response, enough: impl Fn(&str) -> bool) -> String {
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        if enough(&text) {
            break;
        }
    }
    text
}

fn ids(text: &str) -> Vec<i64> {
    text.lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .map(|id| id.parse().unwrap())
        .collect()
}

#[tokio::test]
async fn run_is_followed_to_its_end_and_resumed_without_a_gap() {
    let world = World::open().await;
    let id = world.start("holding", Value::Null).await;
    let path = format!("/workflows/{id}/events/stream");
    let response = world.request(Method::GET, &path).send().await.unwrap();
    let first = read(response, |text| text.contains("workflow.started")).await;
    let seen = *ids(&first).last().unwrap();
    let signal = json!({"signal_type": "go", "payload": 1});
    world
        .post(&format!("/workflows/{id}/signal"), &signal)
        .await
        .expect(StatusCode::ACCEPTED);
    let resumed = world
        .request(Method::GET, &path)
        .header("Last-Event-ID", seen.to_string());
    let rest = read(resumed.send().await.unwrap(), |_| false).await;
    assert!(rest.contains("event: workflow.completed"), "{rest}");
    assert!(
        rest.contains("event: end"),
        "the stream says that it is over: {rest}"
    );
    let whole = world.request(Method::GET, &path).send().await.unwrap();
    let whole = ids(&read(whole, |_| false).await);
    let together: Vec<i64> = ids(&first).into_iter().chain(ids(&rest)).collect();
    assert_eq!(together, whole, "every event once");
}

#[tokio::test]
async fn draining_server_sends_its_readers_away() {
    let world = World::open().await;
    let id = world.start("holding", Value::Null).await;
    let path = format!("/workflows/{id}/events/stream");
    let response = world.request(Method::GET, &path).send().await.unwrap();
    world.app.draining().cancel();
    let text = read(response, |_| false).await;
    assert!(text.contains("event: goaway"), "{text}");
}

#[tokio::test]
async fn revoked_token_ends_the_streams_it_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let keep = |tokens: Vec<TokenRecord>| TokenFile { tokens }.write(&path).unwrap();
    let operator = TokenRecord::new("op", Role::Operator, "stays");
    let reader = TokenRecord::new("reader", Role::Reader, "secret");
    keep(vec![operator.clone(), reader]);
    let access = Access::guarded(Vec::new(), Some(path.clone())).unwrap();
    let mut world = World::suspicious(access).await;
    world.carry(Some("stays"));
    let id = world.start("holding", Value::Null).await;
    world.carry(Some("secret"));
    let mut open = Vec::new();
    for path in [
        format!("/workflows/{id}/events/stream"),
        "metrics/stream".to_owned(),
    ] {
        open.push(world.request(Method::GET, &path).send().await.unwrap());
    }
    keep(vec![operator]);
    for response in open {
        let all = tokio::time::timeout(PATIENCE, read(response, |_| false)).await;
        let text = all.expect("the stream ends");
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        let data = last.strip_prefix("event: denied\ndata: ").expect(&text);
        let problem: Value = serde_json::from_str(data).unwrap();
        assert_eq!(problem["code"], "unauthenticated", "{problem}");
    }
}

#[tokio::test]
async fn bad_last_event_id_is_refused() {
    let world = World::open().await;
    let id = world.start("holding", Value::Null).await;
    let path = format!("/workflows/{id}/events/stream");
    for bad in ["x", "-1", ""] {
        let request = world
            .request(Method::GET, &path)
            .header("Last-Event-ID", bad);
        world
            .send(request)
            .await
            .refused(StatusCode::BAD_REQUEST, "invalid_parameter");
    }
}

#[tokio::test]
async fn metrics_begin_with_a_snapshot() {
    let world = World::open().await;
    let response = world
        .request(Method::GET, "metrics/stream")
        .send()
        .await
        .unwrap();
    let text = read(response, |text| text.contains("\n\n")).await;
    assert!(text.contains("event: snapshot"), "{text}");
    let data = text
        .lines()
        .find_map(|line| line.strip_prefix("data: "))
        .unwrap();
    let point: Value = serde_json::from_str(data).unwrap();
    assert!(
        point["timestamp"].is_string() && point["pending_tasks"].is_number(),
        "{point}"
    );
    let series = world.get("metrics/timeseries").await.expect(StatusCode::OK);
    assert_eq!(series["interval_ms"], 10_000);
    assert_eq!(series["points"][0], point);
}
