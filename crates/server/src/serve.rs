//! The process: opens the store, starts the engine, opens the doors, and in the end closes them in an order that loses nothing.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use durable_program::BuiltIns;
use everruns_durable::Engine;
use everruns_durable::engine::{DetailRetention, EngineBuilder, Settings};
use everruns_durable::persistence::{self, OpenOptions, Shards};
use everruns_durable::reliability::AdmissionSettings;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::app::{App, AppSettings};
use crate::config::Config;
use crate::entry::{self, EntryError};
use crate::listen::{Door, Limits, Protocol};
use crate::measures::{MeasuredStore, Measures};
use crate::ready::{Endpoints, ReadyFile};
use crate::tls::{self, TlsError};
use crate::{grpc, http, open_files};

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No door may be opened.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The store or the engine's settings.
    #[error(transparent)]
    Engine(#[from] everruns_durable::Error),
    /// An address that cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; is another server running? `--http` and `--grpc` take other addresses, port 0 a free one"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The ready file cannot be written.
    #[error("the ready file {} cannot be written: {source}", path.display())]
    Ready {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// A server that serves. Dropped, it stops as a crash would; [`Server::run`] ends politely.
pub struct Server {
    engine: Engine,
    app: App,
    endpoints: Endpoints,
    doors: TaskTracker,
    /// Lets requests under way finish.
    close: CancellationToken,
    /// Ends them.
    cut: DropGuard,
    grace: Duration,
    _ready: Option<ReadyFile>,
}

impl Server {
    /// Opens the store and the doors. When this answers, both are open and the ready file is written.
    ///
    /// # Errors
    /// Whatever keeps it from serving; nothing is left behind then.
    pub async fn start(config: &Config) -> Result<Self, ServeError> {
        open_files::raise();
        // What is cheap to refuse is refused before the store is touched.
        let access = entry::access(config)?;
        let http_tls = tls(
            &config.http_tls_cert,
            &config.http_tls_key,
            &config.http_tls_ca,
        )?;
        let grpc_tls = tls(
            &config.grpc_tls_cert,
            &config.grpc_tls_key,
            &config.grpc_tls_ca,
        )?;
        if let Some(path) = config.ready_file.get() {
            ReadyFile::clear(path).map_err(|source| unwritable(path, source))?;
        }
        let limits = Limits {
            connections_max: usize::try_from(*config.max_connections).unwrap_or(usize::MAX),
            header_timeout: config.header_timeout.0,
        };
        let bind = async |address: SocketAddr, tls: Option<TlsAcceptor>, protocol| {
            let refused = |source| ServeError::Listen { address, source };
            let door = Door::bind(address, tls, protocol, limits)
                .await
                .map_err(refused)?;
            let url = door.url().map_err(refused)?;
            Ok::<_, ServeError>((door, url))
        };
        let (http_door, http_url) = bind(*config.http, http_tls, Protocol::Http).await?;
        let (grpc_door, grpc_url) = bind(*config.grpc, grpc_tls, Protocol::Grpc).await?;

        let settings = AppSettings::default();
        let engine = engine(config, &settings.measures).await?.start().await?;
        let app = App::new(engine.client(), access, settings);
        let (doors, close, cut) = (
            TaskTracker::new(),
            CancellationToken::new(),
            CancellationToken::new(),
        );
        doors.spawn(http_door.serve(http::router(app.clone()), close.clone(), cut.clone()));
        doors.spawn(grpc_door.serve(grpc::routes(app.clone()), close.clone(), cut.clone()));
        let endpoints = Endpoints {
            http: http_url,
            grpc: grpc_url,
            pid: std::process::id(),
        };
        let ready = match config.ready_file.get() {
            None => None,
            Some(path) => {
                let written = ReadyFile::write(path, &endpoints);
                Some(written.map_err(|source| unwritable(path, source))?)
            }
        };
        info!(
            http = endpoints.http,
            grpc = endpoints.grpc,
            worker_id = engine.worker_id(),
            "serving"
        );
        Ok(Self {
            engine,
            app,
            endpoints,
            doors,
            close,
            cut: cut.drop_guard(),
            grace: config.grace.0,
            _ready: ready,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// What the doors open onto.
    #[must_use]
    pub const fn app(&self) -> &App {
        &self.app
    }

    /// Serves until `stop`, then drains: it is not ready any more and streams are told to go elsewhere; running activities finish or
    /// are given back; requests under way are answered. All within the grace time: what is not done by then is left as a crash would
    /// leave it, which loses nothing.
    ///
    /// # Errors
    /// Where the store did not take the engine's farewell; the server has stopped all the same.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ServeError> {
        stop.cancelled().await;
        info!(grace = ?self.grace, "draining");
        self.app.draining().cancel();
        let Self {
            engine,
            doors,
            close,
            cut,
            grace,
            ..
        } = self;
        // The doors stay open while the engine drains: whoever asks is told that this server is not ready.
        let drain = async {
            let farewell = engine.shutdown().await;
            close.cancel();
            doors.close();
            doors.wait().await;
            farewell
        };
        let drained = tokio::time::timeout(grace, drain).await;
        drop(cut);
        match drained {
            Ok(farewell) => Ok(farewell?),
            Err(_) => {
                warn!(
                    "the grace time is over; what was under way is found by others when its leases run out"
                );
                Ok(())
            }
        }
    }
}

/// Starts a server and serves until `stop`.
///
/// # Errors
/// Those of [`Server::start`] and [`Server::run`].
pub async fn run(config: &Config, stop: CancellationToken) -> Result<(), ServeError> {
    Server::start(config).await?.run(stop).await
}

/// The engine of this process: its chores always, `durable.program` where it was asked for.
async fn engine(config: &Config, measures: &Arc<Measures>) -> Result<EngineBuilder, ServeError> {
    let options = OpenOptions {
        shards: Shards::new(u16::try_from(*config.shards).unwrap_or(u16::MAX)),
        migrate: *config.migrate,
        ..OpenOptions::default()
    };
    let store = persistence::open(config.db.expose(), options).await;
    let store = store.map_err(everruns_durable::Error::from)?;
    let store = MeasuredStore::new(store, Arc::clone(measures));
    let builder = Engine::on(Arc::new(store)).configure(|settings| configure(settings, config));
    if !*config.embedded_worker {
        return Ok(builder);
    }
    let http_hosts = config.http_activity_hosts.get().clone();
    Ok(durable_program::register(builder, BuiltIns { http_hosts }))
}

fn configure(settings: &mut Settings, config: &Config) {
    // Two thirds for what runs; the farewell after it takes at most as long again and at most ten seconds.
    settings.shutdown_grace = config.grace.0 * 2 / 3;
    settings.chores.retention = config.retention.map(|period| period.0);
    settings.chores.details = DetailRetention {
        history: config.history_retention.map(|period| period.0),
        signals: config.signal_retention.map(|period| period.0),
        step_logs: config.log_retention.map(|period| period.0),
        outbox: config.outbox_retention.map(|period| period.0),
        dead_letters: config.dead_letter_retention.map(|period| period.0),
        once_results: config.once_retention.map(|period| period.0),
        workers: config.worker_retention.map(|period| period.0),
        totals: config.totals_retention.map(|period| period.0),
    };
    settings.admission = config.max_queue_ratio.map(|ratio| AdmissionSettings {
        max_queue_ratio: f64::from(ratio),
        configured_capacity: (*config.assumed_capacity).into(),
        retry_after: config.overload_retry_after.0,
    });
}

fn tls(
    cert: &Option<PathBuf>,
    key: &Option<PathBuf>,
    client_ca: &Option<PathBuf>,
) -> Result<Option<TlsAcceptor>, TlsError> {
    // That they go together was checked with the configuration.
    let (Some(cert), Some(key)) = (cert.as_deref(), key.as_deref()) else {
        return Ok(None);
    };
    tls::acceptor(cert, key, client_ca.as_deref()).map(Some)
}

fn unwritable(path: &Path, source: std::io::Error) -> ServeError {
    ServeError::Ready {
        path: path.to_owned(),
        source,
    }
}
