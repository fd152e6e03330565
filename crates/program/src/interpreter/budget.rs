//! How much a program does in one turn, all branches together: one that only spins would hold up its
//! worker, and a turn that records too much cannot be stored.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use everruns_durable::core::Failure;

use super::exit::{Exit, raised};
use crate::expr::Work;

/// What may be spent in one turn: a million plain steps or parts of expressions, ten thousand recorded
/// steps, or 256 MB of values that are copied, compared or measured. Some 0.2 s of work.
const SPENT_IN_A_TURN: u32 = 1_000_000;
/// The same, once the program is over and cleans up: what all clean-up of the turn has together.
const SPENT_WITH_CLEAN_UP: u32 = 2_000_000;
/// A plain step.
pub(super) const STEP: u32 = 1;
/// A step that leaves an event, and one that makes a value. So many of them as a turn records leave
/// room for the steps and expressions around them.
pub(super) const RECORDED: u32 = 50;
/// Most recorded steps of all branches together in one turn, which stores `TURN_ITEMS_MAX` items of a kind or nothing: room is left for the
/// facts that lead to it and for what clean-up adds.
const RECORDED_IN_A_TURN: u32 = 10_000;
/// The same, once the program is over and cleans up.
const RECORDED_WITH_CLEAN_UP: u32 = 14_000;
/// Most bytes that the steps of one turn hand out or get at once. The store counts them twice, with the event and with the task or the child, and takes
/// `BATCH_BYTES_MAX` in all.
const CARRIED_IN_A_TURN: u32 = 100 * 1024 * 1024;
/// The same, once the program is over and cleans up.
const CARRIED_WITH_CLEAN_UP: u32 = 112 * 1024 * 1024;

/// What an expression costs: its parts, and the bytes that were gone through.
pub(super) fn of_work(work: Work) -> u32 {
    let cost = work.nodes.saturating_add(work.bytes / 256);
    u32::try_from(cost).unwrap_or(u32::MAX)
}

/// What was spent and recorded in the turn at hand.
#[derive(Debug)]
pub(super) struct Budget {
    spent: AtomicU32,
    spent_max: AtomicU32,
    recorded: AtomicU32,
    recorded_max: AtomicU32,
    carried: AtomicU32,
    carried_max: AtomicU32,
    /// Calls that the turn waits for: it is not over before they are.
    held: AtomicU32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            spent: AtomicU32::new(0),
            spent_max: AtomicU32::new(SPENT_IN_A_TURN),
            recorded: AtomicU32::new(0),
            recorded_max: AtomicU32::new(RECORDED_IN_A_TURN),
            carried: AtomicU32::new(0),
            carried_max: AtomicU32::new(CARRIED_IN_A_TURN),
            held: AtomicU32::new(0),
        }
    }
}

impl Budget {
    /// The program is over, and allowed to clean up.
    pub(super) fn clean_up(&self) {
        self.spent_max.store(SPENT_WITH_CLEAN_UP, Ordering::Relaxed);
        self.recorded_max
            .store(RECORDED_WITH_CLEAN_UP, Ordering::Relaxed);
        self.carried_max
            .store(CARRIED_WITH_CLEAN_UP, Ordering::Relaxed);
    }

    pub(super) fn spend(&self, cost: u32) -> Result<(), Exit> {
        if add(&self.spent, cost) > self.spent_max.load(Ordering::Relaxed) {
            return Err(overrun(
                "the program goes on and on without waiting for anything, all branches together",
            ));
        }
        Ok(())
    }

    /// Pays for a step that leaves an event.
    pub(super) fn record(&self) -> Result<(), Exit> {
        self.spend(RECORDED)?;
        if add(&self.recorded, 1) > self.recorded_max.load(Ordering::Relaxed) {
            return Err(overrun(
                "the program's branches do too much at once: ten thousand recorded steps without waiting for anything, all together",
            ));
        }
        Ok(())
    }

    /// Pays for what a recorded step brings into the turn.
    pub(super) fn carry(&self, bytes: usize) -> Result<(), Exit> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if add(&self.carried, bytes) > self.carried_max.load(Ordering::Relaxed) {
            return Err(overrun(
                "the program's branches hand out too much at once: 100 MiB without waiting for anything, all together",
            ));
        }
        Ok(())
    }

    /// A local activity runs within the turn that calls it, and lengthens it.
    pub(super) fn hold(&self) -> Held<'_> {
        add(&self.held, 1);
        Held(self)
    }

    /// Runs a program so that what it spends and records is counted by turns: each poll is one, unless the last is still held. That is so when it
    /// is replayed too.
    pub(super) fn by_turns<'a, T>(
        &'a self,
        program: impl Future<Output = T> + Send + 'a,
    ) -> impl Future<Output = T> + Send + 'a
    where
        T: 'a,
    {
        ByTurns {
            budget: self,
            program: Box::pin(program),
        }
    }
}

fn add(to: &AtomicU32, cost: u32) -> u32 {
    let sum = to.load(Ordering::Relaxed).saturating_add(cost);
    to.store(sum, Ordering::Relaxed);
    sum
}

fn overrun(what: &str) -> Exit {
    let message =
        format!("{what}: let it sleep, wait or call an activity in between, or continue as new");
    Exit::Overrun(Failure::new(raised::STEP_LIMIT, message).non_retryable())
}

/// Keeps a turn from being over.
pub(super) struct Held<'a>(&'a Budget);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

struct ByTurns<'a, T> {
    budget: &'a Budget,
    program: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
}

impl<T> Future for ByTurns<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if self.budget.held.load(Ordering::Relaxed) == 0 {
            self.budget.spent.store(0, Ordering::Relaxed);
            self.budget.recorded.store(0, Ordering::Relaxed);
            self.budget.carried.store(0, Ordering::Relaxed);
        }
        self.program.as_mut().poll(cx)
    }
}
