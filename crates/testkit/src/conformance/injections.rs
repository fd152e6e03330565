//! Texts that look like SQL, patterns or code are just text, wherever they are given.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::{AttributeValue, RetryPolicy};
use everruns_durable::persistence::model::{
    Attributes, CountLimit, DlqFilter, NewOutboxEvent, Page, RunFilter, TaskFilter, WorkerFilter,
    WorkflowStatus,
};
use uuid::Uuid;

use super::lists::all;
use crate::World;
use crate::world::json;

claims! { "injections":
    names_in_filters_are_compared_exactly,
    texts_that_look_like_sql_are_just_text_in_run_filters,
    texts_that_look_like_sql_are_just_text_in_all_other_ids,
}

async fn names_in_filters_are_compared_exactly(w: &World) {
    let mut runs = BTreeMap::new();
    for name in ["Order", "order", "order ", "ordér", "orde_", "%", "_____"] {
        let mut start = w.new_start();
        start.workflow_type = name.into();
        start.business_id = Some(name.into());
        runs.insert(name, w.start_one(start).await);
    }
    for (name, run_id) in runs {
        let by_type = RunFilter {
            workflow_type: Some(name.into()),
            ..RunFilter::default()
        };
        let by_business_id = RunFilter {
            business_id: Some(name.into()),
            ..RunFilter::default()
        };
        assert_eq!(all(w, &by_type).await, [run_id], "{name:?}");
        assert_eq!(all(w, &by_business_id).await, [run_id], "{name:?}");
    }
}

const HOSTILE: [&str; 10] = [
    "' OR '1'='1",
    "'; DROP TABLE durable_runs; --",
    "\" OR \"\"=\"",
    "x') UNION SELECT * FROM durable_runs --",
    "\\'; SELECT pg_sleep(10); --",
    "$1",
    "?1 OR 1=1",
    "%' OR status LIKE '%",
    "{\"$ne\":null}",
    "$$;COMMIT;--\r\n/*",
];

async fn texts_that_look_like_sql_are_just_text_in_run_filters(w: &World) {
    let innocent = w.start().await;
    for text in HOSTILE {
        let value = AttributeValue::Text(text.into());
        let attributes = Attributes::from([(text.to_owned(), value)]);
        let filters = [
            RunFilter {
                workflow_type: Some(text.into()),
                ..RunFilter::default()
            },
            RunFilter {
                business_id: Some(text.into()),
                ..RunFilter::default()
            },
            RunFilter {
                attributes: attributes.clone(),
                ..RunFilter::default()
            },
        ];
        for filter in &filters {
            assert_eq!(all(w, filter).await, Vec::<Uuid>::new(), "{text}");
        }
        let mut start = w.new_start();
        start.workflow_type = text.into();
        start.version = text.into();
        start.business_id = Some(text.into());
        start.idempotency_key = Some(text.into());
        start.attributes = attributes;
        let run_id = w.start_one(start.clone()).await;
        for filter in &filters {
            assert_eq!(all(w, filter).await, [run_id], "{text}");
            for limit in [CountLimit::Capped, CountLimit::Exact] {
                let count = w.store.count_runs(filter.clone(), limit).await;
                assert_eq!(count.expect("count_runs").count, 1);
            }
        }
        let run = w.run(run_id).await;
        assert_eq!(
            (&run.workflow_type, &run.version),
            (&start.workflow_type, &start.version)
        );
        assert_eq!(
            (run.business_id, run.idempotency_key),
            (start.business_id, start.idempotency_key)
        );
    }
    assert_eq!(w.run(innocent).await.status, WorkflowStatus::Pending);
    assert_eq!(w.everything().await.runs.len(), HOSTILE.len() + 1);
}

/// A run that used the text as every id it can.
async fn run_full_of(w: &World, text: &str) -> Uuid {
    let run_id = w.start().await;
    w.signal(run_id, text).await;
    let mut update = w.new_update(text);
    update.name = text.into();
    w.update(run_id, update).await;
    let mut task = w.task(text);
    task.activity_type = text.into();
    task.options.retry_policy = RetryPolicy::never();
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![task];
    turn.outbox = vec![NewOutboxEvent {
        id: w.id(),
        event_type: text.into(),
        payload: json("1"),
        idempotency_key: Some(text.into()),
    }];
    w.committed(turn).await;
    w.set_timer(run_id, text, Duration::from_secs(1)).await;
    run_id
}

async fn texts_that_look_like_sql_are_just_text_in_all_other_ids(w: &World) {
    for text in HOSTILE {
        let run_id = run_full_of(w, text).await;
        let tasks = TaskFilter {
            activity_type: Some(text.into()),
            ..TaskFilter::default()
        };
        let tasks = w.store.list_tasks(tasks, Page::default()).await;
        assert_eq!(tasks.expect("list_tasks").len(), 1);
        let mut claim = w.new_claim(10);
        claim.activity_types = vec![text.into()];
        claim.worker_id = text.into();
        let claimed = w.store.claim_tasks(claim).await.expect("claim_tasks");
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].activity_id, text);
        w.fail(&claimed[0].lease).await;
        let letters = DlqFilter {
            activity_type: Some(text.into()),
            ..DlqFilter::default()
        };
        let letters = w.store.list_dlq(letters, Page::default()).await;
        let letters = letters.expect("list_dlq");
        assert_eq!(letters.len(), 1);
        let letter = w.store.get_dead_letter(letters[0].id).await;
        let letter = letter.expect("get_dead_letter").expect("it is listed");
        assert_eq!(letter.error_history[0].worker_id, text);
        let update = w.store.get_update(run_id, text).await;
        assert_eq!(update.expect("get_update").expect("it exists").name, text);
        let all = w.dump(run_id).await;
        assert_eq!(all.timers[0].timer_id, text);
        assert_eq!(all.signals[0].signal_type, text);
        assert_eq!(all.outbox[0].idempotency_key.as_deref(), Some(text));
        let put = w.store.put_once(text, json("1"), w.now()).await;
        put.expect("put_once");
        assert_eq!(w.store.get_breaker(text).await.expect("get_breaker"), None);
        assert_eq!(w.store.get_schedule(text).await.expect("get"), None);
        let workers = WorkerFilter {
            worker_group: Some(text.into()),
            ..WorkerFilter::default()
        };
        assert_eq!(w.store.list_workers(workers).await.expect("list"), []);
        w.terminate(run_id, text).await;
    }
    assert_eq!(w.everything().await.dedup.len(), HOSTILE.len());
}
