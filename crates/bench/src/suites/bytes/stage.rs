//! A database with a server and a worker on it, and what every place does with them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use everruns_durable::prelude::try_join_all;
use serde_json::Value;
use uuid::Uuid;

use super::super::http::{Answer, Http};
use super::super::served::{Served, Worker};
use super::super::wait::until;
use super::Options;
use super::payload::Blob;
use crate::database::{Database, Kind};
use crate::raw;

/// Clients that send at once.
const CLIENTS: usize = 4;
/// How long a run may take to end once all was sent.
pub(super) const ENDS_WITHIN: Duration = Duration::from_secs(600);

/// Where a place is played.
pub(super) struct Stage {
    server: Option<Served>,
    worker: Option<Worker>,
    effects: PathBuf,
    /// The store.
    pub(super) database: Database,
    /// How many payloads are sent.
    pub(super) payloads: usize,
    /// How many small signals make a backlog.
    pub(super) backlog: usize,
    blob: Blob,
}

/// A request with a payload: the path, and the JSON around the payload's text.
pub(super) struct Request {
    pub(super) path: String,
    pub(super) before: String,
    pub(super) after: &'static str,
}

impl Stage {
    /// Starts both. On PostgreSQL the worker is the library on the database; a SQLite file belongs
    /// to one process, so that there the worker is connected to the server.
    pub(super) async fn set(options: &Options, database: &Database) -> anyhow::Result<Self> {
        let binary = options.common.server.as_deref();
        let server = Served::start(&database.url, binary, &[]).await?;
        let effects = std::env::temp_dir().join(format!("durable-suite-{}", Uuid::now_v7()));
        let mut stage = Self {
            worker: None,
            server: Some(server),
            effects,
            database: database.clone(),
            payloads: options.payloads(),
            backlog: options.backlog(),
            blob: Blob::new(),
        };
        stage.start_worker().await?;
        Ok(stage)
    }

    /// A client of the server.
    pub(super) fn http(&self) -> Http {
        // There until the stage is cleared.
        self.server
            .as_ref()
            .map_or_else(|| Http::new(""), Served::http)
    }

    /// The most memory that each process has held.
    pub(super) fn peaks(&self) -> [(&'static str, anyhow::Result<u64>); 2] {
        let gone = || anyhow::anyhow!("it has ended");
        [
            (
                "server",
                self.server
                    .as_ref()
                    .ok_or_else(gone)
                    .and_then(Served::peak_mib),
            ),
            (
                "worker",
                self.worker
                    .as_ref()
                    .ok_or_else(gone)
                    .and_then(Worker::peak_mib),
            ),
        ]
    }

    /// Stops both and removes what they wrote.
    pub(super) async fn clear(mut self) {
        if let Some(worker) = self.worker.take() {
            let _ = worker.stop().await;
        }
        if let Some(server) = self.server.take() {
            let _ = server.stop().await;
        }
        let _ = std::fs::remove_file(&self.effects);
    }

    /// Kills the worker.
    pub(super) async fn stop_worker(&mut self) -> anyhow::Result<()> {
        match self.worker.take() {
            Some(worker) => worker.stop().await,
            None => Ok(()),
        }
    }

    /// Starts the worker anew.
    pub(super) async fn start_worker(&mut self) -> anyhow::Result<()> {
        let server = self.server.as_ref().context("the server has ended")?;
        let target = match self.database.kind {
            Kind::Postgres => self.database.url.as_str(),
            _ => server.grpc(),
        };
        self.worker = Some(Worker::start(target, &self.effects).await?);
        Ok(())
    }

    /// Starts a run; answers its id.
    pub(super) async fn start(&self, body: &str) -> anyhow::Result<String> {
        let answer = self.http().post("/workflows", &[body.as_bytes()]).await?;
        id_of(&answer.ok()?)
    }

    /// Sends every payload by a few clients at once; each request has to be taken. Answers what
    /// they were answered, by number.
    pub(super) async fn send<T: Send + 'static>(
        &self,
        request: impl Fn(usize) -> Request + Send + Sync + 'static,
        read: impl Fn(usize, Answer) -> anyhow::Result<T> + Send + Sync + 'static,
    ) -> anyhow::Result<Vec<T>> {
        let count = self.payloads;
        let next = Arc::new(AtomicUsize::new(1));
        let (request, read) = (Arc::new(request), Arc::new(read));
        let clients = (0..CLIENTS).map(|_| {
            let (mut http, blob) = (self.http(), self.blob.clone());
            let (next, request, read) =
                (Arc::clone(&next), Arc::clone(&request), Arc::clone(&read));
            async move {
                tokio::spawn(async move {
                    let mut answers = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number > count {
                            return anyhow::Ok(answers);
                        }
                        let Request {
                            path,
                            before,
                            after,
                        } = request(number);
                        let head = format!("{before}\"{number} ");
                        let tail = format!("\"{after}");
                        let parts = [head.as_bytes(), blob.bytes(), tail.as_bytes()];
                        let answer = http.post(&path, &parts).await?.ok();
                        let answer =
                            answer.with_context(|| format!("payload {number} of {count}"))?;
                        answers.push(read(number, answer)?);
                    }
                })
                .await?
            }
        });
        let answers = try_join_all(clients).await?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Starts a run for every payload; answers number and id of each.
    pub(super) async fn start_each(
        &self,
        before: &'static str,
        after: &'static str,
    ) -> anyhow::Result<Vec<(usize, String)>> {
        let request = move |_| Request {
            path: "/workflows".to_owned(),
            before: before.to_owned(),
            after,
        };
        self.start_all(request).await
    }

