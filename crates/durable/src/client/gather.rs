//! Gathers what many callers ask for at once into sets: while one set is under way, the next one forms.
//!
//! A caller alone pays one commit; a thousand at once share a few.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use crate::Result;
use crate::error::Kind;
use crate::persistence::{StoreError, StoreResult};
use crate::runtime::Runtime;

/// What is asked of the store for a whole set.
#[async_trait]
pub(super) trait Ask: Send + Sync + 'static {
    type Item: Clone + Send + 'static;
    type Answer: Send + 'static;

    /// Checks an item by itself, before it joins a set: a mistake is answered at once and reaches
    /// no other caller's item.
    ///
    /// # Errors
    /// What the store would refuse the item for.
    fn check(&self, item: &Self::Item) -> StoreResult<()>;

    /// Bytes of an item's payloads.
    fn bytes(&self, item: &Self::Item) -> usize;

    /// The run that an item is for.
    fn run_of(item: &Self::Item) -> Uuid;

    /// One answer an item, in order.
    async fn ask(&self, items: Vec<Self::Item>) -> StoreResult<Vec<Self::Answer>>;
}

/// Most items in one set.
const SET_MAX: usize = 500;
/// Most bytes of payloads in one set, unless one item alone has more: far below what a store takes
/// in one call, and enough for a commit to be worth it.
const SET_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest that an item waits for what another transaction has locked; its caller is told then.
const LOCKED_WAIT_MAX: Duration = Duration::from_secs(10);
/// First wait before it is asked for again; doubles up to the largest.
const LOCKED_AGAIN: Duration = Duration::from_millis(50);
/// Largest such wait.
const LOCKED_AGAIN_MAX: Duration = Duration::from_secs(1);
/// Most such items that are asked for at once: the others need the connections.
const LOCKED_AT_ONCE: usize = 2;

/// Gathers items into sets.
pub(super) struct Gather<A: Ask> {
    ask: A,
    runtime: Runtime,
    state: Mutex<State<A>>,
    /// Of items that need what another transaction has locked.
    lane: Semaphore,
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
            lane: Semaphore::new(LOCKED_AT_ONCE),
        })
    }

    /// Asks for one item.
    ///
    /// # Errors
    /// The store's; or this process is coming to its end, and whether it was asked is not known.
    pub(super) async fn one(self: &Arc<Self>, item: A::Item) -> Result<A::Answer> {
        self.ask.check(&item)?;
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

    async fn ask_all(self: &Arc<Self>) {
        while let Some(set) = self.next_set() {
            self.ask_set(set).await;
        }
    }

    /// Asks for a set. Where the store refuses the set for one of its items, halves are asked until
    /// that item is alone: the others stay in sets.
    async fn ask_set(self: &Arc<Self>, mut set: Vec<Waiting<A>>) {
        let items: Vec<A::Item> = set.iter().map(|waiting| waiting.item.clone()).collect();
        match self.ask.ask(items).await {
            Ok(answers) => tell_each(set, answers),
            Err(StoreError::Busy { runs }) => Box::pin(self.ask_without(set, &runs)).await,
            Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                tell_all(set, error);
            }
            Err(error) if set.len() == 1 => {
                let _ = set.remove(0).answer.send(Err(error));
            }
            Err(_) => {
                let second = set.split_off(set.len() / 2);
                Box::pin(self.ask_set(set)).await;
                Box::pin(self.ask_set(second)).await;
            }
        }
    }

    /// Another transaction has runs of the set locked: their items wait on their own, beside the
    /// others.
    async fn ask_without(self: &Arc<Self>, set: Vec<Waiting<A>>, locked: &[Uuid]) {
        let is_locked = |waiting: &Waiting<A>| locked.contains(&A::run_of(&waiting.item));
        let (aside, mut others): (Vec<_>, Vec<_>) = set.into_iter().partition(is_locked);
        if aside.is_empty() {
            // It is not known which: the halves tell.
            let half = others.split_off(others.len() / 2);
            self.ask_part(half).await;
        }
        for waiting in aside {
            self.ask_apart(waiting);
        }
        self.ask_part(others).await;
    }

    /// A part of a set in which something is locked: one item alone is what needs it.
    async fn ask_part(self: &Arc<Self>, mut part: Vec<Waiting<A>>) {
        match part.len() {
            0 => {}
            1 => self.ask_apart(part.remove(0)),
            _ => self.ask_set(part).await,
        }
    }

    /// Asks for one item until what it needs is not locked any more, or for as long as a caller may
    /// wait. Of all such items only a few are asked for at once.
    fn ask_apart(self: &Arc<Self>, waiting: Waiting<A>) {
        let gather = Arc::clone(self);
        self.runtime.spawn(async move {
            let runtime = &gather.runtime;
            let give_up = runtime.instant() + LOCKED_WAIT_MAX;
            let mut pause = LOCKED_AGAIN;
            let answer = loop {
                let answer = {
                    let _lane = gather.lane.acquire().await;
                    gather.ask.ask(vec![waiting.item.clone()]).await
                };
                let is_locked = matches!(answer, Err(StoreError::Busy { .. }));
                if !is_locked || waiting.answer.is_closed() || runtime.instant() >= give_up {
                    break answer;
                }
                runtime.sleep(runtime.jittered(pause)).await;
                pause = (pause * 2).min(LOCKED_AGAIN_MAX);
            };
            let answer = answer.map(|mut answers| answers.remove(0));
            let _ = waiting.answer.send(answer);
        });
    }

    fn next_set(&self) -> Option<Vec<Waiting<A>>> {
        let mut state = self.state.lock();
        let mut bytes = 0;
        let fits = |waiting: &&Waiting<A>| {
            bytes += self.ask.bytes(&waiting.item);
            bytes <= SET_BYTES_MAX
        };
        let fitting = state.waiting.iter().take(SET_MAX).take_while(fits).count();
        let take = fitting.max(1).min(state.waiting.len());
        state.asking = take > 0;
        (take > 0).then(|| state.waiting.drain(..take).collect())
    }
}

