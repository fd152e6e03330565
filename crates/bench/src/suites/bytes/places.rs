//! The places that take a payload. Each sends all payloads, and finds every one that was
//! acknowledged.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use everruns_durable::prelude::try_join_all;
use serde_json::json;

use super::super::programs::HANDED_ON;
use super::super::wait::until;
use super::payload::{BYTES, length, sum};
use super::stage::{ENDS_WITHIN, Request, Stage};
use crate::database::Kind;
use crate::raw;

/// What a place answers: what was found again, as text for the report.
type Found<'a> = Pin<Box<dyn Future<Output = anyhow::Result<String>> + 'a>>;

/// A place that takes payloads.
pub(super) struct Place {
    /// Its name.
    pub(super) name: &'static str,
    /// The one store that has it; all of them if none.
    pub(super) on: Option<Kind>,
    /// Whether it belongs to the test command's share, which has to be short.
    pub(super) share: bool,
    /// Sends, waits, and finds again.
    pub(super) play: for<'a> fn(&'a mut Stage) -> Found<'a>,
}

macro_rules! places {
    ($($name:literal $(on $kind:ident)? $([$share:ident])? => $play:ident),+ $(,)?) => {
        /// Every place.
        pub(super) const PLACES: &[Place] = &[
            $(Place {
                name: $name,
                on: places!(@on $($kind)?),
                share: places!(@share $($share)?),
                play: |stage| Box::pin($play(stage)),
            }),+
        ];
    };
    (@on) => { None };
    (@on $kind:ident) => { Some(Kind::$kind) };
    (@share) => { false };
    (@share share) => { true };
}

places! {
    "signals, then a deadline" [share] => deadline,
    "signals, then terminate" [share] => terminate,
    "signals to a run that ends" => sink,
    "signals, continued as new" => relay,
    "inputs and results" => copies,
    "memos" [share] => memos,
    "updates" => updates,
    "children" => children,
    "heartbeats" => heartbeats,
    "dead letters" => dead_letters,
    "inputs of continuations" => continuations,
    "results of run_once" => results_once,
    "side effects" => side_effects,
    "local activities" => local_activities,
    "answers to queries" on Sqlite => queries,
    "details of failures" => failures,
    "schedules" => schedules,
    "backlog of small signals" on Postgres [share] => backlog,
}

/// The type of runs that no process hosts.
const UNHOSTED: &str = "suite.unhosted";
/// The milliseconds that one payload may take to be sent, with room to spare: a deadline lies
/// behind the last one.
const SENT_MS: u64 = 250;
/// A deadline that is missed is doubled up to this.
const DEADLINE_MS_MAX: u64 = 600_000;

async fn deadline(stage: &mut Stage) -> anyhow::Result<String> {
    let mut ms = 6_000 + SENT_MS * stage.payloads as u64;
    let run = loop {
        let body = json!({"workflow_type": UNHOSTED, "execution_timeout_ms": ms}).to_string();
        let run = stage.start(&body).await?;
        let sent = stage.signal_all(&run).await;
        if stage.status(&run).await? != "failed" {
            sent?;
            break run;
        }
        // It passed before all was sent, which says nothing: a slower machine needs a later one.
        ensure!(
            ms <= DEADLINE_MS_MAX,
            "{ms} ms are too short for all to be sent"
        );
        ms *= 2;
    };
    let patience = Duration::from_millis(ms) + ENDS_WITHIN;
    let ended = until(patience, async || {
        Ok((stage.status(&run).await? == "failed").then_some(()))
    })
    .await;
    ended.context("the run has not ended by its deadline")?;
    signals_found(stage, &run).await
}

async fn terminate(stage: &mut Stage) -> anyhow::Result<String> {
    let body = json!({"workflow_type": UNHOSTED}).to_string();
    let run = stage.start(&body).await?;
    stage.signal_all(&run).await?;
    let path = format!("/workflows/{run}/terminate");
    stage.http().post(&path, &[b"{}"]).await?.ok()?;
    let status = stage.status(&run).await?;
    ensure!(
        status != "pending" && status != "running",
        "a terminated run is {status}"
    );
    signals_found(stage, &run).await
}

