//! Who may do what.

use durable_server::auth::{Access, Names, Permission, Role, TokenRecord};
use durable_server::http;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::World;

fn access() -> Access {
    let mut tokens: Vec<TokenRecord> = Role::ALL
        .into_iter()
        .map(|role| TokenRecord::new(role.as_str(), role, role.as_str()))
        .collect();
    let mut scoped = TokenRecord::new("scoped", Role::Operator, "scoped");
    scoped.workflow_types = Some(Names::new(["hold*"]));
    scoped.queues = Some(Names::new(["add_one"]));
    tokens.push(scoped);
    let mut typed = TokenRecord::new("typed", Role::Operator, "typed");
    typed.workflow_types = Some(Names::new(["hold*"]));
    tokens.push(typed);
    let mut expired = TokenRecord::new("expired", Role::Admin, "expired");
    expired.expires_at = Some("2020-01-01T00:00:00Z".parse().unwrap());
    tokens.push(expired);
    Access::guarded(tokens, None).unwrap()
}

/// A path with something in its holes. The run is nobody's: only the guard's answer counts here.
fn filled(path: &str) -> String {
    let id = "00000000-0000-7000-8000-000000000001";
    path.replace("{id}", id)
        .replace("{update_id}", "u")
        .replace("{key}", "k")
}

#[tokio::test]
async fn every_route_asks_every_role() {
    let mut world = World::guarded(access()).await;
    let listed = http::listed();
    assert!(listed.len() > 40, "{}", listed.len());
    // What stands beside the table, for scrapers that know no prefix.
    let beside = ("GET".to_owned(), "/metrics".to_owned(), Permission::Read);
    for (method, path, permission) in listed.into_iter().chain([beside]) {
        let method: Method = method.parse().unwrap();
        let mut paths = [http::PREFIX, http::ALIAS]
            .map(|prefix| filled(&path).replace(http::PREFIX, prefix))
            .to_vec();
        paths.dedup();
        for path in paths {
            for token in [None, Some("wrong"), Some("expired")] {
                world.carry(token);
                let answer = world.send(world.request(method.clone(), &path)).await;
                answer.refused(StatusCode::UNAUTHORIZED, "unauthenticated");
                assert!(answer.headers.contains_key("www-authenticate"));
            }
            for role in Role::ALL {
                world.carry(Some(role.as_str()));
                // What comes after the guard is of no interest; streams are not waited for.
                let response = world.request(method.clone(), &path).send().await.unwrap();
                let denied = response.status() == StatusCode::FORBIDDEN;
                assert_eq!(
                    denied,
                    !role.permits(permission),
                    "{role} {method} {path}: {}",
                    response.status()
                );
                assert_ne!(response.status(), StatusCode::UNAUTHORIZED);
                assert!(
                    !response.status().is_server_error(),
                    "{role} {method} {path}"
                );
            }
        }
    }
}

#[tokio::test]
async fn described_and_served_routes_are_the_same() {
    let world = World::guarded(access()).await;
    let api = world.get("/openapi.json").await.expect(StatusCode::OK);
    assert_eq!(api["openapi"], "3.1.0");
    let mut described: Vec<(String, String)> = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if path.starts_with(http::PREFIX) {
                described.push((method.to_uppercase(), path.clone()));
                assert!(
                    operation["responses"]["default"].is_object(),
                    "{method} {path}"
                );
                assert!(operation["security"].is_array(), "{method} {path}");
            }
        }
    }
    let mut served: Vec<(String, String)> = http::listed()
        .into_iter()
        .map(|(method, path, _)| (method, path))
        .collect();
    described.sort();
    served.sort();
    assert_eq!(described, served);
}

#[tokio::test]
async fn open_server_asks_for_no_token_and_describes_none() {
    let world = World::open().await;
    let api = world.get("/openapi.json").await.expect(StatusCode::OK);
    let list = &api["paths"]["/v1/durable/workflows"]["get"];
    assert!(
        list["responses"].is_object() && list["security"].is_null(),
        "{list}"
    );
    assert!(api["components"]["securitySchemes"].is_null());
}

#[tokio::test]
async fn probes_and_the_description_take_no_token() {
    let world = World::guarded(access()).await;
    for path in ["/livez", "/healthz", "/readyz", "/openapi.json"] {
        world.get(path).await.expect(StatusCode::OK);
    }
}

