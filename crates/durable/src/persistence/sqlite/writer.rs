//! The one writer: a thread that groups whatever waits into one transaction.
//!
//! While a group is written and synced, the next one gathers. A write that fails is rolled back alone; the others of
//! its group are committed together, and all are answered after the commit. At low load a write costs one sync, at
//! high load one sync carries hundreds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use super::job::{Job, Work, unavailable};
use super::sql::transaction as sql;
use crate::persistence::{StoreError, StoreResult};

/// Most writes in one transaction: bounds how long the first of them waits for its answer.
const GROUP_JOBS_MAX: usize = 256;
/// Rows after which no more writes join a transaction. One that takes longer than a sync, such as a large set of turns, gains nothing by company,
/// and what joins it has its pages copied (see `write_alone`).
const GROUP_ROWS_MAX: u64 = 128;
/// Writes that may wait; callers past it wait for a place.
const QUEUE_JOBS_MAX: usize = 1024;

/// How long the thread stays awake for the next write, letting others have the processor: what was just answered often leads to one. To wake
/// a thread takes a quarter of what a commit does.
const LINGER: Duration = Duration::from_micros(100);

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
    /// The first job of the next group; none: there will be no more.
    fn next(&mut self) -> Option<Box<dyn Job>> {
        let began = Instant::now();
        loop {
            match self.jobs.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if began.elapsed() < LINGER => std::thread::yield_now(),
                Err(TryRecvError::Empty) => return self.jobs.blocking_recv(),
            }
        }
    }

    fn run(&mut self) {
        while let Some(first) = self.next() {
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
        let (before, mut done, mut any_kept) = (self.conn.total_changes(), 0, false);
        while let Some(job) = group.get_mut(done) {
            any_kept |= if any_kept {
                self.write_beside(job.as_mut())?
            } else {
                self.write_alone(job.as_mut())?
            };
            done += 1;
            let rows = self.conn.total_changes().saturating_sub(before);
            if done == group.len() && done < GROUP_JOBS_MAX && rows < GROUP_ROWS_MAX {
                group.extend(self.jobs.try_recv());
            }
        }
        self.execute(sql::COMMIT)?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Runs a job while the transaction holds nothing else: when it fails, the transaction begins anew. A savepoint would have SQLite copy
    /// every page before it is changed, which a group of one, or the first and largest part of one, does not have to pay. Answers whether
    /// the job is kept; an error means that the whole transaction is lost.
    fn write_alone(&mut self, job: &mut dyn Job) -> StoreResult<bool> {
        let kept = self.run_one(job)?;
        if !kept {
            self.execute(sql::ROLLBACK)?;
            self.execute(sql::BEGIN_WRITE)?;
        }
        Ok(kept)
    }

    /// Runs a job so that it fails alone, and those before it are kept. Answers as [`WriterThread::write_alone`].
    fn write_beside(&mut self, job: &mut dyn Job) -> StoreResult<bool> {
        self.execute(sql::SAVEPOINT)?;
        let kept = self.run_one(job)?;
        if !kept {
            self.execute(sql::ROLLBACK_TO)?;
        }
        self.execute(sql::RELEASE)?;
        Ok(kept)
    }

    fn run_one(&mut self, job: &mut dyn Job) -> StoreResult<bool> {
        let kept = catch_unwind(AssertUnwindSafe(|| job.run(&mut self.conn))).unwrap_or(false);
        if self.conn.is_autocommit() {
            // A full disk or an I/O error makes SQLite roll everything back by itself.
            return Err(unavailable("SQLite rolled the transaction back"));
        }
        Ok(kept)
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
    async fn a_write_that_fails_takes_no_other_of_its_group_with_it() {
        let writer = writer();
        let fails = |conn: &mut Connection| -> StoreResult<()> {
            insert(9, None)(conn)?;
            Err(unavailable("by design"))
        };
        // All are queued before the writer's thread gets past the first.
        let (stay, go) = std::sync::mpsc::channel::<()>();
        let first = writer.write(move |conn: &mut Connection| {
            go.recv().unwrap();
            fails(conn)
        });
        let (second, third) = (writer.write(insert(1, None)), writer.write(fails));
        let fourth = writer.write(insert(2, None));
        let open = async { stay.send(()).unwrap() };
        let (first, second, third, fourth, ()) = tokio::join!(first, second, third, fourth, open);
        assert!(first.is_err() && third.is_err());
        assert!(second.is_ok() && fourth.is_ok());
        assert_eq!(writer.commits(), 1);
        assert_eq!(ids(&writer).await, [1, 2]);
    }

    #[tokio::test]
    async fn a_large_write_is_committed_without_company() {
        let writer = writer();
        let (stay, go) = std::sync::mpsc::channel::<()>();
        let many = i64::try_from(GROUP_ROWS_MAX).unwrap();
        let large = writer.write(move |conn: &mut Connection| {
            go.recv().unwrap();
            (1..=many).try_for_each(|id| insert(id, None)(conn))
        });
        let small = writer.write(insert(0, None));
        let open = async { stay.send(()).unwrap() };
        let (large, small, ()) = tokio::join!(large, small, open);
        large.unwrap();
        small.unwrap();
        assert_eq!(writer.commits(), 2);
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
