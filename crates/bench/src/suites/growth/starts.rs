//! Starts through the server, with admission control on as it comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everruns_durable::prelude::try_join_all;

use super::super::pages::Pages;
use super::super::served::Served;
use super::Options;
use super::figure::{Figure, Unit};
use crate::figures::{histogram, note, per_second, percentile_ms};

/// For how long the rate is measured.
const LASTS: Duration = Duration::from_secs(8);
/// Starts of the test command's share.
const SHARE_STARTS: usize = 64;

/// A run that ends with its first turn: nothing of it is left to be counted as open work.
const BODY: &[u8] =
    br#"{"workflow_type":"durable.program","input":{"steps":[{"do":"return","value":1}]}}"#;

/// Clients that start runs, one after the other each.
pub(super) async fn measure(
    options: &Options,
    server: &Served,
    pages: Option<&Pages>,
) -> anyhow::Result<Vec<Figure>> {
    if !options.common.wants("starts") {
        return Ok(Vec::new());
    }
    let share = options.common.share;
    let before = match pages {
        Some(pages) => Some(pages.touched().await?),
        None => None,
    };
    let sent = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let clients = (0..options.clients).map(|_| {
        let (mut http, sent) = (server.http(), Arc::clone(&sent));
        async move {
            tokio::spawn(async move {
                let mut times = Vec::new();
                loop {
                    let number = sent.fetch_add(1, Ordering::Relaxed);
                    let over = if share {
                        number >= SHARE_STARTS
                    } else {
                        began.elapsed() >= LASTS
                    };
                    if over {
                        return anyhow::Ok(times);
                    }
                    let asked = Instant::now();
                    http.post("/workflows", &[BODY]).await?.ok()?;
                    times.push(asked.elapsed());
                }
            })
            .await?
        }
    });
    let times = try_join_all(clients).await?;
    let took = began.elapsed();
    let mut latency = histogram()?;
    let mut starts = 0;
    for time in times.into_iter().flatten() {
        note(&mut latency, time);
        starts += 1;
    }
    let clients = options.clients;
    let name = format!("starts, {clients} clients");
    let mut rate = Figure::new(name, Unit::PerSecond, per_second(starts, took));
    if let (Some(pages), Some(before)) = (pages, before) {
        // The share sends the same number to both databases: their sum tells more than a quotient
        // of small numbers.
        let of = if share {
            1
        } else {
            i64::try_from(starts.max(1))?
        };
        rate.pages = Some((pages.touched().await? - before) / of);
    }
    let p99 = Figure::new(
        format!("starts, {clients} clients, p99"),
        Unit::Ms,
        percentile_ms(&latency, 99.0),
    );
    Ok(vec![rate, p99])
}
