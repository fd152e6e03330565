//! What a step costs the store, counted and not timed: the clock is a virtual one, so that nothing here depends on the machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_testkit::faults::{FaultRates, FaultyStore};
use everruns_durable::hosting::{RemoteWorker, TaskSink, WorkerProfile};
use everruns_durable::persistence::model::{ClaimedTask, TaskLease, WorkerFilter};
use everruns_durable::persistence::{MemoryStore, WorkflowEventStore as _};
use everruns_durable::prelude::*;
use futures_util::future::try_join_all;

const SLOTS: usize = 50;
const RUNS: u32 = 500;
const STEPS: u32 = 5;

#[activity]
async fn add_one(_ctx: ActivityContext, n: u32) -> ActivityResult<u32> {
    Ok(n + 1)
}

#[workflow]
async fn count_up(ctx: WorkflowContext, steps: u32) -> WorkflowResult<u32> {
    let mut n = 0;
    for _ in 0..steps {
        n = ctx.activity::<add_one>(n).await?;
    }
    Ok(n)
}

#[activity]
async fn nap(_ctx: ActivityContext, (): ()) -> ActivityResult<()> {
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(())
}

#[workflow]
async fn nap_on(ctx: WorkflowContext, naps: u32) -> WorkflowResult<()> {
    for _ in 0..naps {
        ctx.activity::<nap>(()).await?;
    }
    Ok(())
}

async fn engine(store: &Arc<FaultyStore>) -> Engine {
    engine_with(store, |settings| {
        settings.worker.max_concurrent_tasks = SLOTS;
    })
    .await
}

async fn engine_with(store: &Arc<FaultyStore>, set: impl FnOnce(&mut Settings)) -> Engine {
    Engine::on(Arc::clone(store) as _)
        .workflow::<count_up>()
        .workflow::<nap_on>()
        .activity(add_one)
        .activity(nap)
        .configure(set)
        .start()
        .await
        .expect("starts")
}

fn counting() -> Arc<FaultyStore> {
    let memory = Arc::new(MemoryStore::new());
    Arc::new(FaultyStore::new(memory, 0, FaultRates::NONE))
}

fn calls(store: &FaultyStore, method: &str) -> u64 {
    store.faults().get(method).map_or(0, |counts| counts.calls)
}

#[tokio::test(start_paused = true)]
async fn ten_times_more_runs_than_slots_cost_no_claim_and_no_look() {
    let store = counting();
    let engine = engine(&store).await;
    let client = engine.client();
    engine.run::<count_up>(STEPS).await.expect("completes");
    let aside = ["claim_tasks", "finish_tasks", "get_run"];
    let all = |store: &FaultyStore| aside.map(|method| calls(store, method));
    let before = all(&store);
    let starts = (0..RUNS).map(|_| client.start::<count_up>(STEPS).into_future());
    let runs = try_join_all(starts).await.expect("start");
    let results = runs.iter().map(RunHandle::<count_up>::result);
    let results = try_join_all(results).await.expect("complete");
    assert_eq!(results, [STEPS; RUNS as usize]);
    // Every task was handed over, every result joined a turn, and who waited for a run was told with the ring.
    assert_eq!(all(&store), before, "{aside:?}");
    engine.shutdown().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn runs_that_wait_for_a_slot_for_longer_than_their_ownership_lasts_still_wait() {
    let store = counting();
    let engine = engine_with(&store, |settings| {
        settings.worker.max_concurrent_tasks = 10;
        // The store's clock is a real one: nothing is anybody's for long.
        settings.turns.owner_lease = Duration::from_millis(1);
    });
    let engine = engine.await;
    let client = engine.client();
    engine.run::<nap_on>(1).await.expect("completes");
    let before = calls(&store, "claim_tasks");
    // Twenty seconds in all, within which it is looked for what nobody owns.
    let starts = (0..1_000).map(|_| client.start::<nap_on>(20).into_future());
    let runs = try_join_all(starts).await.expect("start");
    let ends = runs.iter().map(RunHandle::<nap_on>::result);
    try_join_all(ends).await.expect("complete");
    assert!(calls(&store, "claim_turns") > 1, "it was looked");
    assert_eq!(calls(&store, "claim_tasks"), before, "nothing was queued");
    engine.shutdown().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_run_alone_is_one_commit_and_nothing_else() {
    let store = counting();
    let engine = engine(&store).await;
    engine.run::<count_up>(1).await.expect("completes");
    let hot = [
        "start_runs",
        "commit_turns",
        "load_turns",
        "load_history",
        "claim_tasks",
        "finish_tasks",
        "get_run",
    ];
    let all = |store: &FaultyStore| hot.map(|method| calls(store, method));
    let before = all(&store);
    engine.run::<count_up>(100).await.expect("completes");
    let after = all(&store);
    let cost: Vec<u64> = after
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    // The run is started with its first turn: not even that has a commit of its own, or a look.
    assert_eq!(cost, [0, 101, 0, 0, 0, 0, 0], "{hot:?}");
    engine.shutdown().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_keeps_its_slot_for_long_gives_way_to_what_waits() {
    let store = counting();
    let engine = engine_with(&store, |settings| settings.worker.max_concurrent_tasks = 1).await;
    let long = engine
        .client()
        .start::<nap_on>(3_000)
        .await
        .expect("starts");
    let short = engine.run::<count_up>(2).await.expect("completes");
    assert_eq!(short, 2);
    let long = long.get().await.expect("is there");
    assert!(
        !long.status.is_terminal(),
        "the other did not have to wait for its end"
    );
}

/// A session that never gets anything to do.
struct Idle;

#[async_trait]
impl TaskSink for Idle {
    async fn run(&self, task: ClaimedTask) {
        panic!("there is nothing to do, and yet: {task:?}");
    }

    async fn stop(&self, _lease: TaskLease) {}
}

fn sessions(engine: &Engine, count: usize) -> Vec<RemoteWorker> {
    let hosting = engine.client().hosting().expect("is beside an engine");
    let open = |number| {
        let profile = WorkerProfile {
            id: format!("session-{number}"),
            group: "default".to_owned(),
            build: "1".to_owned(),
            hostname: None,
            activity_types: BTreeSet::from(["elsewhere".to_owned()]),
            workflow_types: BTreeSet::new(),
            slots: 10,
        };
        hosting.open_worker(profile, Arc::new(Idle)).expect("opens")
    };
    (0..count).map(open).collect()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_idle_sessions_cost_no_more_calls_than_one() {
    let mut costs = Vec::new();
    for count in [1, 1_000] {
        let store = counting();
        let engine = engine(&store).await;
        let open = sessions(&engine, count);
        // They register, and look once whether there is something to do.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let all = |store: &FaultyStore| {
            let faults = store.faults();
            faults.values().map(|counts| counts.calls).sum::<u64>()
        };
        let before = all(&store);
        tokio::time::sleep(Duration::from_secs(60)).await;
        costs.push(all(&store) - before);
        assert!(calls(&store, "worker_heartbeats") > 10);
        // Theirs are among them: one that the store has forgotten hears so, and registers again.
        let gone = store.deregister_worker("session-0").await;
        assert!(gone.expect("deregister_worker"));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let workers = store.list_workers(WorkerFilter::default()).await;
        assert_eq!(workers.expect("list_workers").len(), count + 1);
        drop(open);
        engine.shutdown().await.expect("stops");
    }
    // Pauses are jittered, so that the two are not quite alike.
    assert!(
        costs[1] < 2 * costs[0],
        "of one, and of a thousand: {costs:?}"
    );
}
