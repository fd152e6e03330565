//! How much a worker takes on at once.

use super::WorkerPool;

impl WorkerPool {
    /// How many tasks to claim now; 0: none, the worker is full.
    pub(super) fn claim_size(&self) -> usize {
        if self.accepting_tasks() {
            self.settings.claim_batch_size.max(1)
        } else {
            0
        }
    }

    /// Why it takes no tasks, if it takes none.
    pub(crate) fn backpressure_reason(&self) -> Option<String> {
        (!self.accepting_tasks()).then(|| "draining".to_owned())
    }
}
