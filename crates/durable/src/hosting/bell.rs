//! Rings for workers in other processes: each waits for types of its own, and one task wakes one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

/// Rings that a subscriber may be behind before it is told to look at everything.
const NEWS_BEHIND_MAX: usize = 256;

/// Wakes workers whose tasks may be claimed.
pub(crate) struct TaskBell {
    state: Mutex<State>,
    news: broadcast::Sender<Arc<Types>>,
}

/// The types rung for; none: all.
type Types = Option<BTreeSet<String>>;

#[derive(Default)]
struct State {
    last: u64,
    ears: BTreeMap<u64, Arc<Listener>>,
    /// The one woken last: its successors come first next time.
    woken: u64,
}

struct Listener {
    types: BTreeSet<String>,
    /// Whether it has room and waits.
    waits: AtomicBool,
    bell: Notify,
}

impl Default for TaskBell {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            news: broadcast::Sender::new(NEWS_BEHIND_MAX),
        }
    }
}

impl TaskBell {
    /// Tasks of these types may be claimed.
    pub(crate) fn ring<'a>(&self, types: impl IntoIterator<Item = &'a str>) {
        let types: BTreeSet<String> = types.into_iter().map(str::to_owned).collect();
        self.wake(types.clone());
        self.tell(Some(types));
    }

    /// Tasks may be claimed, of which types is not known.
    pub(crate) fn ring_all(&self) {
        let all = {
            let state = self.state.lock();
            let types = state.ears.values().flat_map(|ear| &ear.types);
            types.cloned().collect()
        };
        self.wake(all);
        self.tell(None);
    }

    /// Wakes workers that wait until each type has one: a thousand of them would otherwise run for one task.
    fn wake(&self, mut types: BTreeSet<String>) {
        let mut state = self.state.lock();
        let first = state.woken + 1;
        let mut woken = state.woken;
        let (before, behind) = (state.ears.range(..first), state.ears.range(first..));
        for (number, ear) in behind.chain(before) {
            if types.is_empty() {
                break;
            }
            let concerned = ear.types.iter().any(|own| types.contains(own));
            if concerned && ear.waits.swap(false, Ordering::SeqCst) {
                types.retain(|wanted| !ear.types.contains(wanted));
                ear.bell.notify_one();
                woken = *number;
            }
        }
        state.woken = woken;
    }

    fn tell(&self, types: Types) {
        // Nobody may be listening, which is no error.
        let _ = self.news.send(Arc::new(types));
    }

    /// Listens for these types until the answer is dropped.
    pub(super) fn listen(self: &Arc<Self>, types: BTreeSet<String>) -> Ear {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        let listener = Arc::new(Listener {
            types,
            waits: AtomicBool::new(false),
            bell: Notify::new(),
        });
        state.ears.insert(number, Arc::clone(&listener));
        Ear {
            bell: Arc::clone(self),
            number,
            listener,
        }
    }

    pub(super) fn news(&self) -> TaskNews {
        TaskNews {
            news: self.news.subscribe(),
        }
    }
}

/// One worker's ear.
pub(super) struct Ear {
    bell: Arc<TaskBell>,
    number: u64,
    listener: Arc<Listener>,
}

impl Ear {
    /// From now on it may be woken; to be said before it looks, so that no ring falls in between.
    pub(super) fn wait_from_now(&self) {
        self.listener.waits.store(true, Ordering::SeqCst);
    }

    /// Ends when it was woken. Cancel-safe.
    pub(super) async fn rung(&self) {
        self.listener.bell.notified().await;
    }

    /// It has no room for what may still wait: others should look.
    pub(super) fn pass_on(&self) {
        self.listener.waits.store(false, Ordering::SeqCst);
        self.bell.wake(self.listener.types.clone());
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.bell.state.lock().ears.remove(&self.number);
        // A ring that it got and did not follow.
        self.bell.wake(self.listener.types.clone());
    }
}

/// News of tasks that may be claimed, for those who claim by themselves.
pub struct TaskNews {
    news: broadcast::Receiver<Arc<Types>>,
}

impl TaskNews {
    /// The next news: types of which tasks may wait; none: it may be any. Cancel-safe.
    pub async fn next(&mut self) -> Option<BTreeSet<String>> {
        match self.news.recv().await {
            Ok(types) => (*types).clone(),
            Err(broadcast::error::RecvError::Lagged(_)) => None,
            // The engine is gone, and so is whoever would tell.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn waiting(ears: &[Ear]) -> usize {
        let waits = |ear: &&Ear| ear.listener.waits.load(Ordering::SeqCst);
        ears.iter().filter(waits).count()
    }

    #[test]
    fn one_task_wakes_one_of_a_thousand() {
        let bell = Arc::new(TaskBell::default());
        let ears: Vec<Ear> = (0..1000).map(|_| bell.listen(types(&["a"]))).collect();
        ears.iter().for_each(Ear::wait_from_now);
        bell.ring(["a"]);
        assert_eq!(waiting(&ears), 999);
        bell.ring(["b"]);
        assert_eq!(waiting(&ears), 999);
        bell.ring_all();
        assert_eq!(waiting(&ears), 998);
    }

    #[test]
    fn who_was_woken_last_is_woken_last_again() {
        let bell = Arc::new(TaskBell::default());
        let ears: Vec<Ear> = (0..3).map(|_| bell.listen(types(&["a"]))).collect();
        for round in 0..6 {
            ears.iter().for_each(Ear::wait_from_now);
            bell.ring(["a"]);
            let woken = ears
                .iter()
                .position(|ear| !ear.listener.waits.load(Ordering::SeqCst));
            assert_eq!(woken, Some(round % 3));
        }
    }

    #[tokio::test]
    async fn a_ring_reaches_another_when_the_one_woken_leaves() {
        let bell = Arc::new(TaskBell::default());
        let (one, other) = (bell.listen(types(&["a"])), bell.listen(types(&["a"])));
        one.wait_from_now();
        bell.ring(["a"]);
        other.wait_from_now();
        drop(one);
        other.rung().await;
    }
}
