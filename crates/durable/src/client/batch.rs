//! The same for many runs at once: cancel, terminate.

use durable_core::{Payload, signal_types};
use uuid::Uuid;

use super::{Client, Doubt};
use crate::persistence::model::{
    NewSignal, Page, RunFilter, SendOutcome, SendSignal, TerminateOutcome, TerminateRun,
    WorkflowStatus,
};
use crate::persistence::{Bug, StoreError, planted};
use crate::{Error, Result};

/// How a batch goes about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchOptions {
    /// Most runs; none: all that match.
    pub limit: Option<usize>,
    /// Why, for the runs' histories.
    pub reason: String,
    /// Only tells which runs it would be.
    pub dry_run: bool,
}

impl BatchOptions {
    /// All that match, for this reason.
    #[must_use]
    pub fn because(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            ..Self::default()
        }
    }
}

/// What a batch came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchOutcome {
    /// Runs that were asked or ended; in a dry run, those that would be.
    pub affected: u64,
    /// Runs that matched and were left alone: they ended meanwhile, or take nothing because too much waits for them already.
    pub passed_over: u64,
    /// In a dry run: which runs it would be, newest first. Empty otherwise.
    pub runs: Vec<Uuid>,
}

/// Runs handled in one step: what one commit has to hold.
const STEP_RUNS: usize = 200;

impl Client {
    /// Asks all runs that match to stop, as [`Client::cancel`] asks one. Newest first, in steps of a few hundred; runs started meanwhile are not touched.
    ///
    /// # Errors
    /// [`Error::is_invalid`] for a filter that selects everything; the store's. What was done before an error stays done: call again for the rest.
    pub async fn batch_cancel(
        &self,
        filter: RunFilter,
        options: BatchOptions,
    ) -> Result<BatchOutcome> {
        let reason = Payload::from_value(&options.reason)
            .map_err(|error| Error::payload("the reason", error))?;
        let mut batch = Batch::new(self, filter, &options)?;
        while let Some(step) = batch.next_step().await? {
            let signals: Vec<SendSignal> = step
                .into_iter()
                .map(|run_id| self.cancel_signal(run_id, &reason))
                .collect();
            let send = || self.store().send_signals(signals.clone(), None);
            let outcomes = self.retried(send).await?;
            for (sent, outcome) in signals.iter().zip(&outcomes) {
                let accepted = !matches!(outcome, SendOutcome::Rejected(_));
                batch.outcome.count(accepted);
                if accepted {
                    self.ring(sent.run_id);
                }
            }
        }
        Ok(batch.outcome)
    }

    /// Ends all runs that match at once, as [`Client::terminate`] ends one; otherwise like [`Client::batch_cancel`].
    ///
    /// # Errors
    /// As there.
    pub async fn batch_terminate(
        &self,
        filter: RunFilter,
        options: BatchOptions,
    ) -> Result<BatchOutcome> {
        let mut batch = Batch::new(self, filter, &options)?;
        while let Some(step) = batch.next_step().await? {
            let requests: Vec<TerminateRun> = step
                .into_iter()
                .map(|run_id| TerminateRun {
                    run_id,
                    reason: options.reason.clone(),
                })
                .collect();
            let end = || self.store().terminate_runs(requests.clone(), None);
            let (outcomes, doubt) = self.retried_with_doubt(end).await?;
            let mut ended = Vec::new();
            for (request, outcome) in requests.iter().zip(&outcomes) {
                let done = match outcome {
                    TerminateOutcome::Terminated => true,
                    TerminateOutcome::AlreadyFinished(_) if doubt == Doubt::Some => {
                        self.was_terminated(request).await?
                    }
                    _ => false,
                };
                batch.outcome.count(done);
                ended.extend(done.then_some(request.run_id));
            }
            self.terminated(&ended).await;
        }
        Ok(batch.outcome)
    }

    fn cancel_signal(&self, run_id: Uuid, reason: &Payload) -> SendSignal {
        SendSignal {
            run_id,
            signal: NewSignal {
                signal_id: self.shared.runtime.new_id(),
                signal_type: signal_types::CANCEL.to_owned(),
                payload: reason.clone(),
            },
        }
    }
}

impl BatchOutcome {
    const fn count(&mut self, done: bool) {
        if done {
            self.affected += 1;
        } else {
            self.passed_over += 1;
        }
    }
}

/// Goes through the runs that match, step by step, from the newest to the oldest.
struct Batch<'a> {
    client: &'a Client,
    /// None: it can match no run that has not ended.
    filter: Option<RunFilter>,
    left: usize,
    dry_run: bool,
    outcome: BatchOutcome,
}

impl<'a> Batch<'a> {
    fn new(client: &'a Client, mut filter: RunFilter, options: &BatchOptions) -> Result<Self> {
        if filter.selects_all() {
            let message = "a batch needs a filter: by type, status, attributes, workflow id or time; this one selects every run";
            return Err(StoreError::Invalid(message.to_owned()).into());
        }
        if planted(Bug::BatchUnselective) {
            filter.attributes.clear();
        }
        Ok(Self {
            client,
            filter: only_open(filter),
            left: options.limit.unwrap_or(usize::MAX),
            dry_run: options.dry_run,
            outcome: BatchOutcome::default(),
        })
    }

    /// The next runs to do something about; a dry run only takes note of them.
    async fn next_step(&mut self) -> Result<Option<Vec<Uuid>>> {
        while let Some(step) = self.look().await? {
            if !self.dry_run {
                return Ok(Some(step));
            }
            self.outcome.affected += step.len() as u64;
            self.outcome.runs.extend(step);
        }
        Ok(None)
    }

    async fn look(&mut self) -> Result<Option<Vec<Uuid>>> {
        let limit = STEP_RUNS.min(self.left);
        let mut filter = match self.filter.take() {
            Some(filter) if limit > 0 => filter,
            _ => return Ok(None),
        };
        loop {
            let page = Page::first(limit);
            let found = self.client.store().list_runs(filter.clone(), page).await?;
            let step: Vec<Uuid> = found.runs.into_iter().map(|run| run.id).collect();
            filter.before = found.next;
            // A page may be empty and yet not the last.
            if step.is_empty() && found.next.is_some() {
                continue;
            }
            self.filter = found.next.map(|_| filter);
            self.left -= step.len();
            return Ok(Some(step).filter(|step| !step.is_empty()));
        }
    }
}

/// Runs that have ended are nobody's business here.
fn only_open(mut filter: RunFilter) -> Option<RunFilter> {
    if filter.statuses.is_empty() {
        filter.statuses = WorkflowStatus::ALL.to_vec();
    }
    filter.statuses.retain(|status| !status.is_terminal());
    (!filter.statuses.is_empty()).then_some(filter)
}
