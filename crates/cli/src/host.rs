//! `durable worker --connect`: `durable.program` and the built-in activities in a process of their own.

use clap::Args;
use durable_program::{BuiltIns, HostAllowList};
use everruns_durable::Worker;
use everruns_durable::remote::Connect;

use crate::exit::{Failure, Result};
use crate::signals;

/// For whom, and how much.
#[derive(Debug, Args)]
pub(crate) struct Hosting {
    /// The server's gRPC URL, such as http://127.0.0.1:7401. The token comes from WORKER_GRPC_AUTH_TOKEN, certificates from WORKER_GRPC_TLS_CA_CERT, WORKER_GRPC_TLS_CERT and WORKER_GRPC_TLS_KEY.
    #[arg(long, value_name = "URL")]
    connect: Option<String>,
    /// Activities running at once.
    #[arg(long, value_name = "N")]
    max_concurrent_tasks: Option<usize>,
    /// Hosts that the activity `http` may ask: names, `*.example.com`, `loopback`, or `*`, with commas between.
    #[arg(long, value_name = "HOSTS")]
    http_activity_hosts: Option<HostAllowList>,
}

/// Hosts until a signal.
pub(crate) async fn run(options: Hosting) -> Result<()> {
    let Some(server) = options.connect else {
        return Err(Failure::usage("for which server?").hint("--connect http://127.0.0.1:7401"));
    };
    let stop = signals::stop();
    let http_hosts = options.http_activity_hosts.unwrap_or_default();
    let worker = Worker::connect(Connect::to(&server));
    let mut worker = durable_program::register(worker, BuiltIns { http_hosts });
    if let Some(max) = options.max_concurrent_tasks {
        worker = worker.max_concurrent_tasks(max);
    }
    let worker = worker.start().await?;
    println!("{} works for {}", worker.worker_id(), server);
    stop.cancelled().await;
    Ok(worker.shutdown().await?)
}
