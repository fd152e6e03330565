//! Rings between processes: on PostgreSQL, the one store that processes share. Engines within one process ring for each other on every store,
//! which is the engine suite's to show.

use std::sync::Arc;
use std::time::Duration;

use durable_testkit::engine_suite::{Arena, Effects, Script, Scripted, Step};
use durable_testkit::faults::{FaultRates, FaultyStore};
use durable_testkit::postgres::TestDatabase;
use everruns_durable::Engine;
use everruns_durable::client::RunHandle;
use everruns_durable::persistence::{OpenOptions, Ring, Shards, WorkflowEventStore, open};

/// How long is waited for what must come by itself; only a failure takes as long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two processes on one database: one that hosts the workflow, whose calls are counted, and one that only sends.
struct Two {
    database: TestDatabase,
    counted: Arc<FaultyStore>,
    host: Arena,
    sender: Arc<dyn WorkflowEventStore>,
}

impl Two {
    async fn new(always_replay: bool) -> anyhow::Result<Self> {
        let database = TestDatabase::create(Shards::new(1)).await?;
        let store = open(&database.url()?, OpenOptions::default()).await?;
        let counted = Arc::new(FaultyStore::new(store, 0, FaultRates::NONE));
        let host = Arena {
            store: counted.clone(),
            always_replay,
        };
        let sender = open(&database.url()?, OpenOptions::default()).await?;
        Ok(Self {
            database,
            counted,
            host,
            sender,
        })
    }

    fn looks(&self) -> u64 {
        let faults = self.counted.faults();
        faults.get("load_turns").map_or(0, |count| count.calls)
    }

    async fn remove(self) {
        let Self {
            database,
            counted,
            host,
            sender,
        } = self;
        drop((counted, host, sender));
        database.remove().await;
    }
}

/// Looks at intervals: what is waited for happens in another process, as it were.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, looking).await;
    assert!(waited.is_ok(), "{what}");
}

async fn waiting_run(engine: &Engine) -> RunHandle<Scripted> {
    let script = Script::of([Step::Signal {
        name: "go".to_owned(),
    }]);
    let run = engine.client().start::<Scripted>(script).await;
    let run = run.expect("starts");
    until("its first turn", async || {
        run.get().await.expect("reads").sequence > 0
    })
    .await;
    run
}

async fn is_heard_after_a_ring_in_vain(always_replay: bool) -> anyhow::Result<()> {
    let two = Two::new(always_replay).await?;
    let engine = two.host.blind_engine(&Effects::new()).start().await?;
    let sender = Engine::on(two.sender.clone()).start().await?;
    let run = waiting_run(&engine).await;
    let bell = two.sender.bell().expect("PostgreSQL has one");
    until("both are connected", async || bell.is_connected()).await;
    let before = two.looks();
    bell.ring(Ring {
        ready_runs: [run.id()].into(),
        ..Ring::default()
    });
    if !always_replay {
        until("it was looked at, in vain", async || two.looks() > before).await;
    }
    let elsewhere = sender.client().run::<Scripted>(run.id());
    elsewhere.signal("go", &1).await?;
    let result = tokio::time::timeout(PATIENCE, run.result()).await;
    assert!(result.is_ok(), "nobody took the turn");
    engine.shutdown().await?;
    sender.shutdown().await?;
    two.remove().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_run_that_was_rung_for_in_vain_hears_the_next_ring() -> anyhow::Result<()> {
    is_heard_after_a_ring_in_vain(false).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_not_kept_hears_a_ring() -> anyhow::Result<()> {
    is_heard_after_a_ring_in_vain(true).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_run_stays_its_owner_s() -> anyhow::Result<()> {
    let two = Two::new(false).await?;
    let lease = Duration::from_secs(1);
    let builder = two.host.blind_engine(&Effects::new());
    let builder = builder.configure(|settings| settings.turns.owner_lease = lease);
    let engine = builder.start().await?;
    let run = waiting_run(&engine).await;
    let owner = run.get().await?.owner.expect("an owner");
    until("it is renewed", async || {
        let now = run.get().await.expect("reads").owner;
        now.is_some_and(|now| now.expires_at > owner.expires_at)
    })
    .await;
    engine.shutdown().await?;
    assert_eq!(run.get().await?.owner, None, "given up with a farewell");
    two.remove().await;
    Ok(())
}
