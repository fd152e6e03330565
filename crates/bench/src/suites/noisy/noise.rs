//! What one client does to the others.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use everruns_durable::prelude::try_join_all;
use serde_json::json;
use uuid::Uuid;

use super::super::fill::TYPE;
use super::super::wait::until;
use super::Scene;
use crate::database::Kind;
use crate::raw;

/// Runs whose activities are under way while a transaction holds one of them.
const HELD: usize = 6;
/// How much longer than the transaction and a lease those activities take: none ends while the
/// transaction is open.
const LONGER: Duration = Duration::from_secs(3);
/// Clients that list, or signal, at once.
const CLIENTS: usize = 20;
/// How long runs may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// A filter that no index answers alone: all runs have the type, none has the rest.
const BROAD: &str = "created_until=2001-01-01T00:00:00Z&status=completed,cancelled&workflow_type=";

/// What a noise answers: what went wrong for the noisy client's own runs.
type Made<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Vec<String>>> + 'a>>;

/// A noise.
pub(super) struct Noise {
    /// Its name.
    pub(super) name: &'static str,
    /// The one store that has it; all of them if none.
    pub(super) on: Option<Kind>,
    /// Makes it once.
    pub(super) make: for<'a> fn(&'a Scene) -> Made<'a>,
}

/// The first one is what the others are compared with.
pub(super) const NOISES: &[Noise] = &[
    Noise {
        name: "quiet",
        on: None,
        make: |_| Box::pin(async { Ok(Vec::new()) }),
    },
    Noise {
        name: "open transaction",
        on: Some(Kind::Postgres),
        make: |scene| Box::pin(transaction(scene)),
    },
    Noise {
        name: "broad lists",
        on: None,
        make: |scene| Box::pin(lists(scene)),
    },
    Noise {
        name: "signals to one run",
        on: None,
        make: |scene| Box::pin(signals(scene)),
    },
    Noise {
        name: "abandoned counts",
        on: None,
        make: |scene| Box::pin(abandoned(scene)),
    },
    Noise {
        name: "all at once",
        on: None,
        make: |scene| Box::pin(all_at_once(scene)),
    },
];

/// Every noise that the store has, at the same time.
async fn all_at_once(scene: &Scene) -> anyhow::Result<Vec<String>> {
    let held = async {
        match scene.database.kind {
            Kind::Postgres => transaction(scene).await,
            _ => Ok(Vec::new()),
        }
    };
    let (held, listed, flooded, dropped) =
        tokio::try_join!(held, lists(scene), signals(scene), abandoned(scene))?;
    Ok([held, listed, flooded, dropped].concat())
}

/// A caller sends a signal from SQL and does not commit for long, while activities of that run and
/// of others are under way.
async fn transaction(scene: &Scene) -> anyhow::Result<Vec<String>> {
    let hold = scene.options.hold();
    let outlasts = hold + scene.options.lease() + LONGER;
    let ms = u64::try_from(outlasts.as_millis())?;
    let body = json!({"workflow_type": "suite_held", "input": ms}).to_string();
    let mut runs = Vec::new();
    for _ in 0..HELD {
        let mut http = scene.http.another();
        let answer = http.post("/workflows", &[body.as_bytes()]).await?.ok()?;
        let id = answer.json()?["id"].as_str().map(str::to_owned);
        runs.push(id.context("a run's id")?);
    }
    let all_begun = until(PATIENCE, async || {
        let noted = std::fs::read_to_string(&scene.effects)?;
        let begun = runs.iter().filter(|run| noted.contains(run.as_str()));
        Ok((begun.count() == HELD).then_some(()))
    });
    all_begun.await.context("not all activities have begun")?;
    let client = raw::connect(&scene.database.url).await?;
    let held: Uuid = runs[0].parse()?;
    client.batch_execute("BEGIN").await?;
    client
        .execute(
            "SELECT durable.durable_signal($1, 'noise', '1'::json)",
            &[&held],
        )
        .await?;
    let opened = Instant::now();
    let mut failures = Vec::new();
    if let Err(error) = renewed_twice(scene, &runs).await {
        failures.push(format!("{error:#}"));
    }
    // The time is the noise: nothing is waited for.
    tokio::time::sleep(hold.saturating_sub(opened.elapsed())).await;
    client.batch_execute("COMMIT").await?;
    for run in &runs {
        let ended = until(PATIENCE, async || {
            let path = format!("/workflows/{run}/result?wait=20s");
            let answer = scene.http.another().get(&path).await?;
            Ok((answer.status == 200).then_some(()))
        });
        ended
            .await
            .with_context(|| format!("run {run} has not ended"))?;
    }
    Ok(failures)
}

