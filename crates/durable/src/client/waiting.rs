//! Waiting for what other processes do: rung for, and looked at now and then.

use std::time::Duration;

use uuid::Uuid;

use super::Client;
use crate::Result;
use crate::engine::Watch;

/// How long a waiter that can be rung for sleeps at most before it looks by itself.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(10);
/// The same where nobody can ring: what is waited for may happen in another process that cannot be heard.
const LOOK_WHEN_DEAF: Duration = Duration::from_millis(500);

impl Client {
    /// Looks until there is something to see: now, whenever the run rings (it ended, it answered an update), and at times without a ring.
    pub(super) async fn look_until<T, F>(&self, run_id: Uuid, look: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        let watch = self.shared.hub.watch(run_id);
        self.look_at(&watch, false, look).await
    }

    /// The same for a run that is watched already; `quiet` says that there is nothing to see yet.
    pub(super) async fn look_at<T, F>(
        &self,
        watch: &Watch,
        mut quiet: bool,
        look: impl Fn() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        let shared = &self.shared;
        loop {
            let ring = watch.ring();
            tokio::pin!(ring);
            // Registered before the look, so that a ring in between is not missed.
            ring.as_mut().enable();
            if !(std::mem::take(&mut quiet) && watch.is_quiet()) {
                match look().await {
                    Ok(Some(seen)) => return Ok(seen),
                    Ok(None) => {}
                    Err(error) if error.is_retryable() => {}
                    Err(error) => return Err(error),
                }
            }
            let wait = if self.is_deaf() {
                LOOK_WHEN_DEAF
            } else {
                LOOK_AT_LEAST_EVERY
            };
            tokio::select! {
                biased;
                () = &mut ring => {}
                () = shared.runtime.sleep(shared.runtime.jittered(wait)) => {}
            }
        }
    }

    /// Whether what happens in other processes cannot be heard.
    pub(super) fn is_deaf(&self) -> bool {
        match self.shared.hub.bell() {
            Some(bell) => !bell.is_connected(),
            None => self.shared.beside.is_none(),
        }
    }
}
