//! Lists.

use std::sync::Arc;

use durable_server::auth::Access;
use durable_testkit::faults::{FaultRates, FaultyStore};
use everruns_durable::persistence::MemoryStore;
use everruns_durable::prelude::*;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::World;

async fn pages_hold_every_run_once_newest_first(world: World) {
    let mut started = Vec::new();
    for n in 0..5 {
        started.push(world.start("increment", json!(n)).await);
    }
    started.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world
            .get(&format!("/workflows?limit=2{cursor}"))
            .await
            .expect(StatusCode::OK);
        for run in page["workflows"].as_array().unwrap() {
            seen.push(run["id"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, started);
}

async fn filters_select_and_count_alike(world: World) {
    let body =
        json!({"workflow_type": "holding", "workflow_id": "A", "search_attributes": {"n": 1}});
    world
        .post("/workflows", &body)
        .await
        .expect(StatusCode::CREATED);
    let body = json!({"workflow_type": "holding", "search_attributes": {"n": "1"}});
    world
        .post("/workflows", &body)
        .await
        .expect(StatusCode::CREATED);
    let id = world.start("increment", json!(1)).await;
    world.ended(&id).await;
    for (filter, found) in [
        ("", 3),
        ("workflow_type=holding", 2),
        ("status=completed", 1),
        ("status=completed,running,pending", 3),
        ("workflow_id=A", 1),
        ("attributes=%7B%22n%22:1%7D", 1),
        ("attributes=%7B%22n%22:%221%22%7D", 1),
        ("created_from=2000-01-01T00:00:00Z", 3),
        ("created_until=2000-01-01T00:00:00Z", 0),
        ("blocked=true", 0),
    ] {
        let list = world
            .get(&format!("/workflows?{filter}"))
            .await
            .expect(StatusCode::OK);
        assert_eq!(
            list["workflows"].as_array().unwrap().len(),
            found,
            "{filter}"
        );
        let count = world
            .get(&format!("/workflows/count?{filter}"))
            .await
            .expect(StatusCode::OK);
        assert_eq!(count["count"], found, "{filter}");
    }
}

async fn cursor_of_another_list_or_changed_is_refused(world: World) {
    for n in 0..3 {
        world.start("increment", json!(n)).await;
    }
    let page = world.get("/workflows?limit=1").await.expect(StatusCode::OK);
    let cursor = page["next_cursor"].as_str().unwrap();
    world
        .get(&format!("tasks?cursor={cursor}"))
        .await
        .refused(StatusCode::BAD_REQUEST, "invalid_cursor");
    let (rest, last) = cursor.split_at(cursor.len() - 1);
    let other = if last == "0" { '1' } else { '0' };
    let changed = format!("/workflows?cursor={rest}{other}");
    world
        .get(&changed)
        .await
        .refused(StatusCode::BAD_REQUEST, "invalid_cursor");
    world
        .get("/workflows?cursor=")
        .await
        .refused(StatusCode::BAD_REQUEST, "invalid_cursor");
}

/// Deciding about what one page shows does not hide what the next would have shown.
async fn letters_that_are_decided_on_the_way_hide_no_others(world: World) {
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(world.start("parking", Value::Null).await);
    }
    for run in &runs {
        loop {
            let list = world.get(&format!("dlq?run_id={run}")).await;
            let list = list.expect(StatusCode::OK);
            if !list["dead_letters"].as_array().unwrap().is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("dlq?limit=2{cursor}")).await;
        let page = page.expect(StatusCode::OK);
        for letter in page["dead_letters"].as_array().unwrap() {
            seen.push(letter["run_id"].as_str().unwrap().to_owned());
            let path = format!("dlq/{}/complete", letter["id"].as_str().unwrap());
            let done = world.post(&path, &json!({})).await;
            done.expect(StatusCode::OK);
        }
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    seen.sort();
    runs.sort();
    assert_eq!(seen, runs);
}

async fn schedules_that_are_deleted_on_the_way_hide_no_others(world: World) {
    for id in ["a", "b", "c", "d", "é"] {
        let body = json!({"id": id, "cron": "0 3 * * *", "workflow_type": "increment"});
        let made = world.post("schedules", &body).await;
        made.expect(StatusCode::CREATED);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("schedules?limit=2{cursor}")).await;
        let page = page.expect(StatusCode::OK);
        for schedule in page["schedules"].as_array().unwrap() {
            let id = schedule["id"].as_str().unwrap();
            let gone = world.request(Method::DELETE, &format!("schedules/{id}"));
            assert_eq!(world.send(gone).await.status, StatusCode::NO_CONTENT);
            seen.push(id.to_owned());
        }
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ["a", "b", "c", "d", "é"]);
}

/// A page costs what is on it, however long the history is; so does a look of the stream.
#[tokio::test]
async fn what_is_not_shown_is_not_read() {
    let memory = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::new(memory, 0, FaultRates::NONE));
    let world = World::with(Engine::on(Arc::clone(&store) as _), Access::open(), None).await;
    let id = world.start("increment", json!(1)).await;
    world.ended(&id).await;
    let calls = || {
        let counts = store.faults();
        ["load_history", "list_events"].map(|method| counts.get(method).map_or(0, |c| c.calls))
    };
    let before = calls();
    let page = world.get(&format!("/workflows/{id}/events?limit=2")).await;
    let events = page.expect(StatusCode::OK)["events"].clone();
    assert_eq!(events.as_array().unwrap().len(), 2);
    let stream = world.get(&format!("/workflows/{id}/events/stream")).await;
    assert!(stream.text.contains("event: end"), "{stream:?}");
    assert_eq!(calls(), [before[0], before[1] + 2]);
}

on_every_store!(
    pages_hold_every_run_once_newest_first,
    filters_select_and_count_alike,
    cursor_of_another_list_or_changed_is_refused,
    letters_that_are_decided_on_the_way_hide_no_others,
    schedules_that_are_deleted_on_the_way_hide_no_others,
);
