//! Processes killed in the middle of their work.

use std::collections::BTreeMap;

use durable_testkit::engine_suite::{Script, Scripted, Step};
use everruns_durable::core::WorkflowEvent;
use everruns_durable::persistence::WorkflowEventStore;
use serde_json::json;
use uuid::Uuid;

use crate::ground::{Ground, SHORT_LEASE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_workers_task_is_done_by_another_on_postgres() -> anyhow::Result<()> {
    let ground = Ground::postgres().await?;
    let mut doomed = ground
        .worker(&[&["--workflows", "--hang"], &SHORT_LEASE])
        .await?;
    let run = doomed
        .start_run(&Script::of([Step::activity("effect", json!(1))]))
        .await?;
    ground.effects.reached(1).await;
    let mut heir = ground.worker(&[&["--workflows"], &SHORT_LEASE]).await?;
    let (first, second) = (doomed.pid(), heir.pid());
    doomed.kill()?;
    assert_eq!(heir.await_run(run).await?, "completed");
    heir.stop().await?;
    let pids: Vec<u32> = ground
        .effects
        .all()
        .iter()
        .map(|effect| effect.pid)
        .collect();
    assert_eq!(pids, [first, second]);
    ground.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_carries_on_from_its_sqlite_file() -> anyhow::Result<()> {
    let ground = Ground::sqlite()?;
    let steps = [
        Step::Timer { millis: 1 },
        Step::activity("effect", json!(1)),
        Step::activity("effect", json!(2)),
    ];
    let mut doomed = ground
        .worker(&[&["--workflows", "--hang"], &SHORT_LEASE])
        .await?;
    let run = doomed.start_run(&Script::of(steps)).await?;
    ground.effects.reached(1).await;
    doomed.kill()?;
    let mut heir = ground.worker(&[&["--workflows"], &SHORT_LEASE]).await?;
    assert_eq!(heir.await_run(run).await?, "completed");
    heir.stop().await?;
    let done: Vec<String> = ground
        .effects
        .all()
        .into_iter()
        .map(|effect| effect.activity_id)
        .collect();
    assert_eq!(
        done,
        ["s1-0", "s1-0", "s2-0"],
        "once too often where it was killed, and nowhere else"
    );
    ground.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequential_tasks_keep_their_order_while_their_workers_are_killed() -> anyhow::Result<()> {
    let ground = Ground::postgres().await?;
    let flags: [&[&str]; 2] = [&["--workflows", "--slots", "1"], &SHORT_LEASE];
    let mut workers = BTreeMap::new();
    for _ in 0..3 {
        let worker = ground.worker(&flags).await?;
        workers.insert(worker.pid(), worker);
    }
    let client = ground.client().await?;
    let script = Script::of([Step::Line {
        name: "paced".to_owned(),
        count: 10,
    }]);
    let run = client.start::<Scripted>(script).await?;
    for seen in [3, 6, 9] {
        let busy = ground.effects.reached(seen).await[seen - 1].pid;
        // It may be one that was killed already: then whoever has the next task shows up later.
        if let Some(doomed) = workers.remove(&busy) {
            doomed.kill()?;
            let heir = ground.worker(&flags).await?;
            workers.insert(heir.pid(), heir);
        }
    }
    assert!(
        run.ended()
            .await?
            .result
            .to_value::<Vec<u32>>()?
            .is_sorted()
    );
    for worker in workers.into_values() {
        worker.stop().await?;
    }
    let mut order: Vec<String> = ground
        .effects
        .all()
        .into_iter()
        .map(|effect| effect.activity_id)
        .collect();
    order.dedup();
    let expected: Vec<String> = (0..10).map(|n| format!("s0-{n}")).collect();
    assert_eq!(order, expected, "none before its predecessor was done");
    ground.close().await
}

/// An async workflow whose last step but one was under way when its process died. `DURABLE_TEST_MARCH=10000` for more than the
/// share that every test run takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_march_goes_on_from_the_step_it_was_killed_at() -> anyhow::Result<()> {
    let asked = std::env::var("DURABLE_TEST_MARCH").unwrap_or_else(|_| "500".to_owned());
    let steps: u64 = asked.parse()?;
    let ground = Ground::sqlite()?;
    let last_but_one = (steps - 1).to_string();
    let flags: [&[&str]; 2] = [&["--workflows", "--hang-at", &last_but_one], &SHORT_LEASE];
    let mut doomed = ground.worker(&flags).await?;
    let run = doomed.start_march(steps).await?;
    ground.effects.reached(usize::try_from(steps - 1)?).await;
    doomed.kill()?;
    let mut heir = ground.worker(&[&["--workflows"], &SHORT_LEASE]).await?;
    assert_eq!(heir.await_run(run).await?, "completed");
    heir.stop().await?;
    let done: Vec<u64> = ground
        .effects
        .all()
        .iter()
        .map(|effect| effect.activity_id.parse())
        .collect::<Result<_, _>>()?;
    let expected: Vec<u64> = (1..steps).chain([steps - 1, steps]).collect();
    assert!(
        done == expected,
        "once too often where it was killed, and nowhere else"
    );
    ground.close().await
}

/// The promise of the documentation. `DURABLE_TEST_PROMISE=WORKFLOWS,KILLS` for more than the share that every test run takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_every_workflow_completes_and_every_effect_is_accepted_once()
-> anyhow::Result<()> {
    const STEPS: usize = 3;
    let asked = std::env::var("DURABLE_TEST_PROMISE").unwrap_or_else(|_| "200,4".to_owned());
    let (workflows, kills) = asked.split_once(',').expect("WORKFLOWS,KILLS");
    let (workflows, kills): (usize, usize) = (workflows.parse()?, kills.parse()?);
    let ground = Ground::postgres().await?;
    let client = ground.client().await?;
    let script = Script::of((0..STEPS).map(|step| Step::activity("effect", json!(step))));
    let mut runs = Vec::new();
    for n in 0..workflows {
        let start = client.start::<Scripted>(script.clone());
        runs.push(start.idempotency_key(format!("workflow {n}")).await?);
    }

    let flags: [&[&str]; 2] = [&["--workflows"], &SHORT_LEASE];
    let mut worker = ground.worker(&flags).await?;
    // One kill at a chance moment within each stretch of the work.
    let stretch = workflows * STEPS / (kills + 1);
    for kill in 0..kills {
        let moment = kill * stretch + usize::try_from(Uuid::now_v7().as_u128() % stretch as u128)?;
        ground.effects.reached(moment + 1).await;
        worker.kill()?;
        worker = ground.worker(&flags).await?;
    }
    for run in &runs {
        assert_eq!(run.ended().await?.status.as_str(), "completed");
    }
    worker.stop().await?;

    let mut done: BTreeMap<(Uuid, String), usize> = BTreeMap::new();
    for effect in ground.effects.all() {
        *done.entry((effect.run_id, effect.activity_id)).or_default() += 1;
    }
    assert_eq!(done.len(), workflows * STEPS, "each effect happened");
    for run in &runs {
        let accepted = accepted(&**client.store(), run.id()).await?;
        let expected: Vec<String> = (0..STEPS).map(|step| format!("s{step}-0")).collect();
        assert_eq!(
            accepted, expected,
            "each result was accepted once, in order"
        );
    }
    drop(client);
    ground.close().await
}

/// Activities whose completion is in a run's history, in order.
async fn accepted(store: &dyn WorkflowEventStore, run_id: Uuid) -> anyhow::Result<Vec<String>> {
    let history = store
        .load_history(run_id, 0)
        .await?
        .expect("the run is there");
    let events = history.events.into_iter().map(|event| event.event);
    Ok(events
        .filter_map(|event| match event {
            WorkflowEvent::ActivityCompleted { activity_id, .. } => Some(activity_id),
            _ => None,
        })
        .collect())
}
