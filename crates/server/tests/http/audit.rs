//! Who changed what: every route that changes something leaves a row that names its caller.

use durable_server::auth::{Access, Permission, Role, TokenRecord};
use durable_server::http;
use everruns_durable::core::Payload;
use everruns_durable::core::breaker::CircuitState;
use everruns_durable::persistence::model::{BreakerRecord, WorkerFilter};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::World;

fn access() -> Access {
    let tokens = [("alice", Role::Operator), ("root", Role::Admin)];
    let tokens = tokens.map(|(name, role)| TokenRecord::new(name, role, name));
    Access::guarded(tokens.into(), None).unwrap()
}

/// A request for a route that changes exactly one thing.
struct Change {
    path: String,
    body: Value,
}

impl Change {
    fn at(path: impl Into<String>, body: Value) -> Self {
        let path = path.into();
        Self { path, body }
    }
}

/// The id of the letter of a run whose activity failed.
async fn letter(world: &World, workflow_type: &str) -> String {
    let id = world.start(workflow_type, Value::Null).await;
    if workflow_type == "failing" {
        world.ended(&id).await;
    }
    loop {
        let letters = world.get(&format!("dlq?run_id={id}")).await;
        let letters = letters.expect(StatusCode::OK);
        if let Some(letter) = letters["dead_letters"][0]["id"].as_str() {
            return letter.to_owned();
        }
        tokio::task::yield_now().await;
    }
}

async fn schedule(world: &World, id: &str) {
    let body = json!({"id": id, "workflow_type": "holding", "cron": "0 0 1 1 *"});
    let created = world.post("schedules", &body).await;
    created.expect(StatusCode::CREATED);
}

/// What the route needs to be there, and how it is asked.
async fn prepared(world: &World, method: &str, path: &str) -> Option<Change> {
    let below = path.strip_prefix(http::PREFIX).unwrap();
    let nothing = || json!({});
    let start = json!({"workflow_type": "holding"});
    let signal = json!({"signal_type": "go", "payload": 1});
    Some(match (method, below) {
        ("POST", "/workflows") => Change::at(below, start),
        ("POST", "/workflows/signal-with-start") => {
            let signal = json!({"signal_type": "never", "payload": 1});
            Change::at(below, json!({"start": start, "signal": signal}))
        }
        ("POST", "/workflows/batch") => {
            world.start("parking", Value::Null).await;
            let filter = json!({"workflow_type": "parking"});
            let body =
                json!({"action": "terminate", "filter": filter, "limit": 1, "dry_run": false});
            Change::at(below, body)
        }
        ("POST", "/workflows/{id}/retry" | "/workflows/{id}/reset") => {
            let id = world.start("failing", Value::Null).await;
            world.ended(&id).await;
            let body = if below.ends_with("reset") {
                json!({"to_sequence": 1})
            } else {
                Value::Null
            };
            Change::at(below.replace("{id}", &id), body)
        }
        ("POST", below) if below.starts_with("/workflows/{id}/") => {
            let id = world.start("holding", Value::Null).await;
            let body = match below.rsplit('/').next().unwrap() {
                "query" => return None,
                "signal" => signal,
                "update" => json!({"name": "add", "input": 1}),
                "cancel" | "terminate" => json!({"reason": "enough"}),
                "shutdown" | "approve" => Value::Null,
                other => panic!("{other}: say here how the route is asked for a change"),
            };
            Change::at(below.replace("{id}", &id), body)
        }
        ("DELETE", "/workflows/{id}") => {
            let id = world.start("failing", Value::Null).await;
            world.ended(&id).await;
            Change::at(below.replace("{id}", &id), Value::Null)
        }
        ("POST", "/dlq/purge") => {
            letter(world, "failing").await;
            Change::at(below, nothing())
        }
        ("POST" | "DELETE", below) if below.starts_with("/dlq/{id}") => {
            let id = letter(world, "parking").await;
            let body = if below.ends_with("complete") {
                json!({"result": 1})
            } else {
                Value::Null
            };
            Change::at(below.replace("{id}", &id), body)
        }
        ("POST", "/schedules") => {
            let body = json!({"id": "new", "workflow_type": "holding", "cron": "0 0 1 1 *"});
            Change::at(below, body)
        }
        ("POST" | "DELETE", below) if below.starts_with("/schedules/{id}") => {
            let id = format!("s-{}", below.len());
            schedule(world, &id).await;
            let mut body = Value::Null;
            if below.ends_with("resume") {
                let pause = format!("schedules/{id}/pause");
                let paused = world.post(&pause, &nothing()).await;
                assert!(paused.status.is_success());
            } else if below.ends_with("backfill") {
                body = json!({"from": "2023-06-01T00:00:00Z", "to": "2024-06-01T00:00:00Z"});
            }
            Change::at(below.replace("{id}", &id), body)
        }
        ("POST", "/workers/{id}/drain") => {
            let id = world.engine.worker_id();
            let known = async || {
                let workers = world.app.store().list_workers(WorkerFilter::default());
                workers.await.unwrap().iter().any(|worker| worker.id == id)
            };
            while !known().await {
                tokio::task::yield_now().await;
            }
            Change::at(below.replace("{id}", id), Value::Null)
        }
        ("POST", "/circuit-breakers/{key}/reset") => {
            let breaker = BreakerRecord {
                key: "mail".to_owned(),
                state: CircuitState::Open,
                failure_count: 1,
                success_count: 0,
                opened_at: None,
                data: Payload::ABSENT,
                version: 0,
                updated_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            };
            assert!(world.app.store().save_breaker(breaker, None).await.unwrap());
            Change::at(below.replace("{key}", "mail"), Value::Null)
        }
        // It makes the server try again; nothing that is stored changes.
        ("POST", RETRY_SET_ASIDE) => return None,
        (method, path) => panic!("{method} {path}: say here how the route is asked for a change"),
    })
}

