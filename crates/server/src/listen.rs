//! A door: accepts connections and hands their requests on, within limits.
//!
//! `axum::serve` installs no timer, so that a client that sends nothing would hold its connection for ever. Here every stretch before a
//! request has its time: the TLS handshake, the first request, and each further request's headers. A
//! connection without a request, or with an answer that its client does not read, is closed after a
//! while; one address takes at most half of the places.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use crate::activity::Activity;

/// Streams of one HTTP/2 connection at once.
const STREAMS_MAX: u32 = 1_000;
/// Bytes of a request's headers.
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// How often a silent HTTP/2 connection is asked whether somebody is there, and how long an answer may take.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long a connection may be without a request; one of HTTP/2 that answers pings would stay for ever.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// How long a client may leave an answer unread.
const UNREAD_MAX: Duration = Duration::from_secs(60);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(15);
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
        let peers = Peers::new(self.limits.connections_max);
        let connections = TaskTracker::new();
        loop {
            // Whoever comes when all places are taken waits unaccepted, in the system's queue.
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&self.tcp, &permits) => accepted,
            };
            let (stream, peer, permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(place) = peers.admit(peer.ip()) else {
                debug!(%peer, "a connection is refused: its address has as many as it may");
                continue;
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
                drop((permit, place));
            });
        }
        drop(self.tcp);
        connections.close();
        connections.wait().await;
    }
}

/// How many connections each address has.
#[derive(Clone)]
struct Peers {
    each_max: usize,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Peers {
    /// Half of the places, so that one address never takes them all.
    fn new(connections_max: usize) -> Self {
        Self {
            each_max: connections_max.div_ceil(2),
            counts: Arc::default(),
        }
    }

    /// A place for one more connection, until it is dropped. None: the address has enough.
    fn admit(&self, address: IpAddr) -> Option<PeerPlace> {
        let mut counts = self.counts.lock();
        let count = counts.entry(address).or_default();
        if *count >= self.each_max {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(PeerPlace {
            peers: self.clone(),
            address,
        })
    }
}

struct PeerPlace {
    peers: Peers,
    address: IpAddr,
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let mut counts = self.peers.counts.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// A place first, then somebody to take it.
async fn accept(
    tcp: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, peer) = tcp.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, permit))
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
        let activity = Activity::new();
        let requests = Arc::clone(&activity);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            noted.store(true, Ordering::Relaxed);
            let begun = requests.begin();
            let answer = router.clone().oneshot(request);
            async move { answer.await.map(|response| begun.answered(response)) }
        });
        let builder = builder(self.protocol, self.header_timeout);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let first_request = tokio::time::sleep(self.header_timeout);
        tokio::pin!(first_request);
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
                _ = look.tick() => {
                    if let Some(lapse) = activity.lapse(IDLE_MAX, UNREAD_MAX) {
                        debug!(?lapse, "a connection is closed: it only holds its place");
                        return;
                    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_takes_at_most_half_of_the_places() {
        let peers = Peers::new(5);
        let [one, other]: [IpAddr; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(Into::into);
        let mut places: Vec<PeerPlace> = (0..3).filter_map(|_| peers.admit(one)).collect();
        assert_eq!(places.len(), 3);
        assert!(peers.admit(one).is_none());
        assert!(peers.admit(other).is_some());
        places.pop();
        assert!(peers.admit(one).is_some());
        drop(places);
        assert!(peers.counts.lock().is_empty());
    }
}
