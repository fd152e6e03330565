//! State that a workflow and its handlers share.

use std::sync::Arc;

use parking_lot::Mutex;

/// A value that a workflow and its handlers share. Cheap to clone; all clones are the same value.
///
/// It lives in memory only: it is rebuilt by running the workflow's code again, never stored.
pub struct State<T> {
    value: Arc<Mutex<T>>,
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
        }
    }
}

impl<T> State<T> {
    pub(super) fn new(initial: T) -> Self {
        Self {
            value: Arc::new(Mutex::new(initial)),
        }
    }

    /// Looks at the value.
    pub fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.value.lock())
    }

    /// Changes the value.
    pub fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.value.lock())
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.value.lock() = value;
    }
}

impl<T: Clone> State<T> {
    /// A copy of the value.
    #[must_use]
    pub fn get(&self) -> T {
        self.value.lock().clone()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for State<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("State").field(&*self.value.lock()).finish()
    }
}
