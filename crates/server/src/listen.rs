//! A door: accepts connections and hands their requests on, within limits.
//!
//! `axum::serve` installs no timer, so that a client that sends nothing would hold its connection for ever. Here every stretch before a
//! request has its time: the TLS handshake, the first request, and each further request's headers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::{debug, warn};

/// Streams of one HTTP/2 connection at once.
const STREAMS_MAX: u32 = 1_000;
/// Bytes of a request's headers.
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// How often a silent HTTP/2 connection is asked whether somebody is there, and how long an answer may take.
const PING_EVERY: Duration = Duration::from_secs(20);
/// Pause after a failed accept, such as for want of file descriptors: trying at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a door speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 and HTTP/2.
    Http,
    /// HTTP/2 only.
    Grpc,
}

/// What a door allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at once.
    pub(crate) connections_max: usize,
    /// How long a handshake, and again the headers, may take.
    pub(crate) header_timeout: Duration,
}

/// A door that listens.
pub(crate) struct Door {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    protocol: Protocol,
    limits: Limits,
}

impl Door {
    /// Takes the address; nobody is let in before [`Door::serve`].
    pub(crate) async fn bind(
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        protocol: Protocol,
        limits: Limits,
    ) -> io::Result<Self> {
        let tcp = TcpListener::bind(address).await?;
        Ok(Self {
            tcp,
            tls,
            protocol,
            limits,
        })
    }

    /// Where it listens, as a URL. A wildcard address is given as the loopback one, which can be called.
    pub(crate) fn url(&self) -> io::Result<String> {
        let mut address = self.tcp.local_addr()?;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                std::net::Ipv4Addr::LOCALHOST.into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{address}"))
    }

    /// Serves until `stop`; then lets requests under way finish until `cut`, which ends them.
    pub(crate) async fn serve(
        self,
        router: Router,
        stop: CancellationToken,
        cut: CancellationToken,
    ) {
        let permits = Arc::new(Semaphore::new(self.limits.connections_max));
        let connections = TaskTracker::new();
        loop {
            // Whoever comes when all places are taken waits unaccepted, in the system's queue.
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&self.tcp, &permits) => accepted,
            };
            let (stream, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let connection = Connection {
                router: router.clone(),
                tls: self.tls.clone(),
                protocol: self.protocol,
                header_timeout: self.limits.header_timeout,
                stop: stop.clone(),
            };
            let cut = cut.clone();
            connections.spawn(async move {
                tokio::select! {
                    biased;
                    () = cut.cancelled() => {}
                    () = connection.serve(stream) => {}
                }
                drop(permit);
            });
        }
        drop(self.tcp);
        connections.close();
        connections.wait().await;
    }
}

/// A place first, then somebody to take it.
async fn accept(
    tcp: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = tcp.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, permit))
}

/// What one connection needs.
struct Connection {
    router: Router,
    tls: Option<TlsAcceptor>,
    protocol: Protocol,
    header_timeout: Duration,
    stop: CancellationToken,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        let Some(acceptor) = self.tls.clone() else {
            return self.talk(stream).await;
        };
        match tokio::time::timeout(self.header_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.talk(stream).await,
            Ok(Err(error)) => debug!(%error, "a TLS handshake failed"),
            Err(_) => debug!("a TLS handshake took too long"),
        }
    }

    async fn talk(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let asked = Arc::new(AtomicBool::new(false));
        let (router, noted) = (self.router, Arc::clone(&asked));
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            noted.store(true, Ordering::Relaxed);
            router.clone().oneshot(request)
        });
        let builder = builder(self.protocol, self.header_timeout);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let first_request = tokio::time::sleep(self.header_timeout);
        tokio::pin!(first_request);
        let (mut waits, mut stopping) = (true, false);
        // Cancel safety: `connection` is pinned outside and goes on where it was.
        loop {
            tokio::select! {
                biased;
                done = connection.as_mut() => {
                    if let Err(error) = done {
                        debug!(error, "a connection ended");
                    }
                    return;
                }
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = &mut first_request, if waits => {
                    waits = false;
                    if !asked.load(Ordering::Relaxed) {
                        debug!("a connection asked for nothing in time");
                        return;
                    }
                }
            }
        }
    }
}

fn builder(protocol: Protocol, header_timeout: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(HEADER_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_EVERY)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX);
    match protocol {
        Protocol::Http => builder,
        Protocol::Grpc => builder.http2_only(),
    }
}
