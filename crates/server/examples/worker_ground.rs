//! A gRPC server for the Python suite: the worker's door alone, steered by lines on its standard input.
//!
//! `worker_ground --db URL --ready-file FILE --tokens NAME:ROLE:TOKEN,…`; each line is `signal RUN NAME JSON`, `query RUN NAME JSON` or `cancel RUN`, its
//! words separated by tabs, and is answered by one line of JSON. SIGTERM drains.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use durable_server::auth::{Access, parse_tokens};
use durable_server::{App, AppSettings, grpc};
use everruns_durable::engine::Settings;
use everruns_durable::{Client, Engine};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name);
        let value = place.and_then(|place| arguments.get(place + 1)).cloned();
        value.with_context(|| format!("{name} is needed"))
    };
    let tokens = argument("--tokens")?;
    let access = if tokens.is_empty() {
        Access::open()
    } else {
        Access::guarded(parse_tokens(&tokens).map_err(anyhow::Error::msg)?, None)?
    };
    let mut settings = Settings::default();
    // A test does not wait longer than it must for a worker that is dead.
    settings.worker.lease = Duration::from_secs(2);
    settings.worker.lease_renewal = Duration::from_millis(500);
    settings.chores.reap_interval = Duration::from_millis(500);
    settings.shutdown_grace = Duration::from_secs(5);
    let engine = Engine::open(argument("--db")?)
        .settings(settings)
        .start()
        .await?;
    let app = App::new(engine.client(), access, AppSettings::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(serve(listener, grpc::routes(app.clone())));
    let (client, handle) = (engine.client(), tokio::runtime::Handle::current());
    std::thread::spawn(move || steer(&client, &handle));
    let mut terminated = signal(SignalKind::terminate())?;
    let ready = argument("--ready-file")?;
    std::fs::write(format!("{ready}.new"), json!({ "grpc": url }).to_string())?;
    std::fs::rename(format!("{ready}.new"), ready)?;
    terminated.recv().await;
    app.draining().cancel();
    engine.shutdown().await?;
    Ok(())
}

async fn serve(listener: TcpListener, router: axum::Router) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            builder.http2().max_concurrent_streams(1_000);
            builder
                .serve_connection(TokioIo::new(stream), service)
                .await
                .ok();
        });
    }
}

/// A thread of its own: reading standard input blocks.
fn steer(client: &Client, handle: &tokio::runtime::Handle) -> std::io::Result<()> {
    for line in std::io::stdin().lines() {
        let answer = match handle.block_on(obey(client, &line?)) {
            Ok(answer) => json!({ "ok": answer }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        let mut output = std::io::stdout().lock();
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

async fn obey(client: &Client, line: &str) -> anyhow::Result<Value> {
    let words: Vec<&str> = line.split('\t').collect();
    match words[..] {
        ["signal", run, name, payload] => {
            let payload: Value = serde_json::from_str(payload)?;
            client.signal(run.parse()?, name, &payload).await?;
            Ok(Value::Null)
        }
        ["query", run, name, input] => {
            let input: Value = serde_json::from_str(input)?;
            Ok(client.query(run.parse()?, name, &input).await?)
        }
        ["cancel", run] => {
            client.cancel(run.parse()?, "as the test says").await?;
            Ok(Value::Null)
        }
        _ => bail!("cannot read {line:?}"),
    }
}
