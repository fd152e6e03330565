//! `durable worker --connect`: `durable.program` and the built-in activities in a process of their own.

use std::path::{Path, PathBuf};

use clap::Args;
use durable_program::{BuiltIns, HostAllowList};
use durable_server::config::{LogFormat, Period};
use everruns_durable::Worker;
use everruns_durable::remote::{Connect, Identity};
use tracing::info;

use crate::exit::{Failure, Result};
use crate::output::announce;
use crate::{logging, signals};

/// For whom, and how much.
#[derive(Debug, Args)]
pub(crate) struct Hosting {
    /// The server's gRPC URL, such as http://127.0.0.1:7401.
    #[arg(long, value_name = "URL")]
    connect: Option<String>,
    /// The worker's token. Without it that of WORKER_GRPC_AUTH_TOKEN, or of the file that WORKER_GRPC_AUTH_TOKEN_FILE names, which other users of the machine cannot see.
    #[arg(long, value_name = "SECRET")]
    worker_token: Option<String>,
    /// Trust servers with a certificate of this authority (PEM). Without it WORKER_GRPC_TLS_CA_CERT's, then --ca's, then those that the system trusts.
    #[arg(long, value_name = "FILE")]
    grpc_tls_ca: Option<PathBuf>,
    /// The worker's certificate chain (PEM), for servers that ask for one (mTLS). Without it WORKER_GRPC_TLS_CERT's.
    #[arg(long, value_name = "FILE", requires = "grpc_tls_key")]
    grpc_tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM). Without it WORKER_GRPC_TLS_KEY's.
    #[arg(long, value_name = "FILE", requires = "grpc_tls_cert")]
    grpc_tls_key: Option<PathBuf>,
    /// Activities running at once.
    #[arg(long, value_name = "N")]
    max_concurrent_tasks: Option<usize>,
    /// Hosts that the activity `http` may ask: names, `*.example.com`, or `loopback`, with commas between.
    #[arg(long, value_name = "HOSTS", env = "DURABLE_HTTP_ACTIVITY_HOSTS")]
    http_activity_hosts: Option<HostAllowList>,
    /// How long a stop may take: running activities get most of it to finish, the rest is for giving leases back.
    #[arg(
        long,
        value_name = "TIME",
        env = "DURABLE_GRACE",
        default_value = "30s"
    )]
    grace: Period,
    /// What is logged to standard error, in the language of `RUST_LOG`: `info`, `debug`, `warn,everruns_durable=debug`.
    #[arg(long, value_name = "TEXT", env = "RUST_LOG", default_value = "info")]
    log: String,
    /// How log lines look: text or json.
    #[arg(
        long,
        value_name = "FORMAT",
        env = "DURABLE_LOG_FORMAT",
        default_value = "text"
    )]
    log_format: LogFormat,
}

impl Hosting {
    /// Whether a flag asks for hosting. What may come from the environment says nothing about that.
    pub(crate) const fn is_given(&self) -> bool {
        self.connect.is_some()
            || self.worker_token.is_some()
            || self.grpc_tls_ca.is_some()
            || self.grpc_tls_cert.is_some()
            || self.grpc_tls_key.is_some()
            || self.max_concurrent_tasks.is_some()
    }
}

/// Hosts until a signal, then drains. `ca` is the authority that all commands were told to trust.
pub(crate) async fn run(options: Hosting, ca: Option<&Path>) -> Result<()> {
    let Some(server) = &options.connect else {
        return Err(Failure::usage("for which server?").hint("--connect http://127.0.0.1:7401"));
    };
    logging::start_with(&options.log, &"--log or RUST_LOG", options.log_format)?;
    // Before the server is asked: a signal meanwhile stops the worker as soon as it is up, a second one at once.
    let stop = signals::stop();
    let worker = Worker::connect(options.connection(server, ca)?)
        .configure(|settings| settings.shutdown_grace = options.grace.0 * 2 / 3);
    let http_hosts = options.http_activity_hosts.unwrap_or_default();
    let mut worker = durable_program::register(worker, BuiltIns { http_hosts });
    if let Some(max) = options.max_concurrent_tasks {
        worker = worker.max_concurrent_tasks(max);
    }
    let worker = worker.start().await.map_err(refused)?;
    info!(worker_id = worker.worker_id(), server, "working");
    announce(&format!("{} works for {server}", worker.worker_id()));
    stop.cancelled().await;
    info!(grace = %options.grace, "draining");
    Ok(worker.shutdown().await?)
}

/// What to do about a token that is not let in.
fn refused(error: everruns_durable::Error) -> Failure {
    let denied = error.is_denied();
    let failure = Failure::from(error);
    if denied {
        return failure.hint("give a worker's token by --worker-token or WORKER_GRPC_AUTH_TOKEN; `durable token create --role worker` makes one");
    }
    failure
}

impl Hosting {
    /// What the flags say; the library asks the environment for the rest.
    fn connection(&self, server: &str, ca: Option<&Path>) -> Result<Connect> {
        let mut connect = Connect::to(server);
        if let Some(token) = &self.worker_token {
            connect = connect.token(token);
        }
        let in_environment =
            std::env::var("WORKER_GRPC_TLS_CA_CERT").is_ok_and(|path| !path.is_empty());
        if let Some(path) = &self.grpc_tls_ca {
            connect = connect.ca_certificate(read("--grpc-tls-ca", path)?);
        } else if let Some(path) = ca.filter(|_| !in_environment) {
            connect = connect.ca_certificate(read("--ca", path)?);
        }
        if let (Some(certificate), Some(key)) = (&self.grpc_tls_cert, &self.grpc_tls_key) {
            connect = connect.identity(Identity {
                certificate: read("--grpc-tls-cert", certificate)?,
                key: read("--grpc-tls-key", key)?,
            });
        }
        Ok(connect)
    }
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Failure::usage(format!(
            "{flag}: {} cannot be read: {error}",
            path.display()
        ))
    })
}
