//! What a test puts in the way of single calls, and takes away again.

use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

/// Obstacles on the way to a store.
#[derive(Default)]
pub(super) struct Obstacles {
    /// Calls of this method wait.
    held: Mutex<Option<&'static str>>,
    arrived: Notify,
    let_go: Notify,
    /// Calls of this method that name this run cannot read what they find.
    spoilt: Mutex<Option<(&'static str, Uuid)>>,
    /// The next call of this method panics.
    trap: Mutex<Option<&'static str>>,
}

impl Obstacles {
    pub(super) fn hold(&self, method: &'static str) {
        *self.held.lock() = Some(method);
    }

    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    pub(super) fn let_go(&self) {
        *self.held.lock() = None;
        self.let_go.notify_waiters();
    }

    pub(super) fn spoil(&self, method: &'static str, run_id: Uuid) {
        *self.spoilt.lock() = Some((method, run_id));
    }

    pub(super) fn lay_trap(&self, method: &'static str) {
        *self.trap.lock() = Some(method);
    }

    pub(super) fn has_trap(&self) -> bool {
        self.trap.lock().is_some()
    }

    /// Panics once where the test says so.
    pub(super) fn tread(&self, method: &'static str) {
        let caught = self.trap.lock().take_if(|trap| *trap == method);
        assert!(caught.is_none(), "{method} panics on purpose");
    }

    /// Waits while calls of the method are held.
    pub(super) async fn pass(&self, method: &'static str) {
        loop {
            let let_go = self.let_go.notified();
            tokio::pin!(let_go);
            let_go.as_mut().enable();
            if *self.held.lock() != Some(method) {
                return;
            }
            self.arrived.notify_one();
            let_go.await;
        }
    }

    /// Whether this call cannot read what it finds; `named` tells what the call names.
    pub(super) fn is_spoilt(&self, method: &'static str, named: impl FnOnce() -> String) -> bool {
        let spoilt = *self.spoilt.lock();
        spoilt.is_some_and(|(of, run_id)| of == method && named().contains(&run_id.to_string()))
    }
}
