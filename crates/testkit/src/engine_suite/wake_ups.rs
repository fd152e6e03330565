//! Wake-ups: what one part of an engine leaves to another is done at once, not when somebody looks.

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::engine::Settings;
use everruns_durable::persistence::model::WorkerFilter;
use everruns_durable::{Client, Engine};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims, comes};
use crate::faults::{FaultRates, FaultyStore};

claims! { "wake-ups":
    a_line_is_worked_off_without_a_look,
    a_line_moves_on_when_its_head_is_given_up,
    a_line_moves_on_when_its_head_fails_for_good,
    a_claim_that_failed_is_made_again,
    a_message_of_a_repeated_commit_is_delivered,
    an_evicted_program_s_run_is_not_kept_from_others,
    the_clocks_of_a_process_without_chores_are_told_to_others,
    a_worker_that_is_asked_to_drain_hears_of_it_at_once,
}

fn line(count: usize) -> Step {
    Step::Line {
        name: "echo".to_owned(),
        count,
    }
}

async fn a_line_is_worked_off_without_a_look(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.blind_engine(&effects).start().await.expect("starts");
    let run = engine.run::<Scripted>(Script::of([line(10)]));
    comes("a line of ten", run).await.expect("completes");
    let expected: Vec<String> = (0..10).map(|n| format!("echo {n}")).collect();
    assert_eq!(effects.all(), expected);
    engine.shutdown().await.expect("stops");
}

async fn a_line_moves_on_when_its_head_is_given_up(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.blind_engine(&effects).start().await.expect("starts");
    let script = Script::of([Step::GiveUpHead {
        head: "gated".to_owned(),
        behind: "echo".to_owned(),
        signal: "enough".to_owned(),
    }]);
    let client = engine.client();
    let run = client.start::<Scripted>(script).await.expect("starts");
    effects.reached("gated began", 1).await;
    run.signal("enough", &()).await.expect("taken");
    comes("the one behind", run.result())
        .await
        .expect("completes");
    assert_eq!(effects.count("echo 1"), 1);
    effects.open_gate();
    engine.shutdown().await.expect("stops");
}

async fn a_line_moves_on_when_its_head_fails_for_good(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena.blind_engine(&effects).start().await.expect("starts");
    let mut script = Script::of([Step::LineOf {
        names: vec!["fatal".to_owned(), "echo".to_owned(), "echo".to_owned()],
    }]);
    script.tolerates_failure = true;
    let run = engine.run::<Scripted>(script);
    let result = comes("those behind it", run).await.expect("completes");
    assert_eq!(result[0]["failed"], json!("Fatal"));
    assert_eq!(effects.all(), ["echo 1", "echo 2"]);
    engine.shutdown().await.expect("stops");
}

/// An engine of which nobody but a ring wakes anything, on a store with faults in the calls of one method.
async fn blind_on(
    arena: &Arena,
    effects: &Effects,
    method: &'static str,
    rates: FaultRates,
) -> Engine {
    let faulty = FaultyStore::new(arena.store.clone(), 7, rates).only(method);
    let builder = arena.on(Arc::new(faulty)).blind_engine(effects);
    builder.start().await.expect("starts")
}

async fn a_claim_that_failed_is_made_again(arena: &Arena) {
    let effects = Effects::new();
    let rates = FaultRates {
        failed_before: 40,
        ..FaultRates::NONE
    };
    let engine = blind_on(arena, &effects, "claim_tasks", rates).await;
    let run = engine.run::<Scripted>(Script::of([line(10)]));
    comes("a line of ten", run).await.expect("completes");
    engine.shutdown().await.expect("stops");
}

async fn a_message_of_a_repeated_commit_is_delivered(arena: &Arena) {
    let effects = Effects::new();
    let rates = FaultRates {
        repeated_late: 100,
        ..FaultRates::NONE
    };
    let engine = blind_on(arena, &effects, "commit_turns", rates).await;
    let child = Script::of([Step::activity("echo", json!(1))]);
    let run = engine.run::<Scripted>(Script::of([Step::Child { script: child }]));
    let result = comes("the child and its end", run)
        .await
        .expect("completes");
    assert_eq!(result, json!([[1]]));
    engine.shutdown().await.expect("stops");
}

async fn an_evicted_program_s_run_is_not_kept_from_others(arena: &Arena) {
    let effects = Effects::new();
    let engine = arena
        .blind_engine(&effects)
        .configure(|settings| settings.turns.cached_programs_max = 1)
        .start()
        .await
        .expect("starts");
    let script = Script::of([Step::Signal {
        name: "go".to_owned(),
    }]);
    let client = engine.client();
    let first = client.start::<Scripted>(script.clone());
    let first = first.await.expect("starts");
    let second = client.start::<Scripted>(script).await.expect("starts");
    let evicted = async {
        loop {
            let (one, other) = tokio::try_join!(first.get(), second.get()).expect("reads");
            let turned = one.sequence > 0 && other.sequence > 0;
            if turned && (one.owner.is_none() || other.owner.is_none()) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    comes("one of them is given up", evicted).await;
    engine.shutdown().await.expect("stops");
}

async fn the_clocks_of_a_process_without_chores_are_told_to_others(arena: &Arena) {
    let effects = Effects::new();
    let does_chores = |yes| {
        move |settings: &mut Settings| {
            settings.chores.housekeeping = Some(yes);
            // Whoever looks for leases looks at the clocks too.
            settings.chores.reap_interval = Duration::from_secs(60 * 60);
        }
    };
    // It takes no turns: it knows of the other one's clocks only what it is told.
    let keeper = arena.blind_doer(&effects).configure(does_chores(true));
    let keeper = keeper.start().await.expect("starts");
    let engine = arena.blind_engine(&effects).configure(does_chores(false));
    let engine = engine.start().await.expect("starts");
    let naps = (0..5).map(|_| Step::Timer { millis: 20 });
    let run = engine.run::<Scripted>(Script::of(naps));
    comes("five naps", run).await.expect("completes");
    engine.shutdown().await.expect("stops");
    keeper.shutdown().await.expect("stops");
}

async fn a_worker_that_is_asked_to_drain_hears_of_it_at_once(arena: &Arena) {
    let effects = Effects::new();
    let rarely = |settings: &mut Settings| {
        settings.worker.heartbeat_interval = Duration::from_secs(60 * 60);
    };
    let engine = arena.blind_engine(&effects).configure(rarely).start().await;
    let engine = engine.expect("starts");
    let is_known = || async {
        let workers = arena.store.list_workers(WorkerFilter::default()).await;
        let workers = workers.expect("list_workers");
        workers.iter().any(|worker| worker.id == engine.worker_id())
    };
    comes("its registration", async {
        while !is_known().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let elsewhere = Client::on(arena.store.clone());
    let drained = elsewhere.drain_worker(engine.worker_id()).await;
    assert!(drained.expect("drains"));
    comes("what it was asked", async {
        while engine.pool().accepting_tasks() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let unknown = elsewhere.drain_worker("nobody").await;
    assert!(!unknown.expect("asks"), "there is no such worker");
    engine.shutdown().await.expect("stops");
}
