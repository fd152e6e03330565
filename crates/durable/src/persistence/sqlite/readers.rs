//! Read-only connections beside the writer. Each read sees one snapshot, and every write that was answered before it.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::connect;
use super::job::unavailable;
use super::sql::transaction as sql;
use crate::persistence::StoreResult;

/// Reads at once; more wait. The machine's cores are shared with the writer and the application.
const READERS_MAX: usize = 4;

/// A small pool of readers, opened when needed.
pub(super) struct Readers {
    path: PathBuf,
    /// Held only to take a connection or give it back, never across a read.
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            idle: Mutex::new(Vec::new()),
            places: Arc::new(Semaphore::new(READERS_MAX)),
        }
    }

    /// Reads on a thread where blocking is allowed.
    pub(super) async fn read<A: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> StoreResult<A> + Send + 'static,
    ) -> StoreResult<A> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| unavailable("the readers are closed"))?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let _place = place;
            readers.read_now(read)
        });
        match task.await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(unavailable("the runtime is shutting down")),
        }
    }

    /// Closes the connections that nobody uses.
    pub(super) fn close(&self) {
        self.idle.lock().clear();
    }

    fn read_now<A>(&self, read: impl FnOnce(&Connection) -> StoreResult<A>) -> StoreResult<A> {
        let idle = self.idle.lock().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.open()?,
        };
        conn.prepare_cached(sql::BEGIN_READ)?.execute([])?;
        let answer = read(&conn);
        conn.prepare_cached(sql::COMMIT)?.execute([])?;
        self.idle.lock().push(conn);
        answer
    }

    fn open(&self) -> StoreResult<Connection> {
        let conn = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connect::set_up_reader(&conn)?;
        Ok(conn)
    }
}
