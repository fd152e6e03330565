//! Those who listen in one process: a tray each, so that nobody takes what was rung for another.

use std::mem::take;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Bell, Ring};

/// Rings that wait to be taken, together.
#[derive(Default)]
pub(crate) struct Tray {
    ring: Mutex<Ring>,
    filled: Notify,
}

impl Tray {
    pub(crate) fn put(&self, ring: Ring) {
        if !ring.is_empty() {
            self.ring.lock().merge(ring);
            self.filled.notify_one();
        }
    }

    /// All that waits, as soon as something does. Whoever stops waiting takes nothing.
    pub(crate) async fn take(&self) -> Ring {
        loop {
            let ring = take(&mut *self.ring.lock());
            if !ring.is_empty() {
                return ring;
            }
            self.filled.notified().await;
        }
    }
}

/// The trays of all listeners that are left. Who is dropped leaves nothing behind.
#[derive(Default)]
pub(crate) struct Trays {
    // In the order in which they came, so that a ring reaches them in an order that can be repeated.
    trays: Mutex<Vec<Weak<Tray>>>,
}

impl Trays {
    /// A tray for one more listener.
    pub(crate) fn add(&self) -> Arc<Tray> {
        let tray = Arc::default();
        let mut trays = self.trays.lock();
        trays.retain(|tray| tray.strong_count() > 0);
        trays.push(Arc::downgrade(&tray));
        tray
    }

    /// Puts a ring into every tray: it came from outside.
    #[cfg(any(feature = "postgres", feature = "grpc"))]
    pub(crate) fn put(&self, ring: &Ring) {
        self.each(|tray| tray.put(ring.clone()));
    }

    /// Puts a ring into every tray but that of the one who rings.
    pub(crate) fn put_from(&self, own: &Arc<Tray>, ring: &Ring) {
        self.each(|tray| {
            if !Arc::ptr_eq(tray, own) {
                tray.put(ring.clone());
            }
        });
    }

    fn each(&self, mut visit: impl FnMut(&Arc<Tray>)) {
        for tray in self.trays.lock().iter() {
            if let Some(tray) = tray.upgrade() {
                visit(&tray);
            }
        }
    }
}

/// The bell of a store that one process has to itself: engines and clients on it hear each other at once.
pub(crate) struct LocalBell {
    all: Arc<Trays>,
    own: Arc<Tray>,
}

impl LocalBell {
    /// One more listener.
    pub(crate) fn join(all: &Arc<Trays>) -> Arc<dyn Bell> {
        let own = all.add();
        own.put(Ring::everything());
        let all = Arc::clone(all);
        Arc::new(Self { all, own })
    }
}

#[async_trait]
impl Bell for LocalBell {
    fn ring(&self, ring: Ring) {
        self.all.put_from(&self.own, &ring);
    }

    async fn listen(&self) -> Ring {
        self.own.take().await
    }

    fn is_connected(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn tasks(activity_type: &str) -> Ring {
        Ring {
            task_types: [activity_type.to_owned()].into(),
            ..Ring::default()
        }
    }

    #[test]
    fn every_listener_hears_the_others_and_not_itself() {
        let all = Arc::default();
        let bells: Vec<_> = (0..3).map(|_| LocalBell::join(&all)).collect();
        for bell in &bells {
            let away_before = bell.listen().now_or_never();
            assert_eq!(away_before, Some(Ring::everything()));
        }
        bells[0].ring(tasks("a"));
        bells[0].ring(tasks("b"));
        assert_eq!(bells[0].listen().now_or_never(), None);
        for bell in &bells[1..] {
            let heard = bell.listen().now_or_never().expect("a ring");
            assert_eq!(heard.task_types.len(), 2, "nobody took it from another");
        }
    }

    #[test]
    fn a_listener_that_is_gone_leaves_nothing() {
        let all: Arc<Trays> = Arc::default();
        for _ in 0..10 {
            drop(LocalBell::join(&all));
        }
        let _one = LocalBell::join(&all);
        assert_eq!(all.trays.lock().len(), 1);
    }
}
