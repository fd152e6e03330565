//! Finding runs, and doing something about many of them.

use everruns_durable::client::{BatchOptions, RunHandle};
use everruns_durable::core::error_types;
use everruns_durable::persistence::model::{Page, RunFilter, WorkflowStatus};
use everruns_durable::{Client, Engine};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "finding":
    pages_come_newest_first_and_the_last_one_says_so,
    conditions_hold_together_and_types_are_kept_apart,
    attributes_and_memo_are_read_back,
    runs_of_a_workflow_id_come_newest_first,
    a_batch_without_a_condition_is_refused,
    batch_cancel_asks_all_that_match_and_no_other,
    batch_terminate_ends_as_many_as_it_may,
}

fn waiting() -> Script {
    let go = Step::Signal {
        name: "go".to_owned(),
    };
    Script {
        heeds_cancel: true,
        ..Script::of([go])
    }
}

async fn start(engine: &Engine, region: &str, priority: i32) -> RunHandle<Scripted> {
    let start = engine
        .client()
        .start::<Scripted>(waiting())
        .attribute("region", region)
        .attribute("priority", priority);
    start.await.expect("starts")
}

fn of_region(region: &str) -> RunFilter {
    RunFilter::default().attribute("region", region)
}

fn limit(limit: usize) -> Page {
    Page { limit, offset: 0 }
}

/// By id from the largest: what was started within one millisecond has no other order.
fn newest_first(runs: impl IntoIterator<Item = Uuid>) -> Vec<Uuid> {
    let mut runs: Vec<Uuid> = runs.into_iter().collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    runs
}

async fn ids(client: &Client, filter: RunFilter) -> Vec<Uuid> {
    let page = client.list(filter, Page::default()).await.expect("lists");
    page.runs.iter().map(|run| run.id).collect()
}

async fn pages_come_newest_first_and_the_last_one_says_so(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let mut started = Vec::new();
    for _ in 0..6 {
        started.push(start(&engine, "eu", 1).await.id());
    }
    let started = newest_first(started);
    for size in [1, 2, 3, 4, 6, 50] {
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let filter = of_region("eu").before(cursor);
            let page = client.list(filter, limit(size)).await.expect("lists");
            assert!(!page.runs.is_empty(), "no page is empty");
            seen.extend(page.runs.iter().map(|run| run.id));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, started, "in pages of {size}");
    }
    let least = client.list(of_region("eu"), limit(0)).await.expect("lists");
    assert_eq!(least.runs.len(), 1, "a page has a row at least");
    assert_eq!(
        client
            .count(of_region("eu"), Default::default())
            .await
            .expect("counts")
            .count,
        6
    );
    let ended = client.batch_terminate(of_region("eu"), BatchOptions::because("done"));
    ended.await.expect("ends");
    engine.shutdown().await.expect("stops");
}

async fn conditions_hold_together_and_types_are_kept_apart(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let eu1 = start(&engine, "eu", 1).await.id();
    let eu2 = start(&engine, "eu", 2).await.id();
    start(&engine, "us", 1).await;
    assert_eq!(
        ids(&client, of_region("eu")).await,
        newest_first([eu1, eu2])
    );
    let both = of_region("eu").attribute("priority", 1);
    assert_eq!(ids(&client, both.clone()).await, [eu1]);
    assert!(ids(&client, both.workflow_type("other")).await.is_empty());
    let text = of_region("eu").attribute("priority", "1");
    assert!(ids(&client, text).await.is_empty(), "1 is not \"1\"");
    client.terminate(eu1, "test").await.expect("ends");
    let failed = of_region("eu").status(WorkflowStatus::Failed);
    assert_eq!(ids(&client, failed.clone()).await, [eu1]);
    let open = of_region("eu")
        .status(WorkflowStatus::Running)
        .status(WorkflowStatus::Pending);
    assert_eq!(ids(&client, open.clone()).await, [eu2]);
    let any = RunFilter {
        statuses: [failed.statuses, open.statuses].concat(),
        ..of_region("eu")
    };
    assert_eq!(ids(&client, any).await, newest_first([eu1, eu2]));
    let created = client.get(eu2).await.expect("there").created_at;
    let later = of_region("eu").created(Some(created), None);
    assert!(ids(&client, later).await.contains(&eu2));
    let earlier = of_region("eu").created(None, Some(created));
    assert!(!ids(&client, earlier).await.contains(&eu2));
    let all = RunFilter::default().workflow_type("scripted");
    let ended = client.batch_terminate(all, BatchOptions::because("done"));
    assert_eq!(ended.await.expect("ends").affected, 2);
    engine.shutdown().await.expect("stops");
}

