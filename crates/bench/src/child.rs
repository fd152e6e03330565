//! What the program does when it is a child of itself: it says one line when it is ready, and ends when its standard input does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use durable_server::config::{Mode, Sources};
use durable_server::serve::Server;
use everruns_durable::prelude::*;
use tokio::sync::Notify;

use crate::jobs::{latency, recovery};
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
            Self::Worker { server } => work(&server).await,
            Self::Victim { db, runs } => be_killed(&db, runs).await,
        }
    }
}

/// A server on free ports of the loopback interface, set up by nothing but its arguments.
async fn serve(db: String) -> anyhow::Result<()> {
    let flags = BTreeMap::from([
        ("db", db),
        ("migrate", "true".to_owned()),
        ("http", "127.0.0.1:0".to_owned()),
        ("grpc", "127.0.0.1:0".to_owned()),
    ]);
    let config = Sources {
        mode: Mode::Server,
        flags,
        env: &|_| None,
        file: None,
    }
    .resolve()?;
    let server = Server::start(&config).await?;
    println!("{}", server.endpoints().grpc);
    parent_is_gone().await;
    // Dropped, it stops as a crash would; nobody is left who could care.
    drop(server);
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
