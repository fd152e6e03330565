//! The doorbell over `LISTEN` and `NOTIFY`: two connections outside the pools, one that listens and one that rings.

mod line;
mod listener;
mod payload;
mod sender;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use uuid::Uuid;

use self::line::Line;
use super::options::{PostgresOptions, Route};
use super::schema::Schema;
use crate::persistence::trays::{Tray, Trays};
use crate::persistence::{Bell, Ring};

/// A ring as a notification, channel and payload: for one that somebody else's transaction sends when it commits. No listener takes it for
/// its own.
pub(super) fn notification(schema: &Schema, ring: Ring) -> (String, String) {
    (line::channel(schema), payload::encode(Uuid::nil(), ring))
}

/// What a store needs to hang its bell, and the bell once somebody asked for it.
pub(super) struct Belfry {
    /// None: there is only a transaction pooler, through which nobody can listen.
    line: Option<Line>,
    probe_every: Duration,
    runtime: Handle,
    hung: OnceLock<Hung>,
}

/// A bell and the tasks behind it, which end with the store.
struct Hung {
    bell: Arc<PgBell>,
    tasks: [JoinHandle<()>; 2],
}

impl Belfry {
    /// Connects to nothing yet. To be called within a runtime: the bell's tasks will run there.
    pub(super) fn new(direct: &Route, options: &PostgresOptions, schema: &Schema) -> Self {
        let reachable = !options.pooled || options.direct_url.is_some();
        Self {
            line: reachable.then(|| Line::new(direct.clone(), schema, &options.pools)),
            probe_every: options.bell_probe,
            runtime: Handle::current(),
            hung: OnceLock::new(),
        }
    }

    /// One more listener at the bell; the first call hangs it up.
    pub(super) fn bell(&self) -> Option<Arc<dyn Bell>> {
        let line = self.line.as_ref()?;
        let hung = self.hung.get_or_init(|| {
            let bell = Arc::new(PgBell::new());
            let listen = listener::keep_listening(bell.clone(), line.clone(), self.probe_every);
            let send = sender::keep_sending(bell.clone(), line.clone());
            let tasks = [self.runtime.spawn(listen), self.runtime.spawn(send)];
            Hung { bell, tasks }
        });
        Some(Arc::new(Place::at(&hung.bell)))
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// A store's doorbell.
struct PgBell {
    /// By which it knows its own rings.
    id: Uuid,
    outgoing: Tray,
    /// Of all who listen in this process.
    incoming: Trays,
    connected: AtomicBool,
}

impl PgBell {
    fn new() -> Self {
        Self {
            id: Uuid::now_v7(),
            outgoing: Tray::default(),
            incoming: Trays::default(),
            connected: AtomicBool::new(false),
        }
    }
}

/// One listener's place at the bell. Those of one process hear each other without the detour by the database.
struct Place {
    bell: Arc<PgBell>,
    tray: Arc<Tray>,
}

impl Place {
    fn at(bell: &Arc<PgBell>) -> Self {
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
