//! Many at once, in one process: a hundred workflows, ten thousand tasks, a thousand workers, ten thousand activities of one run; three workers that share
//! the work and keep its order.
//!
//! Activities that wait for each other prove it: they end only when all are under way at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use durable_testkit::audit::audit;
use durable_testkit::engine_suite::{Script, Scripted, Step};
use durable_testkit::flavour::Kind;
use durable_testkit::process::until;
use durable_testkit::{Flavour, StoreUnderTest};
use everruns_durable::persistence::limits::{BATCH_BYTES_MAX, PAYLOAD_BYTES_MAX};
use everruns_durable::persistence::model::{OverlapPolicy, ScheduleRecord, TaskStatus};
use everruns_durable::prelude::*;
use futures_util::future::{join_all, try_join_all};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Barrier;

async fn store(kind: Kind) -> anyhow::Result<StoreUnderTest> {
    Flavour { kind, shards: 1 }.open().await
}

async fn close(under_test: StoreUnderTest) -> anyhow::Result<()> {
    let report = audit(&*under_test.store, None).await?;
    assert!(report.is_clean(), "{report}");
    under_test.close().await;
    Ok(())
}

async fn a_hundred_workflows_run_at_once(kind: Kind) -> anyhow::Result<()> {
    const WORKFLOWS: usize = 100;
    let under_test = store(kind).await?;
    let all_there = Arc::new(Barrier::new(WORKFLOWS));
    let engine = Engine::on(Arc::clone(&under_test.store))
        .workflow::<Scripted>()
        .activity_fn("meet", move |_ctx, input: Value| {
            let all_there = Arc::clone(&all_there);
            async move {
                all_there.wait().await;
                Ok(input)
            }
        })
        .start()
        .await?;
    let runs = (0..WORKFLOWS)
        .map(|n| engine.run::<Scripted>(Script::of([Step::activity("meet", json!(n))])));
    let results = try_join_all(runs).await?;
    assert!(
        (0..).zip(&results).all(|(n, result)| *result == json!([n])),
        "{results:?}"
    );
    engine.shutdown().await?;
    close(under_test).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workflows_run_at_once_in_memory() -> anyhow::Result<()> {
    a_hundred_workflows_run_at_once(Kind::Memory).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workflows_run_at_once_on_sqlite() -> anyhow::Result<()> {
    a_hundred_workflows_run_at_once(Kind::Sqlite).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workflows_run_at_once_on_postgres() -> anyhow::Result<()> {
    a_hundred_workflows_run_at_once(Kind::Postgres).await
}

/// A worker with one slot that runs `meet`. It gives signs of life rarely: a thousand of them share two cores here.
fn lonely_worker(
    under_test: &StoreUnderTest,
    all_there: &Arc<Barrier>,
    finished: &Arc<AtomicUsize>,
) -> EngineBuilder {
    let all_there = Arc::clone(all_there);
    let finished = Arc::clone(finished);
    Engine::on(Arc::clone(&under_test.store))
        .max_concurrent_tasks(1)
        .configure(|settings| {
            settings.worker.lease = Duration::from_secs(300);
            settings.worker.lease_renewal = Duration::from_secs(60);
            settings.worker.heartbeat_interval = Duration::from_secs(60);
            settings.worker.stale_after = Duration::from_secs(600);
            settings.chores.reap_interval = Duration::from_secs(60);
        })
        .activity_fn("meet", move |_ctx, input: Value| {
            let (all_there, finished) = (Arc::clone(&all_there), Arc::clone(&finished));
            async move {
                all_there.wait().await;
                finished.fetch_add(1, Ordering::SeqCst);
                Ok(input)
            }
        })
}

async fn a_thousand_live_workers_each_finish_a_task(kind: Kind) -> anyhow::Result<()> {
    const WORKERS: usize = 1_000;
    const RUNS: usize = 20;
    let under_test = store(kind).await?;
    let host = Engine::on(Arc::clone(&under_test.store))
        .workflow::<Scripted>()
        .start()
        .await?;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let count = WORKERS / RUNS;
        let name = "meet".to_owned();
        let script = Script::of([Step::Parallel { name, count }]);
        runs.push(host.client().start::<Scripted>(script).await?);
    }

    // Nobody rings for engines that come later; they look when they start.
    until("a task for everybody", async || {
        let counts = under_test.store.counts().await.expect("counts");
        let waiting = counts.tasks.get("meet")?.get(&TaskStatus::Pending)?;
        (*waiting == WORKERS as u64).then_some(())
    })
    .await;

    let all_there = Arc::new(Barrier::new(WORKERS));
    let finished: Vec<Arc<AtomicUsize>> = (0..WORKERS).map(|_| Arc::default()).collect();
    let workers = finished
        .iter()
        .map(|finished| lonely_worker(&under_test, &all_there, finished).start());
    let workers = try_join_all(workers).await?;
    for run in runs {
        let results = run.result().await?;
        assert_eq!(results.as_array().map(Vec::len), Some(WORKERS / RUNS));
    }
    // One slot each, and none was free before all had a task: each had exactly one.
    assert!(
        finished
            .iter()
            .all(|finished| finished.load(Ordering::SeqCst) == 1)
    );
    // Some at a time: a farewell has a time limit, and a thousand at once would share two cores.
    let mut workers = workers.into_iter();
    loop {
        let some: Vec<Engine> = workers.by_ref().take(50).collect();
        if some.is_empty() {
            break;
        }
        for stopped in join_all(some.into_iter().map(Engine::shutdown)).await {
            stopped?;
        }
    }
    host.shutdown().await?;
    close(under_test).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_live_workers_each_finish_a_task_in_memory() -> anyhow::Result<()> {
    a_thousand_live_workers_each_finish_a_task(Kind::Memory).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_live_workers_each_finish_a_task_on_sqlite() -> anyhow::Result<()> {
    a_thousand_live_workers_each_finish_a_task(Kind::Sqlite).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_live_workers_each_finish_a_task_on_postgres() -> anyhow::Result<()> {
    a_thousand_live_workers_each_finish_a_task(Kind::Postgres).await
}

async fn ten_thousand_tasks_go_through_one_worker(kind: Kind) -> anyhow::Result<()> {
    const RUNS: usize = 100;
    const SLOTS: usize = 200;
    let under_test = store(kind).await?;
    let (done, at_once, most) = (counter(), counter(), counter());
    let counters = (done.clone(), at_once, most.clone());
    let engine = Engine::on(Arc::clone(&under_test.store))
        .workflow::<Scripted>()
        .max_concurrent_tasks(SLOTS)
        .activity_fn("count", move |_ctx, input: Value| {
            let (done, at_once, most) = counters.clone();
            async move {
                most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                at_once.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
                Ok(input)
            }
        })
        .start()
        .await?;
    let runs = (0..RUNS).map(|_| {
        let name = "count".to_owned();
        engine.run::<Scripted>(Script::of([Step::Parallel { name, count: 100 }]))
    });
    try_join_all(runs).await?;
    engine.shutdown().await?;
    assert_eq!(done.load(Ordering::SeqCst), 10_000);
    let most = most.load(Ordering::SeqCst);
    assert!(most <= SLOTS, "{most} at once");
    close(under_test).await
}

fn counter() -> Arc<AtomicUsize> {
    Arc::default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_tasks_go_through_one_worker_in_memory() -> anyhow::Result<()> {
    ten_thousand_tasks_go_through_one_worker(Kind::Memory).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_tasks_go_through_one_worker_on_sqlite() -> anyhow::Result<()> {
    ten_thousand_tasks_go_through_one_worker(Kind::Sqlite).await
}

/// A host and three workers with four slots each, on one store; `work` notes who did which.
async fn three_workers(
    under_test: &StoreUnderTest,
    done: &Arc<Mutex<Vec<(usize, Value)>>>,
) -> anyhow::Result<(Engine, Vec<Engine>)> {
    let host = Engine::on(Arc::clone(&under_test.store)).workflow::<Scripted>();
    let host = host.start().await?;
    let workers = (0..3).map(|worker| {
        let done = Arc::clone(done);
        Engine::on(Arc::clone(&under_test.store))
            .max_concurrent_tasks(4)
            .activity_fn("work", move |_ctx, input: Value| {
                let done = Arc::clone(&done);
                async move {
                    // Work takes a while: with none, the first who claims has done all before the others look.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    done.lock().push((worker, input.clone()));
                    Ok(input)
                }
            })
            .start()
    });
    Ok((host, try_join_all(workers).await?))
}

async fn stop(host: Engine, workers: Vec<Engine>) -> anyhow::Result<()> {
    for stopped in join_all(workers.into_iter().map(Engine::shutdown)).await {
        stopped?;
    }
    Ok(host.shutdown().await?)
}

async fn three_workers_share_the_work(kind: Kind) -> anyhow::Result<()> {
    const TASKS: usize = 600;
    let under_test = store(kind).await?;
    let done = Arc::default();
    let (host, workers) = three_workers(&under_test, &done).await?;
    let name = "work".to_owned();
    let count = TASKS;
    host.run::<Scripted>(Script::of([Step::Parallel { name, count }]))
        .await?;
    stop(host, workers).await?;
    let mut shares = [0_usize; 3];
    for (worker, _) in done.lock().iter() {
        shares[*worker] += 1;
    }
    let fair = TASKS / 3;
    assert!(
        shares.iter().all(|share| share.abs_diff(fair) <= fair / 5),
        "{shares:?}"
    );
    close(under_test).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_workers_share_the_work_in_memory() -> anyhow::Result<()> {
    three_workers_share_the_work(Kind::Memory).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_workers_share_the_work_on_sqlite() -> anyhow::Result<()> {
    three_workers_share_the_work(Kind::Sqlite).await
}

async fn ten_in_line_keep_their_order(kind: Kind) -> anyhow::Result<()> {
    let under_test = store(kind).await?;
    let done = Arc::default();
    let (host, workers) = three_workers(&under_test, &done).await?;
    let name = "work".to_owned();
    let count = 10;
    host.run::<Scripted>(Script::of([Step::Line { name, count }]))
        .await?;
    stop(host, workers).await?;
    let order: Vec<Value> = done.lock().iter().map(|(_, input)| input.clone()).collect();
    let expected: Vec<Value> = (0..count).map(|n| json!(n)).collect();
    assert_eq!(order, expected);
    close(under_test).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_in_line_keep_their_order_in_memory() -> anyhow::Result<()> {
    ten_in_line_keep_their_order(Kind::Memory).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_in_line_keep_their_order_on_sqlite() -> anyhow::Result<()> {
    ten_in_line_keep_their_order(Kind::Sqlite).await
}

/// `DURABLE_TEST_FAN_OUT=10000` for more than the share that every test run takes.
fn fan_out() -> anyhow::Result<usize> {
    let asked = std::env::var("DURABLE_TEST_FAN_OUT").unwrap_or_else(|_| "500".to_owned());
    Ok(asked.parse()?)
}

/// What one activity of a large fan-out may cost in memory, at most and all together: its task, events, result and slot.
const KIB_PER_ACTIVITY_MAX: u64 = 32;

/// The largest amount of memory that this process has had so far.
fn peak_kib() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(words.context("VmHWM")?.parse()?)
}

#[workflow]
async fn spread(ctx: WorkflowContext, count: usize) -> WorkflowResult<u64> {
    let calls = (0..count as u64).map(|n| ctx.activity_named::<u64>("double", n));
    let doubled = try_join_all(calls).await?;
    Ok(doubled.into_iter().sum())
}

#[allow(
    clippy::print_stdout,
    reason = "the figures of a run that was asked for"
)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_run_spreads_over_thousands_of_activities_on_postgres() -> anyhow::Result<()> {
    let count = fan_out()?;
    let under_test = store(Kind::Postgres).await?;
    let engine = Engine::on(Arc::clone(&under_test.store))
        .workflow::<spread>()
        .activity_fn("double", |_ctx, n: u64| async move { Ok(n * 2) })
        .start()
        .await?;
    let (before, began) = (peak_kib()?, std::time::Instant::now());
    let sum = engine.run::<spread>(count).await?;
    let (grown, took) = (peak_kib()? - before, began.elapsed());
    println!("{count} activities in {took:?}, {grown} KiB more at most");
    assert_eq!(sum, (count * (count - 1)) as u64);
    // The other tests of this file share the process; against the whole fan-out they do not count.
    if count >= 10_000 {
        let most = KIB_PER_ACTIVITY_MAX * count as u64;
        assert!(grown < most, "{grown} KiB, {most} are allowed");
    }
    engine.shutdown().await?;
    close(under_test).await
}

/// More schedules with large inputs than one call takes, all due at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_whose_inputs_do_not_fit_into_one_call_fire() -> anyhow::Result<()> {
    const SCHEDULES: usize = BATCH_BYTES_MAX / PAYLOAD_BYTES_MAX + 1;
    let under_test = store(Kind::Memory).await?;
    let store = &under_test.store;
    let now = store.clock(None).await?;
    let input = Payload::from_value(&"x".repeat(PAYLOAD_BYTES_MAX - 2))?;
    for n in 0..SCHEDULES {
        let schedule = ScheduleRecord {
            id: format!("large-{n}"),
            workflow_type: "unhosted".to_owned(),
            version: String::new(),
            input: input.clone(),
            cron: "0 0 1 1 *".to_owned(),
            time_zone: "UTC".to_owned(),
            overlap: OverlapPolicy::Allow,
            catchup_window_ms: 60 * 60 * 1000,
            paused: false,
            next_fire_at: Some(now),
            last_fire_at: None,
            last_run: None,
            created_at: now,
            updated_at: now,
        };
        store.put_schedule(schedule).await?;
    }
    let engine = Engine::on(Arc::clone(store)).start().await?;
    for n in 0..SCHEDULES {
        let id = format!("large-{n}");
        let run_id = until("the schedule fires", async || {
            let schedule = store.get_schedule(&id).await.expect("get_schedule");
            schedule.and_then(|schedule| schedule.last_run)
        });
        let run = store.get_run(run_id.await).await?;
        assert_eq!(run.context("its run")?.input, input);
    }
    engine.shutdown().await?;
    close(under_test).await
}
