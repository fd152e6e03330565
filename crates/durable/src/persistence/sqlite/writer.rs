//! The one writer: a thread that groups whatever waits into one transaction.
//!
//! While a group is written and synced, the next one gathers. A write that fails is rolled back alone; the others of
//! its group are committed together, and all are answered after the commit. At low load a write costs one sync, at
//! high load one sync carries hundreds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::job::{Job, Work, unavailable};
use super::sql::transaction as sql;
use crate::persistence::{StoreError, StoreResult};

/// Most writes in one transaction: bounds how long the first of them waits for its answer.
const GROUP_JOBS_MAX: usize = 256;
/// Writes that may wait; callers past it wait for a place.
const QUEUE_JOBS_MAX: usize = 1024;

/// The handle to the writer thread. Dropping it finishes what is queued and joins the thread.
pub(super) struct Writer {
    /// Taken when the writer stops.
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    pub(super) fn start(conn: Connection) -> StoreResult<Self> {
        let (queue, jobs) = mpsc::channel(QUEUE_JOBS_MAX);
        let commits = Arc::new(AtomicU64::new(0));
        let mut worker = WriterThread {
            conn,
            jobs,
            commits: Arc::clone(&commits),
        };
        let thread = std::thread::Builder::new()
            .name("durable-sqlite".into())
            .spawn(move || worker.run())
            .map_err(|error| StoreError::Open {
                message: "the writer thread cannot be started".into(),
                source: Some(error.into()),
            })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
            commits,
        })
    }

    /// Does the work in one of the next transactions; answers after its commit.
    ///
    /// Cancel-safe in the sense that matters here: once queued, the work is done although nobody waits.
    pub(super) async fn write<A: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> StoreResult<A> + Send + 'static,
    ) -> StoreResult<A> {
        let (job, answer) = Work::with_caller(work);
        let gone = || unavailable("the writer thread is gone");
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Transactions committed so far.
    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // It never panics: jobs that do are caught.
            let _ = thread.join();
        }
    }
}

struct WriterThread {
    conn: Connection,
    jobs: mpsc::Receiver<Box<dyn Job>>,
    commits: Arc<AtomicU64>,
}

impl WriterThread {
    fn run(&mut self) {
        while let Some(first) = self.jobs.blocking_recv() {
            let mut group = vec![first];
            let lost = self.write_group(&mut group).err().map(|error| {
                self.abandon();
                format!("the transaction failed: {}", Chain(&error))
            });
            for job in group {
                job.answer(lost.as_deref());
            }
        }
    }

    /// Runs the group, which grows by what has been queued meanwhile, and commits it.
    fn write_group(&mut self, group: &mut Vec<Box<dyn Job>>) -> StoreResult<()> {
        self.execute(sql::BEGIN_WRITE)?;
        let mut done = 0;
        while let Some(job) = group.get_mut(done) {
            self.write_one(job.as_mut())?;
            done += 1;
            if done == group.len() && done < GROUP_JOBS_MAX {
                group.extend(self.jobs.try_recv());
            }
        }
        self.execute(sql::COMMIT)?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Runs one job so that it fails alone. An error means that the whole transaction is lost.
    fn write_one(&mut self, job: &mut dyn Job) -> StoreResult<()> {
        self.execute(sql::SAVEPOINT)?;
        let kept = catch_unwind(AssertUnwindSafe(|| job.run(&mut self.conn))).unwrap_or(false);
        if self.conn.is_autocommit() {
            // A full disk or an I/O error makes SQLite roll everything back by itself.
            return Err(unavailable("SQLite rolled the transaction back"));
        }
        if !kept {
            self.execute(sql::ROLLBACK_TO)?;
        }
        self.execute(sql::RELEASE)
    }

    fn abandon(&self) {
        if !self.conn.is_autocommit() {
            // Nothing can be done about an error here; the next BEGIN reports it.
            let _ = self.execute(sql::ROLLBACK);
        }
    }

    fn execute(&self, sql: &'static str) -> StoreResult<()> {
        self.conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

/// An error with its causes, in one line.
struct Chain<'a>(&'a StoreError);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = std::error::Error::source(self.0);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer on a table whose rows may name a row that is not there until the commit.
    fn writer() -> Writer {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(
            "PRAGMA foreign_keys = ON; CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB, \
             needs INTEGER REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
        Writer::start(conn).unwrap()
    }

    fn insert(id: i64, needs: Option<i64>) -> impl FnOnce(&mut Connection) -> StoreResult<()> {
        move |conn| {
            let row = (id, needs);
            conn.execute("INSERT INTO t (id, needs) VALUES (?, ?)", row)?;
            Ok(())
        }
    }

    async fn ids(writer: &Writer) -> Vec<i64> {
        let read = |conn: &mut Connection| {
            let mut all = conn.prepare("SELECT id FROM t ORDER BY id")?;
            let ids = all.query_map([], |row| row.get(0))?;
            Ok(ids.collect::<Result<_, _>>()?)
        };
        writer.write(read).await.unwrap()
    }

    #[tokio::test]
    async fn a_commit_that_fails_fails_its_whole_group_and_no_other() {
        let writer = writer();
        writer.write(insert(1, None)).await.unwrap();
        // All three are queued before the writer's thread gets to the second.
        let (stay, go) = std::sync::mpsc::channel::<()>();
        let first = writer.write(move |_| {
            go.recv().unwrap();
            Ok(())
        });
        let (second, third) = (
            writer.write(insert(2, None)),
            writer.write(insert(3, Some(99))),
        );
        let open = async { stay.send(()).unwrap() };
        let (first, second, third, ()) = tokio::join!(first, second, third, open);
        for answer in [first, second, third] {
            let error = answer.unwrap_err();
            assert!(error.is_outcome_unknown(), "{error}");
            assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
        }
        assert_eq!(ids(&writer).await, [1]);
        writer.write(insert(4, Some(1))).await.unwrap();
        assert_eq!(ids(&writer).await, [1, 4]);
    }

    #[tokio::test]
    async fn a_full_disk_fails_what_does_not_fit() {
        let writer = writer();
        let fill = |conn: &mut Connection| {
            conn.execute_batch("PRAGMA max_page_count = 16")?;
            conn.execute("INSERT INTO t (id, body) VALUES (7, zeroblob(1000000))", [])?;
            Ok(())
        };
        let error = writer.write(fill).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        writer.write(insert(1, None)).await.unwrap();
        assert_eq!(ids(&writer).await, [1]);
    }
}
