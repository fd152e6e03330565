//! A workload over a store that fails, on many plans: nothing is lost and nothing happens twice.

use std::sync::Arc;

use durable_testkit::faults::{FaultRates, FaultyStore, drive};
use durable_testkit::flavour::Kind;
use durable_testkit::{Flavour, World};
use everruns_durable::persistence::WorkflowEventStore;

/// Plans tried on each store.
const PLANS: u64 = 200;

async fn store(shards: u16) -> Arc<dyn WorkflowEventStore> {
    let flavour = Flavour {
        kind: Kind::Memory,
        shards,
    };
    flavour.open().await.expect("a store").store
}

#[tokio::test]
async fn a_workload_comes_through_every_plan_of_faults_whole() {
    for seed in 0..PLANS {
        let shards = if seed % 2 == 0 { 1 } else { 4 };
        if let Err(problem) = drive(store(shards).await, seed).await {
            panic!("plan {seed}: {problem:#}");
        }
    }
}

#[tokio::test]
async fn every_fault_is_met_by_every_intent_of_the_workload() {
    let mut total = std::collections::BTreeMap::new();
    for seed in 0..20 {
        let driven = drive(store(1).await, seed).await.expect("it comes through");
        for (method, counts) in driven.faults {
            let sum: &mut [u64; 5] = total.entry(method).or_default();
            let each = [
                counts.delayed,
                counts.failed_before,
                counts.failed_after,
                counts.repeated,
                counts.repeated_late,
            ];
            sum.iter_mut().zip(each).for_each(|(sum, n)| *sum += n);
        }
    }
    for method in ["start_runs", "send_signals", "commit_turns", "finish_tasks"] {
        assert!(total[method].iter().all(|n| *n > 0), "{method}: {total:?}");
    }
}

#[tokio::test]
async fn a_call_that_fails_before_is_not_carried_out_and_one_that_fails_after_is() {
    let rates = |failed_before, failed_after| FaultRates {
        failed_before,
        failed_after,
        ..FaultRates::NONE
    };
    for (rates, carried_out) in [(rates(100, 0), 0), (rates(0, 100), 1)] {
        let behind = store(1).await;
        let world = World::new(behind.clone());
        let faulty = FaultyStore::new(behind.clone(), 1, rates);
        let failed = faulty
            .start_runs(vec![world.new_start()], world.now())
            .await;
        assert!(failed.unwrap_err().is_outcome_unknown());
        assert_eq!(behind.dump().await.unwrap().runs.len(), carried_out);
    }
}