#[tokio::test]
async fn scoped_token_sees_and_touches_its_own_types_only() {
    let mut world = World::guarded(access()).await;
    world.carry(Some("admin"));
    let own = world.start("holding", Value::Null).await;
    let other = world.start("failing", Value::Null).await;
    world.carry(Some("scoped"));
    let forbidden = StatusCode::FORBIDDEN;
    world
        .get(&format!("/workflows/{own}"))
        .await
        .expect(StatusCode::OK);
    for path in [
        "",
        "/events",
        "/events/stream",
        "/history",
        "/logs",
        "/result",
    ] {
        world
            .get(&format!("/workflows/{other}{path}"))
            .await
            .refused(forbidden, "forbidden");
    }
    for path in ["cancel", "shutdown", "terminate", "retry", "approve"] {
        let post = world.request(Method::POST, &format!("/workflows/{other}/{path}"));
        world.send(post).await.refused(forbidden, "forbidden");
    }
    let list = world.get("/workflows").await.expect(StatusCode::OK);
    let ids: Vec<&Value> = list["workflows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["id"])
        .collect();
    assert_eq!(ids, [own.as_str()]);
    world
        .get("/workflows/count")
        .await
        .refused(forbidden, "forbidden");
    world
        .get("/workflows/count?workflow_type=holding")
        .await
        .expect(StatusCode::OK);
    let start = json!({"workflow_type": "increment", "input": 1});
    world
        .post("/workflows", &start)
        .await
        .refused(forbidden, "forbidden");
    let batch = json!({"action": "cancel", "filter": {"status": ["running"]}});
    world
        .post("/workflows/batch", &batch)
        .await
        .refused(forbidden, "forbidden");
    let schedule = json!({"id": "s", "cron": "* * * * *", "workflow_type": "increment"});
    world
        .post("schedules", &schedule)
        .await
        .refused(forbidden, "forbidden");
    let purge = world.request(Method::POST, "dlq/purge");
    world.send(purge).await.refused(forbidden, "forbidden");
}

#[tokio::test]
async fn tokens_are_listed_without_their_hashes() {
    let mut world = World::guarded(access()).await;
    world.carry(Some("admin"));
    let answer = world.get("tokens").await;
    let list = answer.expect(StatusCode::OK);
    assert_eq!(list["tokens"].as_array().unwrap().len(), 7);
    assert!(!answer.text.contains("sha256"), "{}", answer.text);
}

#[tokio::test]
async fn what_belongs_to_runs_of_other_types_is_out_of_scope() {
    let mut world = World::guarded(access()).await;
    world.carry(Some("admin"));
    let id = world.start("failing", Value::Null).await;
    world.ended(&id).await;
    let letters = world.get("dlq").await.expect(StatusCode::OK);
    let letter = letters["dead_letters"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let schedule = json!({"id": "daily", "workflow_type": "failing", "cron": "0 0 1 1 *"});
    world
        .post("schedules", &schedule)
        .await
        .expect(StatusCode::CREATED);
    let named = json!({"workflow_type": "failing", "workflow_id": "mine"});
    world
        .post("workflows", &named)
        .await
        .expect(StatusCode::CREATED);
    let worker = world.get("workers").await.expect(StatusCode::OK);
    let worker = worker["workers"][0]["id"].as_str().unwrap().to_owned();

    world.carry(Some("typed"));
    let letters = world.get("dlq").await.expect(StatusCode::OK);
    assert_eq!(letters["dead_letters"], json!([]));
    let schedule = json!({"id": "daily", "workflow_type": "holding", "cron": "0 0 1 1 *"});
    let named = json!({"workflow_type": "holding", "workflow_id": "mine", "reuse_policy": "TERMINATE_IF_RUNNING"});
    let with_signal = json!({"start": named, "signal": {"signal_type": "go", "payload": 1}});
    for (path, body) in [
        (format!("dlq/{letter}/requeue"), Value::Null),
        (format!("dlq/{letter}/discard"), Value::Null),
        ("dlq/purge".to_owned(), json!({})),
        ("dlq/purge".to_owned(), json!({"run_id": id})),
        ("schedules".to_owned(), schedule),
        ("workflows".to_owned(), named.clone()),
        ("workflows/signal-with-start".to_owned(), with_signal),
        (format!("workers/{worker}/drain"), Value::Null),
        (
            "circuit-breakers/external:bank/reset".to_owned(),
            Value::Null,
        ),
    ] {
        let answer = world.post(&path, &body).await;
        assert_eq!(
            answer.status,
            StatusCode::FORBIDDEN,
            "{path}: {}",
            answer.text
        );
    }
}

#[tokio::test]
async fn key_of_a_run_of_another_type_leads_a_scoped_token_nowhere() {
    let mut world = World::guarded(access()).await;
    world.carry(Some("admin"));
    let foreign = json!({"workflow_type": "durable.program", "idempotency_key": "k",
        "input": {"steps": [{"do": "wait_signal", "name": "go"}]}});
    let foreign = world.post("workflows", &foreign).await;
    let id = foreign.expect(StatusCode::CREATED)["id"].clone();
    let id = id.as_str().unwrap();

    world.carry(Some("typed"));
    let own = json!({"workflow_type": "holding", "idempotency_key": "k"});
    let with_signal = json!({"start": own, "signal": {"signal_type": "go"}});
    for (path, body) in [
        ("workflows", own),
        ("workflows/signal-with-start", with_signal),
    ] {
        let answer = world.post(path, &body).await;
        answer.refused(StatusCode::FORBIDDEN, "forbidden");
        for secret in [id, "durable.program"] {
            assert!(!answer.text.contains(secret), "{path}: {}", answer.text);
        }
    }

    world.carry(Some("admin"));
    let events = world.get(&format!("/workflows/{id}/events")).await;
    assert!(!events.text.contains("signal.received"), "{}", events.text);
}