async fn attributes_and_memo_are_read_back(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let memo = json!({ "ticket": "OPS-42" });
    let run = client
        .start::<Scripted>(Script::default())
        .attribute("region", "eu")
        .attribute("weight", 1.5)
        .attribute("express", true)
        .memo(&memo)
        .await
        .expect("starts");
    let attributes = client.attributes(run.id()).await.expect("there");
    assert_eq!(attributes.get("region"), Some(&"eu".into()));
    assert_eq!(attributes.get("weight"), Some(&1.5.into()));
    assert_eq!(attributes.get("express"), Some(&true.into()));
    assert_eq!(client.memo::<Value>(run.id()).await.expect("there"), memo);
    let plain = client.start::<Scripted>(Script::default());
    let plain = plain.await.expect("starts").id();
    assert!(client.attributes(plain).await.expect("there").is_empty());
    let none = client.memo::<Option<Value>>(plain).await.expect("there");
    assert_eq!(none, None);
    let nobody = Uuid::from_u128(1);
    let error = client.attributes(nobody).await.expect_err("not there");
    assert!(error.is_not_found(), "{error}");
    let error = client.memo::<Value>(nobody).await.expect_err("not there");
    assert!(error.is_not_found(), "{error}");
    run.result().await.expect("completes");
    engine.shutdown().await.expect("stops");
}

async fn runs_of_a_workflow_id_come_newest_first(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let mut started = Vec::new();
    for id in ["order-1", "order-2", "order-1"] {
        let run = client.start::<Scripted>(Script::default()).workflow_id(id);
        let run = run.await.expect("starts");
        run.result().await.expect("completes");
        started.push(run.id());
    }
    let runs = client.runs_of("order-1").await.expect("lists");
    let ids: Vec<Uuid> = runs.iter().map(|run| run.id).collect();
    assert_eq!(ids, newest_first([started[0], started[2]]));
    assert!(client.runs_of("order-3").await.expect("lists").is_empty());
    engine.shutdown().await.expect("stops");
}

async fn a_batch_without_a_condition_is_refused(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let cursor_only = RunFilter::default().before(Some(Uuid::max()));
    for filter in [RunFilter::default(), cursor_only] {
        let options = BatchOptions::because("by mistake");
        let cancelled = client.batch_cancel(filter.clone(), options.clone()).await;
        assert!(cancelled.expect_err("refused").is_invalid());
        let terminated = client.batch_terminate(filter, options).await;
        assert!(terminated.expect_err("refused").is_invalid());
    }
}

async fn batch_cancel_asks_all_that_match_and_no_other(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let over = start(&engine, "eu", 0).await;
    over.signal("go", &1).await.expect("taken");
    over.result().await.expect("completes");
    // More than one step of the batch.
    let starts = (0..230).map(|n| start(&engine, "eu", n));
    let runs = futures_util::future::join_all(starts).await;
    let other = start(&engine, "us", 1).await;
    let dry = BatchOptions {
        dry_run: true,
        ..BatchOptions::because("drill")
    };
    let outcome = client.batch_cancel(of_region("eu"), dry).await;
    let outcome = outcome.expect("looks");
    assert_eq!((outcome.affected, outcome.runs.len()), (230, 230));
    assert_eq!(outcome.runs, newest_first(runs.iter().map(RunHandle::id)));
    let outcome = client
        .batch_cancel(of_region("eu"), BatchOptions::because("draining"))
        .await
        .expect("asks");
    assert_eq!(outcome.affected + outcome.passed_over, 230);
    assert_eq!(outcome.affected, 230, "none of them ended by itself");
    assert!(outcome.runs.is_empty());
    for run in &runs {
        let error = run.result().await.expect_err("cancelled");
        assert!(error.is_cancelled(), "{error}");
        assert!(error.to_string().contains("draining"), "{error}");
    }
    other.signal("go", &1).await.expect("still there");
    other.result().await.expect("completes");
    let again = client
        .batch_cancel(of_region("eu"), BatchOptions::because("draining"))
        .await
        .expect("asks");
    assert_eq!(again.affected, 0, "what has ended is nobody's business");
    engine.shutdown().await.expect("stops");
}

async fn batch_terminate_ends_as_many_as_it_may(arena: &Arena) {
    let engine = arena.engine(&Effects::new()).start().await.expect("starts");
    let client = engine.client();
    let mut runs = Vec::new();
    for n in 0..5 {
        runs.push(start(&engine, "eu", n).await);
    }
    let two = BatchOptions {
        limit: Some(2),
        ..BatchOptions::because("bad deploy")
    };
    let outcome = client.batch_terminate(of_region("eu"), two).await;
    assert_eq!(outcome.expect("ends").affected, 2);
    let failed = of_region("eu").status(WorkflowStatus::Failed);
    assert_eq!(
        client
            .count(failed.clone(), Default::default())
            .await
            .expect("counts")
            .count,
        2
    );
    let none = client.batch_terminate(failed, BatchOptions::because("dead already"));
    assert_eq!(none.await.expect("looks").affected, 0);
    let rest = client.batch_terminate(of_region("eu"), BatchOptions::because("bad deploy"));
    assert_eq!(rest.await.expect("ends").affected, 3);
    for run in &runs {
        let error = run.result().await.expect_err("terminated");
        let failure = error.failure().expect("failed");
        assert_eq!(failure.error_type, error_types::WORKFLOW_TERMINATED);
    }
    engine.shutdown().await.expect("stops");
}