/// Waits until the lease of every task has been renewed twice. Once could be a renewal that was
/// under way before.
async fn renewed_twice(scene: &Scene, runs: &[String]) -> anyhow::Result<()> {
    let client = raw::connect(&scene.database.url).await?;
    let runs: Vec<Uuid> = runs
        .iter()
        .map(|run| run.parse())
        .collect::<Result<_, _>>()?;
    let leases = async || {
        let rows = client
            .query(
                "SELECT (extract(epoch FROM lease_expires_at) * 1000000)::bigint \
                 FROM durable.durable_task_queue WHERE workflow_id = ANY($1) AND status = 'claimed' \
                 ORDER BY workflow_id",
                &[&runs],
            )
            .await?;
        let ends: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        ensure!(ends.len() == runs.len(), "{} leases are held", ends.len());
        Ok(ends)
    };
    let mut known = leases().await?;
    for _ in 0..2 {
        let renewed = until(scene.options.hold() / 2, async || {
            let now = leases().await?;
            let later = now.iter().zip(&known).all(|(now, then)| now > then);
            Ok(later.then_some(now))
        });
        known = renewed
            .await
            .context("leases are not renewed while a transaction of another client is open")?;
    }
    Ok(())
}

/// Lists and counts that go over all runs. A refusal that the query is too broad, or took too long,
/// is an answer.
async fn lists(scene: &Scene) -> anyhow::Result<Vec<String>> {
    let began = Instant::now();
    let clients = (0..CLIENTS).map(|number| {
        let mut http = scene.http.another();
        let lasts = scene.options.lasts();
        async move {
            let path = match number % 4 {
                0 | 2 => format!("/workflows?{BROAD}{TYPE}"),
                1 => format!("/workflows/count?{BROAD}{TYPE}"),
                _ => format!("/workflows/count?{BROAD}{TYPE}&exact=true"),
            };
            while began.elapsed() < lasts {
                let answer = http.get(&path).await?;
                ensure!(answer.status != 500, "a broad list is an internal error");
            }
            anyhow::Ok(())
        }
    });
    try_join_all(clients).await?;
    Ok(Vec::new())
}

/// A flood of signals to one run, which takes them a hundred an iteration for as long as they come.
async fn signals(scene: &Scene) -> anyhow::Result<Vec<String>> {
    let input = json!({"left": u32::MAX, "per_iteration": 100, "sum": 0});
    let body = json!({"workflow_type": "suite_relay", "input": input}).to_string();
    let mut http = scene.http.another();
    let answer = http.post("/workflows", &[body.as_bytes()]).await?.ok()?;
    let run = answer.json()?["id"].as_str().map(str::to_owned);
    let run = run.context("a run's id")?;
    let path = format!("/workflows/{run}/signal");
    let began = Instant::now();
    let clients = (0..CLIENTS).map(|_| {
        let (mut http, path) = (scene.http.another(), path.clone());
        let lasts = scene.options.lasts();
        async move {
            let body: &[u8] = br#"{"signal_type":"item","payload":"x"}"#;
            while began.elapsed() < lasts {
                let answer = http.post(&path, &[body]).await?;
                // A full inbox is an answer, and a flood goes on.
                ensure!(answer.status != 500, "a signal is an internal error");
            }
            anyhow::Ok(())
        }
    });
    try_join_all(clients).await?;
    // What still waits belongs to the noise and not to the time behind it.
    let path = format!("/workflows/{run}/terminate");
    http.post(&path, &[b"{}"]).await?.ok()?;
    Ok(Vec::new())
}

/// Counts whose client hangs up before the answer.
async fn abandoned(scene: &Scene) -> anyhow::Result<Vec<String>> {
    let path = format!("/workflows/count?{BROAD}{TYPE}");
    for _ in 0..scene.options.abandoned {
        scene.http.abandon(&path).await?;
    }
    Ok(Vec::new())
}
