//! Every read that an operator or a probe sends: health, metrics, each list and count by each
//! documented filter.

use std::time::{Duration, Instant};

use super::super::Common;
use super::super::fill::{FAILED_TYPE, TYPE};
use super::super::http::Http;
use super::super::pages::Pages;
use super::super::served::Served;
use super::figure::{Figure, Unit};

/// How often a read is sent; the median counts. The share judges no times.
const TIMES: usize = 15;
const SHARE_TIMES: usize = 1;
/// A read that is slow is not sent as often: after this long the times so far count.
const LONG_ENOUGH: Duration = Duration::from_secs(8);
/// How often pages are counted; the least counts, since a chore may run beside one.
const COUNTED: usize = 3;
/// Longer than the server's sampler rests.
const A_SAMPLE: Duration = Duration::from_secs(12);

/// What a list of runs may be narrowed by, one at a time.
fn filters() -> Vec<(&'static str, String)> {
    let day = |days: i64| {
        let at = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(days * 24);
        at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    };
    vec![
        ("all", String::new()),
        ("status=completed", "status=completed".to_owned()),
        ("status=failed", "status=failed".to_owned()),
        ("status=cancelled (none)", "status=cancelled".to_owned()),
        (
            "status=pending,running",
            "status=pending,running".to_owned(),
        ),
        ("workflow_type (all)", format!("workflow_type={TYPE}")),
        (
            "workflow_type (few)",
            format!("workflow_type={FAILED_TYPE}"),
        ),
        (
            "workflow_type (none)",
            "workflow_type=no.such.type".to_owned(),
        ),
        ("workflow_id", "workflow_id=order-70".to_owned()),
        (
            "attributes",
            "attributes=%7B%22customer%22%3A%22customer-7%22%7D".to_owned(),
        ),
        (
            "attributes (none)",
            "attributes=%7B%22customer%22%3A%22nobody%22%7D".to_owned(),
        ),
        (
            "parent",
            "parent=01900000-0000-7000-8000-000000000000".to_owned(),
        ),
        ("created_from (old)", format!("created_from={}", day(15))),
        ("created_until (old)", format!("created_until={}", day(15))),
        ("created_from (new)", format!("created_from={}", day(0))),
        ("blocked=true", "blocked=true".to_owned()),
    ]
}

/// The other reads.
const OTHERS: &[&str] = &[
    "/health",
    "/metrics",
    "/metrics/timeseries",
    "/tasks/stats",
    "/tasks",
    "/tasks?status=pending",
    "/tasks?activity_type=noop",
    "/dlq",
    "/dlq?activity_type=noop",
    "/dlq?state=dead",
    "/schedules",
    "/workers",
    "/circuit-breakers",
    "/audit",
];

/// Measures each read.
pub(super) async fn measure(
    common: &Common,
    server: &Served,
    pages: Option<&Pages>,
) -> anyhow::Result<Vec<Figure>> {
    let mut http = server.http();
    let mut reads: Vec<(String, String)> = Vec::new();
    for (name, query) in filters() {
        reads.push((
            format!("list, {name}"),
            format!("/workflows?limit=50&{query}"),
        ));
        reads.push((
            format!("count, {name}"),
            format!("/workflows/count?{query}"),
        ));
    }
    for path in OTHERS {
        reads.push(((*path).to_owned(), (*path).to_owned()));
    }
    let mut figures = Vec::new();
    for (name, path) in reads {
        if common.wants(&name) {
            let path = path.trim_end_matches(['&', '?']);
            figures.push(read(common, &mut http, name, path, pages).await?);
        }
    }
    if let Some(pages) = pages.filter(|_| common.wants("idle")) {
        figures.push(idle(pages).await?);
    }
    Ok(figures)
}

async fn read(
    common: &Common,
    http: &mut Http,
    name: String,
    path: &str,
    pages: Option<&Pages>,
) -> anyhow::Result<Figure> {
    let mut figure = Figure::new(name, Unit::Ms, 0.0);
    // The first one pays for connections and plans.
    let first = http.get(path).await?;
    if first.status != 200 {
        figure.refused = Some(format!(
            "HTTP {}: {}",
            first.status,
            String::from_utf8_lossy(&first.body)
        ));
    }
    if let Some(pages) = pages {
        let mut least = i64::MAX;
        for _ in 0..COUNTED {
            let before = pages.touched().await?;
            http.get(path).await?;
            let touched = pages.touched().await? - before;
            // The extension forgets statements that are rarely sent, and their pages with them.
            if touched >= 0 {
                least = least.min(touched);
            }
        }
        figure.pages = Some(least);
    }
    let most = if common.share { SHARE_TIMES } else { TIMES };
    let (mut times, began) = (Vec::new(), Instant::now());
    while times.len() < most && (times.is_empty() || began.elapsed() < LONG_ENOUGH) {
        let sent = Instant::now();
        http.get(path).await?;
        times.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    figure.value = times[times.len() / 2];
    Ok(figure)
}

/// What a server touches while nothing is asked of it: its sampler and its chores.
async fn idle(pages: &Pages) -> anyhow::Result<Figure> {
    let before = pages.touched().await?;
    tokio::time::sleep(A_SAMPLE).await;
    let mut figure = Figure::new("idle server, 12 s", Unit::Ms, 0.0);
    figure.pages = Some(pages.touched().await? - before);
    Ok(figure)
}
