//! Loops that outlive a panic: a bug in one place must not stop what a whole process depends on.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tracing::error;

use super::Runtime;
use crate::engine::panic_text;

/// Wait after a panic, before the same is tried again: it may panic again.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Runs a future to its end; its panic is logged. None: it panicked, and what it held was dropped.
pub(crate) async fn guarded<T>(part: &'static str, future: impl Future<Output = T>) -> Option<T> {
    match AssertUnwindSafe(future).catch_unwind().await {
        Ok(answer) => Some(answer),
        Err(panic) => {
            let text = panic_text(&*panic);
            error!(part, text, "it panicked and goes on");
            None
        }
    }
}

impl Runtime {
    /// After a panic: not at once.
    pub(crate) async fn recover(&self) {
        self.sleep(self.jittered(PANIC_PAUSE)).await;
    }

    /// Runs a loop until it ends by itself; one that panics begins anew after a moment.
    pub(crate) async fn keep_up<F: Future<Output = ()>>(
        &self,
        part: &'static str,
        run: impl Fn() -> F,
    ) {
        while guarded(part, run()).await.is_none() {
            self.recover().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_begins_anew_and_one_that_ends_does_not() {
        let begun = AtomicUsize::new(0);
        let run = || async {
            assert!(
                begun.fetch_add(1, Ordering::SeqCst) >= 2,
                "as the test says"
            );
        };
        Runtime::real().keep_up("test", run).await;
        assert_eq!(begun.into_inner(), 3);
    }
}