/// Every signal is on record, and what was not taken when the run ended is in its history with every
/// byte.
async fn signals_found(stage: &Stage, run: &str) -> anyhow::Result<String> {
    let (found, sent) = (stage.signals_on_record(run).await?, stage.payloads);
    ensure!(found == sent, "{found} of {sent} signals are on record");
    let all: usize = (1..=sent).map(length).sum();
    let bytes = stage.signal_bytes_in_history(run).await?;
    ensure!(
        bytes == all,
        "{bytes} of {all} bytes of signals are in the history"
    );
    Ok(format!("{found} signals, {bytes} bytes"))
}

async fn sink(stage: &mut Stage) -> anyhow::Result<String> {
    let body = json!({"workflow_type": "suite_sink", "input": stage.payloads}).to_string();
    let run = stage.start(&body).await?;
    stage.signal_all(&run).await?;
    all_summed(stage, &run, stage.payloads).await?;
    let events = stage
        .list(&format!("/workflows/{run}/events"), "events")
        .await?;
    ensure!(
        events > stage.payloads,
        "only {events} events are on record"
    );
    Ok(format!("{events} events"))
}

async fn relay(stage: &mut Stage) -> anyhow::Result<String> {
    let input = json!({"left": stage.payloads, "per_iteration": 10, "sum": 0});
    let body = json!({"workflow_type": "suite_relay", "input": input}).to_string();
    let run = stage.start(&body).await?;
    stage.signal_all(&run).await?;
    all_summed(stage, &run, stage.payloads).await
}

async fn all_summed(stage: &Stage, run: &str, sent: usize) -> anyhow::Result<String> {
    let (found, all) = (stage.result(run).await?, sum(sent));
    ensure!(found == all, "the run took {found}, and {all} was sent");
    Ok(format!("sum {found}"))
}

