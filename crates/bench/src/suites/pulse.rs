//! Unrelated runs beside a scenario: short timers and starts, which have to go on whatever happens
//! to other runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use tokio::task::{JoinHandle, JoinSet};

use super::http::Http;
use crate::figures::{histogram, note, percentile_ms};

/// How long a run may take beyond its timer before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs that are started one after the other, at a steady pace, until it is stopped.
pub(super) struct Pulse {
    stop: Arc<AtomicBool>,
    beating: JoinHandle<anyhow::Result<Beats>>,
}

/// What became of the runs.
pub(super) struct Beats {
    /// Starts that were sent.
    pub(super) sent: usize,
    /// Starts that were refused or failed.
    pub(super) refused: usize,
    /// Runs that were started and did not end in time.
    pub(super) lost: usize,
    /// From the request to the answer of a start.
    pub(super) starts: Histogram<u64>,
    /// From the instant at which a timer was due to the answer that its run has ended.
    pub(super) lateness: Histogram<u64>,
    last_refusal: Option<String>,
}

impl Beats {
    /// Why the scenario failed, as far as these runs are concerned: each must have been started,
    /// and must have ended.
    pub(super) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        if self.sent == 0 {
            failures.push("no unrelated run was started".to_owned());
        }
        if self.refused > 0 {
            let why = self.last_refusal.as_deref().unwrap_or_default();
            failures.push(format!(
                "{} of {} unrelated starts failed ({why})",
                self.refused, self.sent
            ));
        }
        if self.lost > 0 {
            failures.push(format!(
                "{} of {} unrelated timers had not fired {PATIENCE:?} after they were due",
                self.lost, self.sent
            ));
        }
        failures
    }

    /// `p50 / p99` of the starts.
    pub(super) fn starts_ms(&self) -> String {
        shown(&self.starts)
    }

    /// `p50 / p99` of the timers' lateness.
    pub(super) fn lateness_ms(&self) -> String {
        shown(&self.lateness)
    }
}

fn shown(latency: &Histogram<u64>) -> String {
    format!(
        "{:.0} / {:.0}",
        percentile_ms(latency, 50.0),
        percentile_ms(latency, 99.0)
    )
}

impl Pulse {
    /// Starts a run with a timer of this length every `pace`.
    pub(super) fn start(http: &Http, timer: Duration, pace: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (http, stopped) = (http.another(), Arc::clone(&stop));
        let beating = tokio::spawn(beat(http, timer, pace, stopped));
        Self { stop, beating }
    }

    /// Starts no more, waits for those under way.
    pub(super) async fn stop(self) -> anyhow::Result<Beats> {
        self.stop.store(true, Ordering::Relaxed);
        self.beating.await.context("the pulse panicked")?
    }
}

async fn beat(
    http: Http,
    timer: Duration,
    pace: Duration,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Beats> {
    let mut runs = JoinSet::new();
    let mut ticks = tokio::time::interval(pace);
    // A pulse that fell behind must not make up for it by a burst: that would be a load of its own.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        runs.spawn(one(http.another(), timer));
    }
    let mut beats = Beats {
        sent: runs.len(),
        refused: 0,
        lost: 0,
        starts: histogram()?,
        lateness: histogram()?,
        last_refusal: None,
    };
    while let Some(run) = runs.join_next().await {
        match run.context("a run's task panicked")? {
            Ok((started, None)) => {
                note(&mut beats.starts, started);
                beats.lost += 1;
            }
            Ok((started, Some(late))) => {
                note(&mut beats.starts, started);
                note(&mut beats.lateness, late);
            }
            Err(error) => {
                beats.refused += 1;
                beats.last_refusal = Some(format!("{error:#}"));
            }
        }
    }
    Ok(beats)
}

/// One run: how long its start took, and how late it ended; none if it did not.
async fn one(mut http: Http, timer: Duration) -> anyhow::Result<(Duration, Option<Duration>)> {
    let body = format!(
        r#"{{"workflow_type":"durable.program","input":{{"steps":[{{"do":"sleep","ms":{}}}]}}}}"#,
        timer.as_millis()
    );
    let asked = Instant::now();
    let answer = http.post("/workflows", &[body.as_bytes()]).await?.ok()?;
    let started = asked.elapsed();
    let id = answer.json()?["id"]
        .as_str()
        .context("a run's id")?
        .to_owned();
    let due = Instant::now() + timer;
    while Instant::now() < due + PATIENCE {
        let path = format!("/workflows/{id}/result?wait=20s");
        match http.get(&path).await {
            Ok(answer) if answer.status == 200 => {
                let late = Instant::now().saturating_duration_since(due);
                return Ok((started, Some(late)));
            }
            Ok(answer) if answer.status == 202 => {}
            // Refused for a moment: the run is there all the same.
            _ => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
    Ok((started, None))
}
