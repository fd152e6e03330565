//! Waiting for what other processes do: rung for, and looked at now and then.

use std::time::Duration;

use durable_core::Timestamp;
use uuid::Uuid;

use super::Client;
use crate::Result;
use crate::engine::Watch;
use crate::persistence::StoreResult;
use crate::persistence::model::{TurnCommit, TurnOutcome};

/// How long a waiter that can be rung for sleeps at most before it looks by itself.
pub(super) const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(10);
/// The same where nobody can ring: what is waited for may happen in another process that cannot be heard.
pub(super) const LOOK_WHEN_DEAF: Duration = Duration::from_millis(500);

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

    /// Commits turns of an engine elsewhere, and tells whoever waits for their runs.
    pub(crate) async fn commit_all(
        &self,
        turns: Vec<TurnCommit>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<TurnOutcome>> {
        let told: Vec<_> = turns
            .iter()
            .map(|turn| (turn.run_id, turn.next.clone(), !turn.updates.is_empty()))
            .collect();
        let outcomes = self.store().commit_turns(turns, now).await?;
        for ((run_id, next, answers), outcome) in told.iter().zip(&outcomes) {
            if matches!(outcome, TurnOutcome::Committed(_)) {
                self.shared.hub.turned(*run_id, next, *answers);
            }
        }
        Ok(outcomes)
    }

    /// Whether what happens in other processes cannot be heard.
    pub(super) fn is_deaf(&self) -> bool {
        match self.shared.hub.bell() {
            Some(bell) => !bell.is_connected(),
            None => self.shared.beside.is_none(),
        }
    }
}