/// The one route that operates and stores nothing.
const RETRY_SET_ASIDE: &str = "/set-aside/{id}/retry";

/// Rows so far, newest first.
async fn rows(world: &mut World) -> Vec<Value> {
    world.carry(Some("root"));
    let listed = world.get("audit?limit=1000").await.expect(StatusCode::OK);
    world.carry(Some("alice"));
    assert!(listed["next_cursor"].is_null(), "{listed}");
    listed["audit"].as_array().unwrap().clone()
}

/// The operation's id in the description.
fn operation_id(api: &Value, method: &str, path: &str) -> String {
    let operation = &api["paths"][path][method.to_lowercase()];
    operation["operationId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_route_that_changes_something_leaves_one_row_in_the_callers_name() {
    let mut world = World::guarded(access()).await;
    let api = world.get("/openapi.json").await.expect(StatusCode::OK);
    let mut noted = 0;
    // The worker goes last: it takes nothing more once it is drained.
    let mut listed = http::listed();
    listed.sort_by_key(|(_, path, _)| path.contains("/workers/"));
    for (method, path, permission) in listed {
        world.carry(Some("alice"));
        let reads = matches!(permission, Permission::Read | Permission::Administer);
        if method == "GET" {
            assert!(reads, "{path} is a GET and takes {permission:?}");
            continue;
        }
        let Some(change) = prepared(&world, &method, &path).await else {
            let stores_nothing = reads || path.ends_with(RETRY_SET_ASIDE);
            assert!(stores_nothing, "{method} {path} takes {permission:?}");
            continue;
        };
        let before = rows(&mut world).await;
        let mut request = world.request(
            method.parse::<Method>().unwrap(),
            change.path.trim_start_matches('/'),
        );
        if !change.body.is_null() {
            request = request.json(&change.body);
        }
        let answer = world.send(request.header("Idempotency-Key", &*path)).await;
        assert!(
            answer.status.is_success(),
            "{method} {path}: {}",
            answer.json()
        );
        // Rows of one millisecond are in no order of time.
        let mut new = rows(&mut world).await;
        new.retain(|row| !before.contains(row));
        assert_eq!(new.len(), 1, "{method} {path}: {new:#?}");
        let row = &new[0];
        assert_eq!(row["actor"], "alice", "{row}");
        assert_eq!(row["role"], "operator", "{row}");
        assert_eq!(row["action"], operation_id(&api, &method, &path), "{row}");
        assert_eq!(row["idempotency_key"], path, "{row}");
        noted += 1;
    }
    assert!(noted > 20, "{noted}");
}

#[tokio::test]
async fn refused_and_repeated_requests_leave_no_row() {
    let mut world = World::guarded(access()).await;
    world.carry(Some("alice"));
    let start = json!({"workflow_type": "holding", "idempotency_key": "k"});
    let started = world.post("/workflows", &start).await;
    let id = started.expect(StatusCode::CREATED)["id"].clone();
    let end = format!("/workflows/{}/terminate", id.as_str().unwrap());
    world.post(&end, &json!({})).await.expect(StatusCode::OK);
    let before = rows(&mut world).await;
    assert_eq!(before.len(), 2);
    let again = world.post("/workflows", &start).await;
    assert_eq!(again.expect(StatusCode::CREATED)["id"], id);
    let ended = world.post(&end, &json!({})).await;
    ended.refused(StatusCode::CONFLICT, "run_finished");
    let dry = json!({"action": "cancel", "filter": {"workflow_type": "holding"}});
    world
        .post("/workflows/batch", &dry)
        .await
        .expect(StatusCode::OK);
    assert_eq!(rows(&mut world).await, before);
}

#[tokio::test]
async fn rows_are_found_by_what_they_say_and_page_by_page() {
    let mut world = World::guarded(access()).await;
    let mut ids = Vec::new();
    for name in ["alice", "root", "alice"] {
        world.carry(Some(name));
        ids.push(world.start("holding", Value::Null).await);
    }
    world.carry(Some("root"));
    let found = async |query: &str| {
        let listed = world.get(&format!("audit?{query}")).await;
        let listed = listed.expect(StatusCode::OK);
        let rows = listed["audit"].as_array().unwrap().clone();
        (rows, listed["next_cursor"].clone())
    };
    assert_eq!(found("actor=alice").await.0.len(), 2);
    assert_eq!(found("actor=nobody").await.0.len(), 0);
    assert_eq!(found("action=start_workflow").await.0.len(), 3);
    assert_eq!(found("target_kind=worker").await.0.len(), 0);
    assert_eq!(found("until=2020-01-01T00:00:00Z").await.0.len(), 0);
    assert_eq!(found("from=2020-01-01T00:00:00Z").await.0.len(), 3);
    let (rows, _) = found(&format!("target_kind=run&target_id={}", ids[1])).await;
    assert_eq!((rows.len(), &rows[0]["actor"]), (1, &json!("root")));
    assert_eq!(rows[0]["detail"]["workflow_type"], "holding");
    let request = rows[0]["request_id"].as_str().unwrap();
    assert_eq!(found(&format!("request_id={request}")).await.0, rows);
    let (mut seen, mut query) = (Vec::new(), "limit=1".to_owned());
    loop {
        let (rows, cursor) = found(&query).await;
        seen.extend(rows);
        let Some(cursor) = cursor.as_str() else { break };
        query = format!("limit=1&cursor={cursor}");
    }
    assert_eq!(seen, found("limit=1000").await.0);
    let bad = world.get("audit?cursor=00").await;
    bad.refused(StatusCode::BAD_REQUEST, "invalid_cursor");
    let bad = world.get("audit?target_kind=planet").await;
    bad.refused(StatusCode::BAD_REQUEST, "invalid_parameter");
}

#[tokio::test]
async fn whoever_is_let_in_without_a_token_is_anonymous() {
    let world = World::open().await;
    world.start("holding", Value::Null).await;
    let rows = world.get("audit").await.expect(StatusCode::OK);
    assert_eq!(rows["audit"][0]["actor"], "anonymous");
}
