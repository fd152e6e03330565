//! What a server does for those who reach its store from afar: as its own client would, so that whoever is concerned is told at once.

use std::time::Duration;

use durable_core::Timestamp;
use uuid::Uuid;

use super::Client;
use super::waiting::LOOK_WHEN_DEAF;
use crate::persistence::StoreResult;
use crate::persistence::model::{Awaited, RunRecord, StartOutcome, StartRun};

/// The longest that one call waits, whatever it asks for.
const CALL_MAX: Duration = Duration::from_secs(60);

impl Client {
    /// Starts runs as somebody else describes them, for a door of a server's, and tells whoever takes their turns.
    pub(crate) async fn start_all(
        &self,
        mut starts: Vec<StartRun>,
        now: Option<Timestamp>,
    ) -> StoreResult<Vec<StartOutcome>> {
        let mut hosted_here = Vec::with_capacity(starts.len());
        for start in &mut starts {
            // Whoever is its owner already takes its turn.
            hosted_here.push(start.owner.is_none() && self.own(start));
        }
        if let ([start], [hosted_here], None) = (&*starts, &*hosted_here, now)
            && (*hosted_here || start.owner.is_none())
            && self.begin(start, *hosted_here).await
        {
            let run_id = start.run_id;
            return Ok(vec![StartOutcome::Started { run_id }]);
        }
        let outcomes = self.store().start_runs(starts.clone(), now).await?;
        for ((start, outcome), hosted_here) in starts.iter().zip(&outcomes).zip(hosted_here) {
            if hosted_here || start.owner.is_none() {
                self.announce(start, outcome, hosted_here);
            } else {
                self.announce_deadline(start);
            }
        }
        Ok(outcomes)
    }

    /// Waits for a run on behalf of somebody elsewhere.
    pub(crate) async fn await_run(&self, run_id: Uuid, max: Duration) -> StoreResult<Awaited> {
        let shared = &self.shared;
        // Where the run's end may not be heard, whoever asks is to come back soon.
        let max = max.min(if self.is_deaf() {
            LOOK_WHEN_DEAF
        } else {
            CALL_MAX
        });
        let watch = shared.hub.watch(run_id);
        let ring = watch.ring();
        tokio::pin!(ring);
        // Registered before the look, so that a ring in between is not missed.
        ring.as_mut().enable();
        let run = self.store().get_run(run_id).await?;
        let goes_on = |run: &RunRecord| !run.status.is_terminal() && run.blocked.is_none();
        if !run.as_ref().is_some_and(goes_on) {
            return Ok(Awaited::Run(run.map(Box::new)));
        }
        tokio::select! {
            biased;
            () = ring => {}
            () = shared.runtime.sleep(max) => {}
        }
        if let Some(result) = watch.take_result() {
            return Ok(Awaited::Result(result));
        }
        let run = self.store().get_run(run_id).await?;
        Ok(Awaited::Run(run.map(Box::new)))
    }
}
