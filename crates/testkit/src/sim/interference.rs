//! How a client interferes with its run: asks it to stop, or ends it, by its id or by a batch that selects it.

use std::time::Duration;

use everruns_durable::Client;
use everruns_durable::client::{BatchOptions, BatchOutcome};
use everruns_durable::persistence::model::RunFilter;
use tokio::time::sleep;
use uuid::Uuid;

use super::client::{AGAIN_AFTER, Caller, Plan};
use super::tally::Happening;
use crate::differential::Random;

/// The search attribute by which a batch finds its run.
pub(super) const PLAN_ATTRIBUTE: &str = "plan";

/// What a client does besides starting a run and sending what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interference {
    None,
    Cancel,
    ShutDown,
    Terminate,
}

impl Interference {
    pub(super) fn of(random: &mut Random) -> Self {
        match random.below(100) {
            0..60 => Self::None,
            60..78 => Self::Cancel,
            78..88 => Self::ShutDown,
            _ => Self::Terminate,
        }
    }
}

/// What became of an interference.
#[derive(Debug, Default)]
pub(super) struct Interfered {
    /// Whether the run took note of it.
    pub(super) accepted: bool,
    /// What each batch came to.
    pub(super) batches: Vec<BatchOutcome>,
}

impl Caller {
    pub(super) async fn interfere(&mut self, run_id: Uuid, plan: &Plan) -> Interfered {
        let interference = plan.interference;
        if interference == Interference::None {
            return Interfered::default();
        }
        sleep(Duration::from_millis(self.random.below(6000))).await;
        let by_batch = matches!(interference, Interference::Cancel | Interference::Terminate);
        if by_batch && self.world.extras.batches {
            return self.interfere_by_batch(run_id, plan).await;
        }
        loop {
            let client = self.client();
            let done = match interference {
                Interference::None => return Interfered::default(),
                Interference::Cancel => client.cancel(run_id, "changed our mind").await,
                Interference::ShutDown => client.request_shutdown(run_id).await,
                Interference::Terminate => client.terminate(run_id, "no more").await,
            };
            let accepted = match done {
                Ok(()) => true,
                Err(error) if error.is_run_finished() => false,
                Err(error) if error.is_retryable() => {
                    sleep(AGAIN_AFTER).await;
                    continue;
                }
                Err(error) => {
                    self.world
                        .violated(format!("{interference:?} cannot be sent: {error}"));
                    false
                }
            };
            return Interfered {
                accepted,
                ..Interfered::default()
            };
        }
    }

    /// By a filter that selects the one run.
    async fn interfere_by_batch(&mut self, run_id: Uuid, plan: &Plan) -> Interfered {
        let mut interfered = Interfered::default();
        let mut dry_run = self.random.one_in(3);
        let mut in_doubt = false;
        loop {
            let options = BatchOptions {
                dry_run,
                ..BatchOptions::because("all of this plan")
            };
            let client = self.client();
            let outcome = match batch(&client, plan, options).await {
                Ok(outcome) => outcome,
                Err(error) if error.is_retryable() => {
                    // What was asked may have been done.
                    in_doubt = plan.interference == Interference::Cancel;
                    sleep(AGAIN_AFTER).await;
                    continue;
                }
                Err(error) => {
                    self.world.violated(format!("a batch is refused: {error}"));
                    return interfered;
                }
            };
            self.world
                .note(&self.who, || format!("a batch over {run_id}: {outcome:?}"));
            let affected = outcome.affected > 0;
            interfered.batches.push(outcome);
            if std::mem::take(&mut dry_run) && affected {
                self.world.count(Happening::BatchTriedOut, 1);
                continue;
            }
            self.world
                .count(Happening::BatchDone, usize::from(affected));
            interfered.accepted = affected || in_doubt;
            if !affected {
                self.expect_over(run_id).await;
            }
            return interfered;
        }
    }

    /// A batch leaves a run alone only if it is over.
    async fn expect_over(&self, run_id: Uuid) {
        let run = loop {
            match self.own.get(run_id).await {
                Ok(run) => break run,
                Err(_) => sleep(AGAIN_AFTER).await,
            }
        };
        if !run.status.is_terminal() {
            self.world.violated(format!(
                "a batch passed over run {run_id}, which is {}",
                run.status
            ));
        }
    }
}

async fn batch(
    client: &Client,
    plan: &Plan,
    options: BatchOptions,
) -> everruns_durable::Result<BatchOutcome> {
    let only = RunFilter::default().attribute(PLAN_ATTRIBUTE, plan.key.clone());
    if plan.interference == Interference::Cancel {
        client.batch_cancel(only, options).await
    } else {
        client.batch_terminate(only, options).await
    }
}
