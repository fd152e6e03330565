//! What the program does when it is a child of itself: it says one line when it is ready, and ends when its standard input does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use durable_server::config::{Mode, SETTINGS, Sources};
use durable_server::serve::Server;
use everruns_durable::prelude::*;
use tokio::sync::Notify;

use crate::jobs::{latency, recovery};
use crate::suites::programs;
use crate::work::{self, Tally};

/// What the program starts itself as. Not in its help: nobody else has a use for it.
#[derive(Debug, Parser)]
#[command(name = "durable-bench")]
pub(crate) enum Child {
    /// A server, for jobs in mode `remote`.
    #[command(name = "child-server")]
    Server {
        /// Its store.
        db: String,
    },
    /// A server with given settings, for the suites.
    #[command(name = "child-suite-server")]
    SuiteServer {
        /// Its settings, each `KEY=VALUE`.
        settings: Vec<String>,
    },
    /// A worker with the suites' workflows.
    #[command(name = "child-suite-worker")]
    SuiteWorker {
        /// A store's URL, or a server's gRPC address.
        target: String,
        /// Where executions of activities are noted.
        effects: std::path::PathBuf,
        /// How long its leases hold.
        lease_ms: u64,
    },
    /// A worker of a server.
    #[command(name = "child-worker")]
    Worker {
        /// The server's gRPC address.
        server: String,
    },
    /// An engine with runs in flight, to be killed.
    #[command(name = "child-victim")]
    Victim {
        /// Its store.
        db: String,
        /// How many runs.
        runs: usize,
    },
}

impl Child {
    /// The child that the arguments ask for, if they ask for one.
    pub(crate) fn asked_for() -> Option<Self> {
        let first = std::env::args().nth(1)?;
        first.starts_with("child-").then(Self::parse)
    }

    /// Is that child, until the parent is gone.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Server { db } => serve(db).await,
            Self::SuiteServer { settings } => serve_suite(&settings).await,
            Self::SuiteWorker {
                target,
                effects,
                lease_ms,
            } => work_suite(&target, effects, Duration::from_millis(lease_ms)).await,
            Self::Worker { server } => work(&server).await,
            Self::Victim { db, runs } => be_killed(&db, runs).await,
        }
    }
}

/// A server on free ports of the loopback interface, set up by nothing but its arguments.
async fn serve(db: String) -> anyhow::Result<()> {
    let server = started(BTreeMap::from([
        ("db", db),
        ("migrate", "true".to_owned()),
        ("http", "127.0.0.1:0".to_owned()),
        ("grpc", "127.0.0.1:0".to_owned()),
    ]))
    .await?;
    println!("{}", server.endpoints().grpc);
    parent_is_gone().await;
    // Dropped, it stops as a crash would; no caller waits for it any more.
    drop(server);
    Ok(())
}

/// A server that is set up by nothing but these settings.
async fn started(flags: BTreeMap<&'static str, String>) -> anyhow::Result<Server> {
    let config = Sources {
        mode: Mode::Server,
        flags,
        env: &|_| None,
        file: None,
    }
    .resolve()?;
    Ok(Server::start(&config).await?)
}

/// The suites' server; its ready file tells where it listens.
async fn serve_suite(settings: &[String]) -> anyhow::Result<()> {
    let flags = settings.iter().filter_map(|setting| {
        let (key, value) = setting.split_once('=')?;
        let known = SETTINGS.iter().find(|known| known.key == key)?;
        Some((known.key, value.to_owned()))
    });
    let server = started(flags.collect()).await?;
    parent_is_gone().await;
    drop(server);
    Ok(())
}

/// The suites' worker: by the library on a store, or connected to a server.
async fn work_suite(
    target: &str,
    effects: std::path::PathBuf,
    lease: Duration,
) -> anyhow::Result<()> {
    let builder = if target.starts_with("http") {
        Engine::connect(target)
    } else {
        Engine::open(target)
    };
    let builder = programs::host(builder, effects);
    let engine = builder
        // Few at once, so that what the activities themselves hold stays small beside what the
        // library holds.
        .max_concurrent_tasks(8)
        .configure(|settings| {
            settings.worker.lease = lease;
            settings.worker.lease_renewal = lease / 4;
            settings.turns.owner_lease = lease;
            settings.chores.reap_interval = lease / 4;
        })
        .start()
        .await?;
    println!("ready");
    parent_is_gone().await;
    engine.shutdown().await?;
    Ok(())
}

/// A worker of a server, with the workflows of J1 and J3.
async fn work(server: &str) -> anyhow::Result<()> {
    let builder = work::host(Engine::connect(server), Arc::new(Tally::default()));
    let engine = latency::host(builder).start().await?;
    println!("ready");
    parent_is_gone().await;
    engine.shutdown().await?;
    Ok(())
}

/// An engine whose runs are all within an activity that does not end.
async fn be_killed(db: &str, runs: usize) -> anyhow::Result<()> {
    let (began, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counts, rings) = (Arc::clone(&began), Arc::clone(&all));
    let engine = recovery::host(Engine::open(db), runs, move |_run| {
        if counts.fetch_add(1, Ordering::Relaxed) + 1 == runs {
            rings.notify_one();
        }
        std::future::pending()
    })
    .start()
    .await?;
    recovery::start_all(&engine.client(), runs).await?;
    all.notified().await;
    println!("ready");
    parent_is_gone().await;
    Ok(())
}

/// Whoever started this process holds its standard input open.
async fn parent_is_gone() {
    let read = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    // An error means the same.
    let _ = tokio::task::spawn_blocking(read).await;
}
