//! Looks at `/workers` all the time: how long the answer takes, and whether a worker is taken for
//! dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinHandle;

use super::super::http::Http;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// A watcher, until it is stopped.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    looking: JoinHandle<Watched>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The slowest answer.
    pub(super) slowest: Duration,
    /// Workers that were stale.
    pub(super) failures: Vec<String>,
}

impl Watch {
    /// Begins to look.
    pub(super) fn start(http: &Http) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (http, stopped) = (http.another(), Arc::clone(&stop));
        Self {
            stop,
            looking: tokio::spawn(look(http, stopped)),
        }
    }

    /// Looks no more.
    pub(super) async fn stop(self) -> anyhow::Result<Watched> {
        self.stop.store(true, Ordering::Relaxed);
        self.looking.await.context("the watch panicked")
    }
}

async fn look(mut http: Http, stop: Arc<AtomicBool>) -> Watched {
    let mut watched = Watched::default();
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        match stale(&mut http).await {
            Ok(0) => {}
            Ok(stale) => watched.failures.push(format!("{stale} workers are stale")),
            Err(error) => watched.failures.push(format!("{error:#}")),
        }
        watched.slowest = watched.slowest.max(asked.elapsed());
        // One reason of a kind is enough.
        watched.failures.dedup();
        tokio::time::sleep(PAUSE).await;
    }
    watched
}

async fn stale(http: &mut Http) -> anyhow::Result<usize> {
    let answer = http.get("/workers").await?.ok()?.json()?;
    let workers = answer["workers"].as_array().context("a list of workers")?;
    Ok(workers
        .iter()
        .filter(|worker| worker["status"] == "stale")
        .count())
}
