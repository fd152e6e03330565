//! Dead letters: what to do about activities that failed for good.

use durable_core::Payload;
use serde::Serialize;
use uuid::Uuid;

use super::{Client, Doubt};
use crate::error::Kind;
use crate::persistence::model::{
    DeadLetter, DeadLetterDecision, DecisionOutcome, DlqFilter, Page, SendRejection,
};
use crate::persistence::{Ring, StoreError};
use crate::{Error, Result};

impl Client {
    /// A dead letter by its id, with its input and every attempt's failure.
    ///
    /// # Errors
    /// The store's.
    pub async fn get_dead_letter(&self, id: Uuid) -> Result<Option<DeadLetter>> {
        Ok(self.store().get_dead_letter(id).await?)
    }

    /// Dead letters, newest first, without their payloads ([`DeadLetter::listed`]).
    ///
    /// # Errors
    /// The store's.
    pub async fn list_dead_letters(
        &self,
        filter: DlqFilter,
        page: Page,
    ) -> Result<Vec<DeadLetter>> {
        Ok(self.store().list_dlq(filter, page).await?)
    }

    /// Tries the activity again. A run that waits for it ([`durable_core::ExhaustedPolicy::Park`]) gets it queued again; one that saw
    /// the failure is taken back to just before it, also when it failed since.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; [`Error::is_run_finished`] for a run that has completed or was cancelled; [`Error::is_conflict`] where
    /// somebody decided before.
    pub async fn requeue_dead_letter(&self, run_id: Uuid, id: Uuid) -> Result<()> {
        match self.decide(run_id, id, DeadLetterDecision::Requeue).await? {
            DecisionOutcome::NeedsReset { .. } => self.retry_step(run_id, id).await,
            outcome => self.decided(run_id, id, &outcome).await,
        }
    }

    /// Gives the activity a result by hand.
    ///
    /// # Errors
    /// As [`Client::requeue_dead_letter`]; [`Error::is_invalid`] for a run that saw the failure already: requeue instead.
    pub async fn complete_dead_letter<T: Serialize + Sync>(
        &self,
        run_id: Uuid,
        id: Uuid,
        result: &T,
    ) -> Result<()> {
        let result = Payload::from_value(result)
            .map_err(|error| Error::payload("the result given by hand", error))?;
        let decision = DeadLetterDecision::Complete { result };
        let outcome = self.decide(run_id, id, decision).await?;
        self.decided(run_id, id, &outcome).await
    }

    /// Leaves it at the failure: a run that waits sees it now.
    ///
    /// # Errors
    /// As [`Client::requeue_dead_letter`].
    pub async fn discard_dead_letter(&self, run_id: Uuid, id: Uuid) -> Result<()> {
        let outcome = self.decide(run_id, id, DeadLetterDecision::Discard).await?;
        self.decided(run_id, id, &outcome).await
    }

    /// Deletes dead letters, at most `max`, but none for which a run waits; answers how many.
    ///
    /// # Errors
    /// The store's.
    pub async fn purge_dead_letters(&self, filter: DlqFilter, max: usize) -> Result<u64> {
        Ok(self.store().purge_dlq(filter, max).await?)
    }

    pub(super) async fn decide(
        &self,
        run_id: Uuid,
        id: Uuid,
        decision: DeadLetterDecision,
    ) -> Result<DecisionOutcome> {
        let store = self.store();
        let (outcome, doubt) = self
            .retried_with_doubt(|| store.decide_dead_letter(run_id, id, decision.clone(), None))
            .await?;
        Ok(match outcome {
            // By a try whose answer was lost.
            DecisionOutcome::AlreadyDecided(state)
                if doubt == Doubt::Some && state == decision.leads_to() =>
            {
                DecisionOutcome::Done
            }
            outcome => outcome,
        })
    }

    async fn decided(&self, run_id: Uuid, id: Uuid, outcome: &DecisionOutcome) -> Result<()> {
        match outcome {
            DecisionOutcome::Done => {
                self.queue_has_moved().await;
                self.ring(run_id);
                Ok(())
            }
            DecisionOutcome::NotFound => Err(StoreError::NotFound {
                what: "dead letter",
                id: id.to_string(),
            }
            .into()),
            DecisionOutcome::AlreadyDecided(_) => {
                let message = format!("somebody decided about dead letter {id} before");
                Err(StoreError::Conflict(message).into())
            }
            DecisionOutcome::RunFinished => {
                // The outcome does not say how it ended; a run that has does not change any more.
                let rejection = match self.store().get_run(run_id).await? {
                    Some(run) => SendRejection::RunFinished { status: run.status },
                    None => SendRejection::NotFound,
                };
                Err(Kind::Send { run_id, rejection }.into())
            }
            DecisionOutcome::NotAwaited => {
                let message = format!(
                    "run {run_id} goes on and no longer waits for dead letter {id}: it was reset or continued as new since; purge the letter"
                );
                Err(StoreError::Conflict(message).into())
            }
            DecisionOutcome::NeedsReset { .. } => Err(StoreError::Invalid(format!(
                "run {run_id} has seen the failure; requeue the dead letter to take the run back to before it"
            ))
            .into()),
        }
    }

    /// Tasks may be claimed and clocks run that could or did not before: of which types, the store tells.
    async fn queue_has_moved(&self) {
        let ring = match self.store().waiting_types().await {
            Ok(waiting) => Ring {
                task_types: waiting.tasks.into_iter().collect(),
                clocks: true,
                ..Ring::default()
            },
            // What was decided is stored; whoever can look looks at everything.
            Err(_) => Ring::everything(),
        };
        self.shared.hub.tell_others(ring.clone());
        self.shared.hub.heard(ring);
    }
}
