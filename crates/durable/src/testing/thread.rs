//! The thread on which a test's world lives, and how time passes there.
//!
//! tokio's paused time jumps to the next timer whenever nothing else is left to do. The world is let run only while the test waits for
//! something; in between the thread stands still, and with it everything in the world.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use super::gate::Gate;
use super::setup::Setup;
use super::watch::Watch;
use super::world::{SETTLING, World, settle};
use crate::{Error, Result};

/// How time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    /// Up to what is due next, while somebody waits for a result.
    ByItself,
    /// Only when the test says so.
    ByHand,
    /// So do commits.
    Pumped,
}

/// What the test asks of its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Is answered by the store, or lasts for as long as it says: time passes meanwhile.
    Call,
    /// Is answered when something has happened, if ever.
    Wait,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Job {
    ask: Ask,
    run: Box<dyn FnOnce(Arc<World>) -> Running + Send>,
}

/// A world's thread. It ends when this is dropped.
pub(super) struct Thread {
    jobs: mpsc::Sender<Job>,
}

impl Thread {
    /// # Panics
    /// When the engine does not start.
    pub(super) async fn start(setup: Setup, passing: Passing, patience: Duration) -> Self {
        let (jobs, received) = mpsc::channel();
        let (up, is_up) = oneshot::channel();
        let keeper = Keeper {
            jobs: received,
            passing,
            patience,
            open: Arc::default(),
        };
        std::thread::Builder::new()
            .name("test world".to_owned())
            .spawn(move || keeper.run(setup, up))
            .expect("a thread can be started");
        match is_up.await {
            Ok(Ok(())) => Self { jobs },
            Ok(Err(error)) => panic!("the engine does not start: {error}"),
            Err(_) => panic!("the test's world panicked"),
        }
    }

    /// Does something in the world. Dropping it gives it up.
    pub(super) async fn ask<T, F, Fut>(&self, ask: Ask, job: F) -> Result<T>
    where
        F: FnOnce(Arc<World>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let (mut answer, answered) = oneshot::channel();
        let run = Box::new(move |world| {
            Box::pin(async move {
                let done = tokio::select! {
                    biased;
                    () = answer.closed() => return,
                    done = job(world) => done,
                };
                // What follows from it has happened when the test goes on: it may look at calls of mocks without asking the world.
                settle().await;
                // Nobody waits for it any more: then nobody is told.
                let _ = answer.send(done);
            }) as Running
        });
        let gone = || Error::configuration("the test's world panicked; its message is above");
        self.jobs.send(Job { ask, run }).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// Jobs that are not done.
#[derive(Default)]
struct Open {
    calls: AtomicUsize,
    waits: AtomicUsize,
    ended: Notify,
}

impl Open {
    const fn of(&self, ask: Ask) -> &AtomicUsize {
        match ask {
            Ask::Call => &self.calls,
            Ask::Wait => &self.waits,
        }
    }

    fn are_there(&self, ask: Ask) -> bool {
        self.of(ask).load(Ordering::SeqCst) > 0
    }
}

/// Whoever lets the world run.
struct Keeper {
    jobs: mpsc::Receiver<Job>,
    passing: Passing,
    patience: Duration,
    open: Arc<Open>,
}

/// The test has no more wishes.
struct Over;

impl Keeper {
    fn run(self, setup: Setup, up: oneshot::Sender<Result<()>>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a tokio runtime can be made");
        runtime.block_on(async {
            let gate = match self.passing {
                Passing::Pumped => Gate::closed(),
                Passing::ByItself | Passing::ByHand => Gate::default(),
            };
            let watch = Watch::new(
                gate,
                setup.workflows.clone(),
                setup.activities.clone(),
                None,
            );
            let world = Arc::new(World::new(setup, watch));
            let started = world.resume().await;
            let failed = started.is_err();
            if up.send(started).is_err() || failed {
                return;
            }
            while let Ok(()) = self.go_on(&world).await {}
            world.crash().await;
        });
    }

    async fn go_on(&self, world: &Arc<World>) -> Result<(), Over> {
        self.take_all(world)?;
        settle().await;
        if self.open.are_there(Ask::Call) {
            self.pass(LONGEST).await;
            return Ok(());
        }
        if !self.open.are_there(Ask::Wait) {
            let job = self.jobs.recv().map_err(|_| Over)?;
            self.begin(world, job);
            return Ok(());
        }
        if self.passing == Passing::ByItself
            && let Some(pause) = until_something_is_due(world).await
        {
            self.pass(pause).await;
            return Ok(());
        }
        // Whoever has the answer waits for what follows from it, and no longer than that.
        let waiting = self.open.waits.load(Ordering::SeqCst);
        sleep(SETTLING * 2).await;
        if self.open.waits.load(Ordering::SeqCst) < waiting {
            return Ok(());
        }
        // Somebody waits for what cannot happen, unless the test does something in the meantime.
        match self.jobs.recv_timeout(self.patience) {
            Ok(job) => self.begin(world, job),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Over),
            Err(mpsc::RecvTimeoutError::Timeout) => self.give_up(world).await,
        }
        Ok(())
    }

    fn take_all(&self, world: &Arc<World>) -> Result<(), Over> {
        loop {
            match self.jobs.try_recv() {
                Ok(job) => self.begin(world, job),
                Err(mpsc::TryRecvError::Empty) => return Ok(()),
                Err(mpsc::TryRecvError::Disconnected) => return Err(Over),
            }
        }
    }

    fn begin(&self, world: &Arc<World>, Job { ask, run }: Job) {
        let open = Arc::clone(&self.open);
        open.of(ask).fetch_add(1, Ordering::SeqCst);
        let done = Done { open, ask };
        let job = run(Arc::clone(world));
        tokio::spawn(async move {
            let _told_when_dropped = done;
            job.await;
        });
    }

    /// Lets time pass, until a job is done at most.
    async fn pass(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.open.ended.notified() => {}
            () = sleep(pause) => {}
        }
    }

    async fn give_up(&self, world: &World) {
        let open = world.open_runs().await;
        world.watch.has_trouble(|| match self.passing {
            Passing::ByItself => format!(
                "nothing can happen any more, and somebody waits: a signal or an update is missing, or the engine is down ({open})"
            ),
            Passing::ByHand | Passing::Pumped => format!(
                "somebody waits, and time passes by hand here: call `advance`, or `step` of a driver, first ({open})"
            ),
        });
    }
}

/// A job is done, however it ends.
struct Done {
    open: Arc<Open>,
    ask: Ask,
}

impl Drop for Done {
    fn drop(&mut self) {
        self.open.of(self.ask).fetch_sub(1, Ordering::SeqCst);
        self.open.ended.notify_one();
    }
}

/// A job that takes time says how long; this only bounds the wait.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// Work that waits now is taken within this.
const SOON: Duration = Duration::from_secs(1);

/// How long until the store has something to do; none: never.
async fn until_something_is_due(world: &World) -> Option<Duration> {
    let glance = world.glance().await.ok()?;
    if !world.is_up() {
        return None;
    }
    if glance.tasks || glance.turns || glance.messages {
        return Some(SOON);
    }
    let due = [glance.next_due, glance.next_tick];
    let due = due.into_iter().flatten().min()?;
    let left = Duration::try_from(due.duration_since(glance.at)).unwrap_or_default();
    Some(left + SOON)
}
