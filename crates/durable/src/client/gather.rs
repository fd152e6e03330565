//! Gathers what many callers ask for at once into sets: while one set is under way, the next one forms.
//!
//! A caller alone pays one commit; a thousand at once share a few.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Result;
use crate::error::Kind;
use crate::persistence::{StoreError, StoreResult};
use crate::runtime::Runtime;

/// What is asked of the store for a whole set.
#[async_trait]
pub(super) trait Ask: Send + Sync + 'static {
    type Item: Clone + Send + 'static;
    type Answer: Send + 'static;

    /// One answer an item, in order.
    async fn ask(&self, items: Vec<Self::Item>) -> StoreResult<Vec<Self::Answer>>;
}

/// Most items in one set.
const SET_MAX: usize = 500;

/// Gathers items into sets.
pub(super) struct Gather<A: Ask> {
    ask: A,
    runtime: Runtime,
    state: Mutex<State<A>>,
}

struct State<A: Ask> {
    waiting: Vec<Waiting<A>>,
    /// Whether somebody is asking.
    asking: bool,
}

struct Waiting<A: Ask> {
    item: A::Item,
    answer: oneshot::Sender<StoreResult<A::Answer>>,
}

impl<A: Ask> Gather<A> {
    pub(super) fn new(ask: A, runtime: Runtime) -> Arc<Self> {
        Arc::new(Self {
            ask,
            runtime,
            state: Mutex::new(State {
                waiting: Vec::new(),
                asking: false,
            }),
        })
    }

    /// Asks for one item.
    ///
    /// # Errors
    /// The store's; or this process is coming to its end, and whether it was asked is not known.
    pub(super) async fn one(self: &Arc<Self>, item: A::Item) -> Result<A::Answer> {
        let (answer, answered) = oneshot::channel();
        let begin = {
            let mut state = self.state.lock();
            state.waiting.push(Waiting { item, answer });
            !std::mem::replace(&mut state.asking, true)
        };
        if begin {
            let asking = Asking {
                gather: Arc::clone(self),
                done: false,
            };
            self.runtime.spawn(asking.ask());
        }
        match answered.await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Kind::ShuttingDown.into()),
        }
    }

    async fn ask_all(&self) {
        while let Some(set) = self.next_set() {
            let items: Vec<A::Item> = set.iter().map(|waiting| waiting.item.clone()).collect();
            match self.ask.ask(items).await {
                Ok(answers) => {
                    for (waiting, answer) in set.into_iter().zip(answers) {
                        // A caller who has gone does not need it.
                        let _ = waiting.answer.send(Ok(answer));
                    }
                }
                Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                    tell_all(set, error);
                }
                Err(error) => self.ask_each(set, error).await,
            }
        }
    }

    fn next_set(&self) -> Option<Vec<Waiting<A>>> {
        let mut state = self.state.lock();
        let take = state.waiting.len().min(SET_MAX);
        state.asking = take > 0;
        (take > 0).then(|| state.waiting.drain(..take).collect())
    }

    /// One item that is refused takes the others with it: each on its own.
    async fn ask_each(&self, mut set: Vec<Waiting<A>>, error: StoreError) {
        if set.len() == 1 {
            let _ = set.remove(0).answer.send(Err(error));
            return;
        }
        for waiting in set {
            let answer = self.ask.ask(vec![waiting.item]).await;
            let answer = answer.map(|mut answers| answers.remove(0));
            let _ = waiting.answer.send(answer);
        }
    }
}

/// The store is in trouble, and not one of the items: each on its own would fare no better, and take long to find out.
fn tell_all<A: Ask>(set: Vec<Waiting<A>>, error: StoreError) {
    let error = Arc::new(error);
    for waiting in set {
        let _ = waiting.answer.send(Err(shared(&error)));
    }
}

/// The same trouble, for one of several callers.
fn shared(error: &Arc<StoreError>) -> StoreError {
    match &**error {
        StoreError::Conflict(message) => StoreError::Conflict(message.clone()),
        StoreError::Unavailable { message, .. } => {
            StoreError::unavailable(message.clone(), Arc::clone(error))
        }
        StoreError::Overloaded {
            pending,
            capacity,
            retry_after_ms,
        } => StoreError::Overloaded {
            pending: *pending,
            capacity: *capacity,
            retry_after_ms: *retry_after_ms,
        },
        other => StoreError::unavailable(other.to_string(), Arc::clone(error)),
    }
}

/// Somebody who asks. If he is killed, those who wait for him are told, instead of waiting for ever.
struct Asking<A: Ask> {
    gather: Arc<Gather<A>>,
    done: bool,
}

impl<A: Ask> Asking<A> {
    async fn ask(mut self) {
        self.gather.ask_all().await;
        self.is_done();
    }

    const fn is_done(&mut self) {
        self.done = true;
    }
}

impl<A: Ask> Drop for Asking<A> {
    fn drop(&mut self) {
        if !self.done {
            let mut state = self.gather.state.lock();
            state.asking = false;
            state.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    #[async_trait]
    impl Ask for Echo {
        type Item = u32;
        type Answer = u32;

        async fn ask(&self, items: Vec<u32>) -> StoreResult<Vec<u32>> {
            if items.contains(&13) {
                return Err(StoreError::Invalid("13".to_owned()));
            }
            Ok(items)
        }
    }

    #[tokio::test]
    async fn refused_item_takes_no_other_with_it() {
        let gather = Gather::new(Echo, Runtime::real());
        let asked = (10..20).map(|n| gather.one(n));
        let answers = futures_util::future::join_all(asked).await;
        for (n, answer) in (10..20).zip(answers) {
            assert_eq!(answer.ok(), (n != 13).then_some(n));
        }
    }

    /// A store out of reach, which counts its calls.
    #[derive(Default)]
    struct Outage {
        calls: Arc<std::sync::atomic::AtomicUsize>,
    }

    #[async_trait]
    impl Ask for Outage {
        type Item = u32;
        type Answer = u32;

        async fn ask(&self, _items: Vec<u32>) -> StoreResult<Vec<u32>> {
            self.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Err(StoreError::unavailable("not there", "the cable is out"))
        }
    }

    #[tokio::test]
    async fn outage_is_one_call_for_all_and_not_one_for_each() {
        let outage = Outage::default();
        let calls = Arc::clone(&outage.calls);
        let gather = Gather::new(outage, Runtime::real());
        let answers = futures_util::future::join_all((0..100).map(|n| gather.one(n))).await;
        for answer in answers {
            assert!(answer.expect_err("out of reach").is_retryable());
        }
        let calls = calls.load(std::sync::atomic::Ordering::SeqCst);
        assert!(calls < 100, "{calls} calls for 100 items");
    }

    #[tokio::test]
    async fn caller_of_a_dead_process_does_not_wait_for_ever() {
        let runtime = Runtime::real();
        let gather = Gather::new(Echo, runtime.clone());
        runtime.kill();
        for _ in 0..2 {
            let error = gather.one(1).await.expect_err("nobody asks any more");
            assert!(error.is_shutting_down(), "{error}");
        }
    }
}