    /// The same with a request of the place's own.
    pub(super) async fn start_all(
        &self,
        request: impl Fn(usize) -> Request + Send + Sync + 'static,
    ) -> anyhow::Result<Vec<(usize, String)>> {
        self.send(request, |number, answer| Ok((number, id_of(&answer)?)))
            .await
    }

    /// Sends every payload to one run as the signal `item`.
    pub(super) async fn signal_all(&self, run: &str) -> anyhow::Result<()> {
        let path = format!("/workflows/{run}/signal");
        let request = move |_| Request {
            path: path.clone(),
            before: r#"{"signal_type":"item","payload":"#.to_owned(),
            after: "}",
        };
        self.send(request, |_, _| Ok(())).await?;
        Ok(())
    }

    /// The result of a run, once it has completed.
    pub(super) async fn result(&self, run: &str) -> anyhow::Result<Value> {
        let path = format!("/workflows/{run}/result?wait=20s");
        let ended = until(ENDS_WITHIN, async || {
            let answer = self.http().get(&path).await?;
            Ok((answer.status == 200).then_some(answer))
        })
        .await;
        let answer = ended.with_context(|| format!("run {run} has not ended"))?;
        let mut answer = answer.json()?;
        let status = answer["status"].as_str().unwrap_or_default().to_owned();
        ensure!(
            status == "completed",
            "run {run} is {status}: {}",
            answer["error"]
        );
        Ok(answer["result"].take())
    }

    /// The status of a run.
    pub(super) async fn status(&self, run: &str) -> anyhow::Result<String> {
        let answer = self.http().get(&format!("/workflows/{run}")).await?.ok()?;
        let status = answer.json()?["status"].as_str().map(str::to_owned);
        status.context("a run has a status")
    }

    /// Signals on record for a run, taken or not: each one that was acknowledged has to be among
    /// them.
    pub(super) async fn signals_on_record(&self, run: &str) -> anyhow::Result<usize> {
        let id: Uuid = run.parse()?;
        let count: i64 = match self.database.path() {
            Some(path) => rusqlite::Connection::open(path)?.query_row(
                "SELECT count(*) FROM durable_signals WHERE workflow_id = ?1",
                [id.as_bytes().as_slice()],
                |row| row.get(0),
            )?,
            None => raw::connect(&self.database.url)
                .await?
                .query_one(
                    "SELECT count(*) FROM durable.durable_signals WHERE workflow_id = $1",
                    &[&id],
                )
                .await?
                .get(0),
        };
        Ok(usize::try_from(count)?)
    }

    /// Reads a list with the largest page there is, by four clients at once, and then counts its
    /// items page by page.
    pub(super) async fn list(&self, path: &str, items: &str) -> anyhow::Result<usize> {
        let mut count = 0;
        self.read(path, items, |_| count += 1).await?;
        Ok(count)
    }

    /// Bytes of the signals in a run's history.
    pub(super) async fn signal_bytes_in_history(&self, run: &str) -> anyhow::Result<usize> {
        let (path, mut bytes) = (format!("/workflows/{run}/events"), 0);
        let add = |event: &Value| {
            let payload = event["event_data"]["signal"]["payload"].as_str();
            bytes += payload.map_or(0, str::len);
        };
        self.read(&path, "events", add).await?;
        Ok(bytes)
    }

    /// Sees each item of a list, read as [`Stage::list`] says.
    async fn read(
        &self,
        path: &str,
        items: &str,
        mut see: impl FnMut(&Value),
    ) -> anyhow::Result<()> {
        let sign = if path.contains('?') { '&' } else { '?' };
        let readers = (0..4).map(|_| {
            let mut http = self.http();
            let path = format!("{path}{sign}limit=1000");
            async move { http.get(&path).await?.ok() }
        });
        try_join_all(readers).await?;
        let (mut http, mut cursor) = (self.http(), String::new());
        loop {
            // Few enough that a page of whole payloads fits what is kept of an answer.
            let answer = http
                .get(&format!("{path}{sign}limit=4{cursor}"))
                .await?
                .ok()?;
            ensure!(
                answer.length == answer.body.len(),
                "a page of four has {} bytes",
                answer.length
            );
            let page = answer.json()?;
            page[items]
                .as_array()
                .into_iter()
                .flatten()
                .for_each(&mut see);
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(()),
            }
        }
    }
}

fn id_of(answer: &Answer) -> anyhow::Result<String> {
    let id = answer.json()?["id"].as_str().map(str::to_owned);
    id.context("the answer has the run's id")
}