fn tell_each<A: Ask>(set: Vec<Waiting<A>>, answers: Vec<A::Answer>) {
    for (waiting, answer) in set.into_iter().zip(answers) {
        // A caller who has gone does not need it.
        let _ = waiting.answer.send(Ok(answer));
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
        StoreError::Busy { runs } => StoreError::Busy { runs: runs.clone() },
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
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    /// Refuses 13, of which the store alone knows, and 7, which can be seen. Items above 1000 are
    /// bytes.
    #[derive(Default)]
    struct Echo {
        sets: Arc<Mutex<Vec<Vec<u32>>>>,
    }

    #[async_trait]
    impl Ask for Echo {
        type Item = u32;
        type Answer = u32;

        fn check(&self, item: &u32) -> StoreResult<()> {
            if *item == 7 {
                return Err(StoreError::Invalid("7".to_owned()));
            }
            Ok(())
        }

        fn bytes(&self, item: &u32) -> usize {
            if *item > 1_000 { *item as usize } else { 0 }
        }

        fn run_of(item: &u32) -> Uuid {
            Uuid::from_u128(u128::from(*item))
        }

        async fn ask(&self, items: Vec<u32>) -> StoreResult<Vec<u32>> {
            self.sets.lock().push(items.clone());
            if items.contains(&13) {
                return Err(StoreError::Invalid("13".to_owned()));
            }
            Ok(items)
        }
    }

    #[tokio::test]
    async fn refused_item_takes_no_other_with_it() {
        let gather = Gather::new(Echo::default(), Runtime::real());
        let asked = (10..20).map(|n| gather.one(n));
        let answers = futures_util::future::join_all(asked).await;
        for (n, answer) in (10..20).zip(answers) {
            assert_eq!(answer.ok(), (n != 13).then_some(n));
        }
    }

    #[tokio::test]
    async fn item_that_can_be_seen_to_be_wrong_joins_no_set() {
        let echo = Echo::default();
        let sets = Arc::clone(&echo.sets);
        let gather = Gather::new(echo, Runtime::real());
        let answers = futures_util::future::join_all((0..10).map(|n| gather.one(n))).await;
        for (n, answer) in (0..10).zip(answers) {
            assert_eq!(answer.ok(), (n != 7).then_some(n));
        }
        assert_eq!(sets.lock().concat(), [0, 1, 2, 3, 4, 5, 6, 8, 9]);
    }

    #[tokio::test]
    async fn refused_item_is_found_by_halves_and_not_by_asking_for_each() {
        let echo = Echo::default();
        let sets = Arc::clone(&echo.sets);
        let gather = Gather::new(echo, Runtime::real());
        let asked = (100..300).chain([13]).map(|n| gather.one(n));
        let answers = futures_util::future::join_all(asked).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 1);
        let calls = sets.lock().len();
        assert!(calls < 20, "{calls} calls for 201 items");
    }

    #[tokio::test]
    async fn sets_are_bounded_by_bytes_and_a_large_item_goes_alone() {
        let echo = Echo::default();
        let sets = Arc::clone(&echo.sets);
        let gather = Gather::new(echo, Runtime::real());
        let mib = 1024 * 1024;
        let asked = [6 * mib, 6 * mib, 6 * mib, 40 * mib, 1].map(|n| gather.one(n));
        for answer in futures_util::future::join_all(asked).await {
            answer.expect("answered");
        }
        let expected = [
            vec![6 * mib, 6 * mib],
            vec![6 * mib],
            vec![40 * mib],
            vec![1],
        ];
        assert_eq!(*sets.lock(), expected);
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

        fn check(&self, _item: &u32) -> StoreResult<()> {
            Ok(())
        }

        fn bytes(&self, _item: &u32) -> usize {
            0
        }

        fn run_of(item: &u32) -> Uuid {
            Uuid::from_u128(u128::from(*item))
        }

        async fn ask(&self, _items: Vec<u32>) -> StoreResult<Vec<u32>> {
            self.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Err(StoreError::unavailable("not there", "the cable is out"))
        }
    }

    /// The run of item 13 is locked until it has been asked for alone a few times; the store names
    /// it, or does not.
    struct Locked {
        named: bool,
        alone: std::sync::atomic::AtomicUsize,
    }

    #[async_trait]
    impl Ask for Locked {
        type Item = u32;
        type Answer = u32;

        fn check(&self, _item: &u32) -> StoreResult<()> {
            Ok(())
        }

        fn bytes(&self, _item: &u32) -> usize {
            0
        }

        fn run_of(item: &u32) -> Uuid {
            Uuid::from_u128(u128::from(*item))
        }

        async fn ask(&self, items: Vec<u32>) -> StoreResult<Vec<u32>> {
            let alone = items == [13] && self.alone.fetch_add(1, SeqCst) >= 3;
            if items.contains(&13) && !alone {
                let runs = self.named.then(|| Uuid::from_u128(13));
                let runs = runs.into_iter().collect();
                return Err(StoreError::Busy { runs });
            }
            Ok(items)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_of_a_locked_run_waits_on_its_own_and_the_others_are_answered() {
        for named in [true, false] {
            let locked = Locked {
                named,
                alone: std::sync::atomic::AtomicUsize::new(0),
            };
            let gather = Gather::new(locked, Runtime::real());
            let begun = tokio::time::Instant::now();
            let one = |item| {
                let gather = Arc::clone(&gather);
                tokio::spawn(async move { (gather.one(item).await, begun.elapsed()) })
            };
            let all: Vec<_> = (10..20).map(one).collect();
            for (item, asked) in (10..20).zip(all) {
                let (answer, took) = asked.await.unwrap();
                assert_eq!(answer.unwrap(), item);
                // Time is virtual: whoever waited for nothing has taken none of it.
                assert_eq!(took.is_zero(), item != 13, "item {item}");
            }
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
        let gather = Gather::new(Echo::default(), runtime.clone());
        runtime.kill();
        for _ in 0..2 {
            let error = gather.one(1).await.expect_err("nobody asks any more");
            assert!(error.is_shutting_down(), "{error}");
        }
    }
}
