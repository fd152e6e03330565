//! The samples of the last hour.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use everruns_durable::admin::{Ledger, LedgerReader};
use everruns_durable::core::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use super::point::MetricsPoint;
use crate::App;

/// Samples kept: an hour of one every ten seconds.
const POINTS_MAX: usize = 360;

/// The samples, and who wants to see the next one.
#[derive(Debug)]
pub(crate) struct Samples {
    points: Mutex<VecDeque<MetricsPoint>>,
    newest: watch::Sender<Option<MetricsPoint>>,
    ledger: LedgerReader,
    sampling: AtomicBool,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            points: Mutex::default(),
            newest: watch::channel(None).0,
            ledger: LedgerReader::default(),
            sampling: AtomicBool::new(false),
        }
    }
}

impl Samples {
    /// The samples, oldest first.
    pub(super) fn points(&self) -> Vec<MetricsPoint> {
        self.points.lock().iter().cloned().collect()
    }

    pub(super) fn newest(&self) -> watch::Receiver<Option<MetricsPoint>> {
        self.newest.subscribe()
    }

    /// Everything that ever ended.
    pub(super) async fn ledger(
        &self,
        app: &App,
        now: Timestamp,
    ) -> Result<Ledger, everruns_durable::Error> {
        Ok(self.ledger.read(&**app.store(), now).await?)
    }

    fn push(&self, point: MetricsPoint) {
        let mut points = self.points.lock();
        if points.len() >= POINTS_MAX {
            points.pop_front();
        }
        points.push_back(point.clone());
        drop(points);
        self.newest.send_replace(Some(point));
    }
}

/// Takes a sample now and every so often, until the process is about to go. Called again, it changes nothing.
pub(in crate::http) fn keep_sampling(app: &App) {
    if app.samples().sampling.swap(true, Ordering::Relaxed) {
        return;
    }
    let (interval, draining) = (app.settings().sample_interval, app.draining().clone());
    let app = app.downgrade();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = draining.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let Some(app) = app.upgrade() else { return };
            match sample(&app).await {
                Ok(point) => app.samples().push(point),
                Err(error) => warn!(%error, "no sample could be taken"),
            }
        }
    });
}

async fn sample(app: &App) -> Result<MetricsPoint, everruns_durable::Error> {
    let health = app
        .client()
        .system_health(app.settings().worker_stale_after)
        .await?;
    let ledger = app.samples().ledger(app, health.at).await?;
    let totals = ledger.totals();
    Ok(MetricsPoint::new(&health, totals))
}
