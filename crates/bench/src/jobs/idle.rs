//! J10: what an engine costs while nothing happens, and a server with many worker sessions.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use durable_proto::v1::worker_client::WorkerClient;
use durable_proto::v1::{Hello, WorkerMessage, server_message, worker_message};
use everruns_durable::prelude::try_join_all;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

use crate::bench::Bench;
use crate::database::Database;
use crate::figures::Figures;
use crate::options::Mode;
use crate::output::Bar;
use crate::pg_stats::Meter;
use crate::process::{cpu_time, server};
use crate::work::Embedded;

/// What happens at the beginning must be over before it counts: connections, first looks.
const SETTLE: Duration = Duration::from_secs(2);
/// Sessions of one connection: servers bound the streams of each.
const SESSIONS_EACH: usize = 50;
/// Connections that are made at once.
const AT_ONCE: usize = 10;

/// An engine of this process, and a server of its own.
pub(crate) async fn run(bench: &Bench) -> anyhow::Result<()> {
    if bench.options.wants(Mode::Embedded) {
        bench
            .case(async |database| {
                let work = Embedded::open(&database.url).await?;
                let figures = look(bench, database, Mode::Embedded, std::process::id()).await?;
                work.engine.shutdown().await?;
                Ok(figures.with("sessions", 0))
            })
            .await?;
    }
    if bench.options.wants(Mode::Remote) {
        bench
            .case(async |database| {
                let sessions = bench.options.sessions();
                let server = server(&database.url).await?;
                let held = open_sessions(&server.said, sessions).await?;
                let figures = look(bench, database, Mode::Remote, server.id()?).await?;
                drop(held);
                server.kill().await?;
                Ok(figures.with("sessions", sessions))
            })
            .await?;
    }
    Ok(())
}

/// Looks at a process and its database for a while.
async fn look(bench: &Bench, database: &Database, mode: Mode, pid: u32) -> anyhow::Result<Figures> {
    let time = bench.options.idle();
    let bar = Bar::new("J10, idle", 1);
    let meter = Meter::of(database).await?;
    tokio::time::sleep(SETTLE).await;
    let before = match &meter {
        Some(meter) => Some(meter.read().await?),
        None => None,
    };
    let (began, cpu) = (Instant::now(), cpu_time(pid)?);
    tokio::time::sleep(time).await;
    let (took, used) = (began.elapsed(), cpu_time(pid)? - cpu);
    let percent = used.as_secs_f64() / took.as_secs_f64() * 100.0;
    let mut figures =
        Figures::time("J10", mode, "cpu_percent", percent).with("idle_s", time.as_secs());
    if let (Some(meter), Some(before)) = (meter, before) {
        let cost = meter.read().await?.since(before);
        // Counts are published late: what is read covers the time until the reading.
        let seconds = began.elapsed().as_secs_f64();
        figures.add("transactions_per_s", cost.commits / seconds);
        figures.add(
            "queries_per_s",
            cost.statements.unwrap_or(cost.commits) / seconds,
        );
        // Who asks nothing costs nothing: there is no ratio to that.
        figures.raw = Some(0.0);
    }
    bar.set(1);
    Ok(figures)
}

/// A session's two directions; the session lasts as long as both.
struct Session {
    _up: mpsc::Sender<WorkerMessage>,
    _down: Streaming<durable_proto::v1::ServerMessage>,
}

/// Opens worker sessions, several a connection, as different workers.
async fn open_sessions(url: &str, count: usize) -> anyhow::Result<Vec<Session>> {
    let numbers: Vec<usize> = (0..count).collect();
    let mut sessions = Vec::with_capacity(count);
    let connections: Vec<&[usize]> = numbers.chunks(SESSIONS_EACH).collect();
    for some in connections.chunks(AT_ONCE) {
        let opened = try_join_all(some.iter().map(|numbers| connection(url, numbers))).await?;
        sessions.extend(opened.into_iter().flatten());
    }
    Ok(sessions)
}

async fn connection(url: &str, numbers: &[usize]) -> anyhow::Result<Vec<Session>> {
    let channel = Endpoint::from_shared(url.to_owned())?.connect().await?;
    let mut sessions = Vec::new();
    for number in numbers {
        let (up, messages) = mpsc::channel(4);
        let hello = Hello {
            worker_id: format!("idle-{number}"),
            build: "bench".to_owned(),
            activity_types: vec!["noop".to_owned()],
            task_slots: 10,
            ..Hello::default()
        };
        let message = worker_message::Message::Hello(hello);
        up.send(WorkerMessage {
            message: Some(message),
        })
        .await
        .context("the channel has room")?;
        let mut client = WorkerClient::new(channel.clone());
        let mut down = client
            .session(ReceiverStream::new(messages))
            .await?
            .into_inner();
        let first = down.message().await?.and_then(|first| first.message);
        let Some(server_message::Message::Welcome(_)) = first else {
            bail!("the server did not say welcome, but {first:?}")
        };
        sessions.push(Session {
            _up: up,
            _down: down,
        });
    }
    Ok(sessions)
}
