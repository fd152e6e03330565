//! A node's life: all its tasks, which end together when it is killed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::future::{AbortHandle, Abortable};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// All tasks of one node. Killing it drops every one of them where it stands, as SIGKILL would.
#[derive(Clone, Default)]
pub struct Life {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    dead: AtomicBool,
    /// Steps (polls of any task) taken so far.
    steps: AtomicU64,
    /// The step at which the node dies; 0: it does not.
    last_step: AtomicU64,
    tasks: Mutex<Tasks>,
    /// Rung for all who wait now whenever a task has ended.
    ended: Notify,
}

#[derive(Default)]
struct Tasks {
    next: u64,
    running: std::collections::BTreeMap<u64, AbortHandle>,
}

impl Life {
    /// A node that lives until it is killed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends all tasks at once; later ones never begin.
    pub fn kill(&self) {
        self.shared.dead.store(true, Ordering::SeqCst);
        let running = std::mem::take(&mut self.shared.tasks.lock().running);
        for task in running.values() {
            task.abort();
        }
    }

    /// Dies by itself after that many more steps: at an await nobody chose.
    pub fn die_after(&self, steps: u64) {
        let at = self.steps().saturating_add(steps.max(1));
        self.shared.last_step.store(at, Ordering::SeqCst);
    }

    /// Steps taken so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.shared.steps.load(Ordering::SeqCst)
    }

    /// Whether it was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.shared.dead.load(Ordering::SeqCst)
    }

    /// Tasks that have not ended.
    #[must_use]
    pub fn tasks_running(&self) -> usize {
        self.shared.tasks.lock().running.len()
    }

    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if self.is_dead() {
            return;
        }
        let (handle, registration) = AbortHandle::new_pair();
        let id = {
            let mut tasks = self.shared.tasks.lock();
            let id = tasks.next;
            tasks.next += 1;
            tasks.running.insert(id, handle);
            id
        };
        let mortal = Mortal {
            future: Box::pin(future),
            life: self.clone(),
        };
        let life = self.clone();
        let abortable = Abortable::new(mortal, registration);
        tokio::spawn(async move {
            // Whether it ended or was aborted is all the same here.
            let _ = abortable.await;
            life.shared.tasks.lock().running.remove(&id);
            life.shared.ended.notify_waiters();
        });
    }

    /// Ends when no task is left, and with the last one all that they held.
    pub(super) async fn emptied(&self) {
        loop {
            let ended = self.shared.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.tasks_running() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Counts a step; false: the node is dead.
    fn step(&self) -> bool {
        let step = self.shared.steps.fetch_add(1, Ordering::SeqCst) + 1;
        let last = self.shared.last_step.load(Ordering::SeqCst);
        if last != 0 && step >= last {
            self.kill();
        }
        !self.is_dead()
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life")
            .field("dead", &self.is_dead())
            .field("steps", &self.steps())
            .finish_non_exhaustive()
    }
}

/// A task that is not polled any more once its node is dead.
struct Mortal {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    life: Life,
}

impl Future for Mortal {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.life.step() {
            self.future.as_mut().poll(cx)
        } else {
            Poll::Ready(())
        }
    }
}