async fn copies(stage: &mut Stage) -> anyhow::Result<String> {
    let runs = stage
        .start_each(r#"{"workflow_type":"suite_copy","input":"#, "}")
        .await?;
    for (number, run) in &runs {
        let result = stage.result(run).await?;
        let found = result.as_str().map_or(0, str::len);
        ensure!(
            found == length(*number),
            "run {number} answered {found} bytes"
        );
    }
    let listed = stage
        .list("/workflows?workflow_type=suite_copy", "workflows")
        .await?;
    ensure!(
        listed == runs.len(),
        "{listed} of {} runs are listed",
        runs.len()
    );
    let dry_run = json!({"action": "terminate", "filter": {"workflow_type": "suite_copy"}});
    let batches = (0..4).map(|_| {
        let (mut http, body) = (stage.http(), dry_run.to_string());
        async move {
            http.post("/workflows/batch", &[body.as_bytes()])
                .await?
                .ok()
        }
    });
    try_join_all(batches).await?;
    Ok(format!("{listed} results"))
}

async fn memos(stage: &mut Stage) -> anyhow::Result<String> {
    let runs = stage
        .start_each(r#"{"workflow_type":"suite.unhosted","memo":"#, "}")
        .await?;
    let listed = stage
        .list("/workflows?workflow_type=suite.unhosted", "workflows")
        .await?;
    ensure!(
        listed == runs.len(),
        "{listed} of {} runs are listed",
        runs.len()
    );
    for (number, run) in &runs {
        let answer = stage.http().get(&format!("/workflows/{run}")).await?.ok()?;
        let found = answer.json()?["memo"].as_str().map_or(0, str::len);
        ensure!(found == length(*number), "memo {number} has {found} bytes");
    }
    Ok(format!("{} memos", runs.len()))
}

async fn updates(stage: &mut Stage) -> anyhow::Result<String> {
    let run = stage.start(r#"{"workflow_type":"suite_updates"}"#).await?;
    let path = format!("/workflows/{run}/update?wait=60s");
    let request = move |_| Request {
        path: path.clone(),
        before: r#"{"name":"take","input":"#.to_owned(),
        after: "}",
    };
    let answers = stage
        .send(request, |number, answer| {
            ensure!(answer.status == 200, "update {number} is {}", answer.status);
            ensure!(
                answer.length > length(number),
                "update {number} lost its answer"
            );
            Ok(())
        })
        .await?;
    let close: &[u8] = br#"{"signal_type":"close"}"#;
    let path = format!("/workflows/{run}/signal");
    stage.http().post(&path, &[close]).await?.ok()?;
    all_summed(stage, &run, stage.payloads).await?;
    Ok(format!("{} answers", answers.len()))
}

async fn children(stage: &mut Stage) -> anyhow::Result<String> {
    let runs = stage
        .start_each(r#"{"workflow_type":"suite_parent","input":"#, "}")
        .await?;
    for (number, run) in &runs {
        let found = stage.result(run).await?;
        let all = length(*number);
        ensure!(found == all, "child {number} answered {found} bytes");
    }
    Ok(format!("{} children", runs.len()))
}

async fn heartbeats(stage: &mut Stage) -> anyhow::Result<String> {
    let body = json!({"workflow_type": "suite_beat", "input": BYTES}).to_string();
    let mut runs = Vec::new();
    for _ in 0..stage.payloads {
        runs.push(stage.start(&body).await?);
    }
    for (number, run) in runs.iter().enumerate() {
        let found = stage.result(run).await?;
        ensure!(found == BYTES, "heartbeat {number} kept {found} bytes");
    }
    Ok(format!("{} details", runs.len()))
}

async fn dead_letters(stage: &mut Stage) -> anyhow::Result<String> {
    let runs = stage
        .start_each(r#"{"workflow_type":"suite_doomed","input":"#, "}")
        .await?;
    // One of them is looked at until all are dead: a list of all would be a load of its own.
    for (_, run) in &runs {
        let path = format!("/dlq?run_id={run}&limit=1");
        let dead = until(ENDS_WITHIN, async || {
            let page = stage.http().get(&path).await?.ok()?.json()?;
            let letters = page[LETTERS].as_array();
            Ok(letters
                .is_some_and(|letters| !letters.is_empty())
                .then_some(()))
        })
        .await;
        dead.with_context(|| format!("run {run} has no dead letter"))?;
    }
    let listed = stage.list("/dlq", LETTERS).await?;
    ensure!(
        listed == runs.len(),
        "{listed} of {} letters are listed",
        runs.len()
    );
    let tasks = stage.list("/tasks", "tasks").await?;
    Ok(format!("{listed} letters, {tasks} tasks"))
}

async fn continuations(stage: &mut Stage) -> anyhow::Result<String> {
    lengths(stage, "suite_baton", HANDED_ON.len()).await
}

async fn results_once(stage: &mut Stage) -> anyhow::Result<String> {
    lengths(stage, "suite_once", 0).await
}

async fn side_effects(stage: &mut Stage) -> anyhow::Result<String> {
    lengths(stage, "suite_side_effect", 0).await
}

async fn local_activities(stage: &mut Stage) -> anyhow::Result<String> {
    lengths(stage, "suite_local", 0).await
}

async fn failures(stage: &mut Stage) -> anyhow::Result<String> {
    lengths(stage, "suite_failing", 0).await
}

/// Starts a run of a type for every payload, each of which answers the length of what came through,
/// `more` than was sent; then reads the events of each.
async fn lengths(
    stage: &Stage,
    workflow_type: &'static str,
    more: usize,
) -> anyhow::Result<String> {
    let request = move |_| Request {
        path: "/workflows".to_owned(),
        before: format!(r#"{{"workflow_type":"{workflow_type}","input":"#),
        after: "}",
    };
    let runs = stage.start_all(request).await?;
    for (number, run) in &runs {
        let (found, sent) = (stage.result(run).await?, length(*number) + more);
        ensure!(
            found == sent,
            "{found} of the {sent} bytes of run {number} came through"
        );
    }
    for (_, run) in &runs {
        let path = format!("/workflows/{run}/events");
        stage.list(&path, "events").await?;
    }
    Ok(format!("{} runs", runs.len()))
}

/// Through the server: a worker that is on the database by itself is asked by nobody.
async fn queries(stage: &mut Stage) -> anyhow::Result<String> {
    let runs = stage
        .start_each(r#"{"workflow_type":"suite_asked","input":"#, "}")
        .await?;
    for (number, run) in &runs {
        let path = format!("/workflows/{run}/query");
        let answered = until(ENDS_WITHIN, async || {
            let answer = stage
                .http()
                .post(&path, &[br#"{"name":"text"}"#])
                .await?
                .ok()?;
            Ok(Some(answer.length))
        });
        let found = answered
            .await
            .with_context(|| format!("run {run} does not answer"))?;
        ensure!(
            found > length(*number),
            "query {number} answered {found} bytes"
        );
        let path = format!("/workflows/{run}/terminate");
        stage.http().post(&path, &[b"{}"]).await?.ok()?;
    }
    Ok(format!("{} answers", runs.len()))
}

/// The field of a page of dead letters.
const LETTERS: &str = "dead_letters";

async fn schedules(stage: &mut Stage) -> anyhow::Result<String> {
    let request = |number| Request {
        path: "/schedules".to_owned(),
        before: format!(
            r#"{{"id":"s-{number}","cron":"0 0 1 1 *","workflow_type":"suite_copy","input":"#
        ),
        after: "}",
    };
    let sent = stage.send(request, |_, _| Ok(())).await?.len();
    let listed = stage.list("/schedules", "schedules").await?;
    ensure!(listed == sent, "{listed} of {sent} schedules are listed");
    for number in 1..=sent.min(4) {
        let path = format!("/schedules/s-{number}/trigger");
        let answer = stage.http().post(&path, &[b"{}"]).await?.ok()?.json()?;
        let run = answer["id"].as_str().context("a trigger answers its run")?;
        let result = stage.result(run).await?;
        let found = result.as_str().map_or(0, str::len);
        ensure!(
            found == length(number),
            "schedule {number} started with {found} bytes"
        );
    }
    Ok(format!("{listed} schedules"))
}

/// Small signals that wait in numbers: a run that takes a hundred an iteration must not move the
/// rest each time.
async fn backlog(stage: &mut Stage) -> anyhow::Result<String> {
    let total = stage.backlog;
    // No process hosts the run while the signals come, so that all of them wait.
    stage.stop_worker().await?;
    let input = json!({"left": total, "per_iteration": 100, "sum": 0});
    let body = json!({"workflow_type": "suite_relay", "input": input}).to_string();
    let run = stage.start(&body).await?;
    let senders = (0..8).map(|sender| {
        let (mut http, path) = (stage.http(), format!("/workflows/{run}/signal"));
        async move {
            for number in (1..=total).skip(sender).step_by(8) {
                let body = format!(r#"{{"signal_type":"item","payload":"{number} "}}"#);
                http.post(&path, &[body.as_bytes()]).await?.ok()?;
            }
            anyhow::Ok(())
        }
    });
    try_join_all(senders).await?;
    stage.start_worker().await?;
    all_summed(stage, &run, total).await?;
    let inserts = inbox_inserts(stage).await?;
    let most = i64::try_from(total)? * 2;
    ensure!(
        inserts <= most,
        "{inserts} rows were written into the inbox for {total} signals, at most {most}"
    );
    Ok(format!("{inserts} inbox rows"))
}

/// Rows that were ever written into the inbox. PostgreSQL publishes the count up to ten seconds
/// late.
async fn inbox_inserts(stage: &Stage) -> anyhow::Result<i64> {
    tokio::time::sleep(Duration::from_secs(12)).await;
    let client = raw::connect(&stage.database.url).await?;
    let row = client
        .query_one(
            "SELECT n_tup_ins FROM pg_stat_user_tables WHERE schemaname = 'durable' AND relname = 'durable_inbox'",
            &[],
        )
        .await?;
    Ok(row.get(0))
}
