//! The doorbell through a server: one stream for all who listen in this process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use durable_proto::v1::StoreRing;
use futures_util::stream;
use tokio::task::JoinHandle;
use tonic::Status;

use super::line::Line;
use super::wire::{read_ring, write_ring};
use crate::persistence::backoff::Backoff;
use crate::persistence::trays::{Tray, Trays};
use crate::persistence::{Bell, Ring};

/// A store's bell, once somebody asked for it.
#[derive(Default)]
pub(super) struct Belfry {
    hung: OnceLock<Hung>,
}

/// A bell and the task behind it, which ends with the store.
struct Hung {
    bell: Arc<RemoteBell>,
    task: JoinHandle<()>,
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Belfry {
    /// One more listener; the first call hangs the bell up. To be called within a tokio runtime.
    pub(super) fn bell(&self, line: &Line) -> Arc<dyn Bell> {
        let hung = self.hung.get_or_init(|| {
            let bell = Arc::<RemoteBell>::default();
            let task = tokio::spawn(keep_ringing(Arc::clone(&bell), line.clone()));
            Hung { bell, task }
        });
        Arc::new(Place::at(&hung.bell))
    }
}

#[derive(Default)]
struct RemoteBell {
    outgoing: Arc<Tray>,
    /// Of all who listen in this process.
    incoming: Trays,
    connected: AtomicBool,
}

/// Rings and listens, and comes back when the connection is lost.
async fn keep_ringing(bell: Arc<RemoteBell>, line: Line) {
    let mut backoff = Backoff::new();
    loop {
        let trouble = attend(&bell, &line).await;
        if bell.connected.swap(false, Ordering::SeqCst) {
            backoff.reset();
            tracing::info!(%trouble, "the server's bell is out of reach; work is looked for by polling until it is back");
        } else {
            tracing::debug!(%trouble, "the server's bell cannot be reached; trying again");
        }
        backoff.pause().await;
    }
}

/// One stream's life.
async fn attend(bell: &RemoteBell, line: &Line) -> Status {
    let outgoing = Arc::clone(&bell.outgoing);
    // What is taken and not sent when the stream ends is lost, as any ring may be.
    let rings = stream::unfold(outgoing, |outgoing| async {
        loop {
            let ring = outgoing.take().await;
            if let Ok(body) = write_ring(&ring) {
                let body = body.into();
                return Some((StoreRing { body }, outgoing));
            }
        }
    });
    let mut heard = match line.ring(rings).await {
        Ok(heard) => heard,
        Err(status) => return status,
    };
    loop {
        let ring = match heard.message().await {
            Ok(Some(ring)) => ring,
            Ok(None) => return Status::unavailable("the server ended the stream"),
            Err(status) => return status,
        };
        // The first one means everything: whatever was rung before was missed.
        bell.connected.store(true, Ordering::SeqCst);
        let ring = read_ring(&ring.body).unwrap_or_else(|_| Ring::everything());
        bell.incoming.put(&ring);
    }
}

/// One listener's place at the bell. Those of one process hear each other without the detour by the server.
struct Place {
    bell: Arc<RemoteBell>,
    tray: Arc<Tray>,
}

impl Place {
    fn at(bell: &Arc<RemoteBell>) -> Self {
        let tray = bell.incoming.add();
        // Looked at after the tray is there: should the bell begin to hear right now, it is told twice and not never.
        if bell.connected.load(Ordering::SeqCst) {
            tray.put(Ring::everything());
        }
        let bell = Arc::clone(bell);
        Self { bell, tray }
    }
}

#[async_trait]
impl Bell for Place {
    fn ring(&self, ring: Ring) {
        self.bell.incoming.put_from(&self.tray, &ring);
        self.bell.outgoing.put(ring);
    }

    async fn listen(&self) -> Ring {
        self.tray.take().await
    }

    fn is_connected(&self) -> bool {
        self.bell.connected.load(Ordering::SeqCst)
    }
}
