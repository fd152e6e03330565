//! Read-only connections beside the writer. Each read sees one snapshot, and every write that was answered before it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::connect;
use super::job::unavailable;
use super::sql::transaction as sql;
use crate::persistence::{StoreError, StoreResult};

/// Reads of the engine at once; more wait. The machine's cores are shared with the writer and the
/// application.
pub(super) const ENGINE_READS_MAX: usize = 4;
/// Operators' reads at once; more wait, for no longer than one of them may take.
pub(super) const OPERATORS_READS_MAX: usize = 2;
/// Steps of SQLite's machine between two looks at the time: some hundred microseconds.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// A small pool of readers, opened when needed.
pub(super) struct Readers {
    path: PathBuf,
    /// Held only to take a connection or give it back, never across a read.
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
    /// Longest that one read may take, and wait for its place; none: as long as it needs.
    limit: Option<Duration>,
}

/// Stops a read whose caller has gone.
struct Caller(Arc<AtomicBool>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Readers {
    pub(super) fn new(path: PathBuf, most: usize, limit: Option<Duration>) -> Self {
        Self {
            path,
            idle: Mutex::new(Vec::new()),
            places: Arc::new(Semaphore::new(most)),
            limit,
        }
    }

    /// Reads on a thread where blocking is allowed.
    pub(super) async fn read<A: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> StoreResult<A> + Send + 'static,
    ) -> StoreResult<A> {
        let place = Arc::clone(&self.places).acquire_owned();
        let place = match self.limit {
            Some(limit) => tokio::time::timeout(limit, place).await.map_err(|_| {
                unavailable("as many lists and counts as the store allows at once are under way")
            })?,
            None => place.await,
        };
        let place = place.map_err(|_| unavailable("the readers are closed"))?;
        let readers = Arc::clone(self);
        let gone = Arc::new(AtomicBool::new(false));
        let _caller = Caller(Arc::clone(&gone));
        let task = tokio::task::spawn_blocking(move || {
            let _place = place;
            readers.read_now(&gone, read)
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

    fn read_now<A>(
        &self,
        gone: &Arc<AtomicBool>,
        read: impl FnOnce(&Connection) -> StoreResult<A>,
    ) -> StoreResult<A> {
        let idle = self.idle.lock().pop();
        let mut conn = match idle {
            Some(conn) => conn,
            None => self.open()?,
        };
        conn.prepare_cached(sql::BEGIN_READ)?.execute([])?;
        let Some(limit) = self.limit else {
            let answer = read(&conn);
            conn.prepare_cached(sql::COMMIT)?.execute([])?;
            self.idle.lock().push(conn);
            return answer;
        };
        let (until, abandoned) = (Instant::now().checked_add(limit), Arc::clone(gone));
        let is_over = move || {
            abandoned.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until)
        };
        conn.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over.clone()))?;
        let answer = read(&conn);
        conn.progress_handler(0, None::<fn() -> bool>)?;
        conn.prepare_cached(sql::COMMIT)?.execute([])?;
        self.idle.lock().push(conn);
        // An interrupted statement is unavailable to the rest of the store; here the reason is
        // known.
        match answer {
            Err(StoreError::Unavailable { .. }) if is_over() => Err(StoreError::TooBroad {
                limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            }),
            answer => answer,
        }
    }

    fn open(&self) -> StoreResult<Connection> {
        let conn = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connect::set_up_reader(&conn)?;
        Ok(conn)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Never ends by itself.
    const ENDLESS: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

    fn readers(folder: &tempfile::TempDir, limit: Duration) -> Arc<Readers> {
        let path = folder.path().join("app.db");
        let writer = connect::open_writer(&path).unwrap();
        writer.execute_batch("CREATE TABLE t (i)").unwrap();
        Arc::new(Readers::new(path, 1, Some(limit)))
    }

    fn endless(conn: &Connection) -> StoreResult<i64> {
        Ok(conn.query_row(ENDLESS, [], |row| row.get(0))?)
    }

    #[tokio::test]
    async fn a_read_over_its_time_limit_is_too_broad_and_its_connection_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let readers = readers(&folder, Duration::from_millis(20));
        for _ in 0..2 {
            let over = readers.read(endless).await;
            assert!(
                matches!(over, Err(StoreError::TooBroad { limit_ms: 20 })),
                "{over:?}"
            );
        }
        assert_eq!(readers.idle.lock().len(), 1);
        readers.read(|_| Ok(())).await.unwrap();
    }

    #[tokio::test]
    async fn an_abandoned_read_stops_and_gives_its_place_back() {
        let folder = tempfile::tempdir().unwrap();
        let readers = readers(&folder, Duration::from_secs(3600));
        let (begun, has_begun) = mpsc::channel();
        let reading = tokio::spawn({
            let readers = Arc::clone(&readers);
            async move {
                readers
                    .read(move |conn| {
                        let _ = begun.send(());
                        endless(conn)
                    })
                    .await
            }
        });
        tokio::task::spawn_blocking(move || has_begun.recv().unwrap())
            .await
            .unwrap();
        reading.abort();
        readers.read(|_| Ok(())).await.unwrap();
    }
}
