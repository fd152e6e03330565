//! The outbox.

use durable_core::Timestamp;

use crate::persistence::StoreResult;
use crate::persistence::model::{
    ClaimOutbox, OutboxRecord, OutboxReport, OutboxResult, OutboxState, after,
};
use crate::persistence::sql::rows::{Changes, Load};
use crate::persistence::sql::rules::work::Work;
use crate::persistence::sql::tx::{Intent, Tx};

/// Claims outbox events of a shard.
#[derive(Debug)]
pub(crate) struct ClaimOutboxOf {
    pub(crate) shard: i32,
    pub(crate) claim: ClaimOutbox,
    pub(crate) max: usize,
}

impl Intent for ClaimOutboxOf {
    type Answer = Vec<OutboxRecord>;

    fn at(&self) -> Option<Timestamp> {
        self.claim.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        let events = tx.claim_outbox(self.shard, &self.claim, self.max).await?;
        Ok((events, Changes::default()))
    }
}

/// Stores publishers' reports.
#[derive(Debug)]
pub(crate) struct FinishOutbox {
    pub(crate) reports: Vec<OutboxReport>,
    pub(crate) now: Option<Timestamp>,
}

impl Intent for FinishOutbox {
    type Answer = Vec<bool>;

    fn at(&self) -> Option<Timestamp> {
        self.now
    }

    async fn plan<T: Tx>(&self, tx: &mut T) -> StoreResult<(Self::Answer, Changes)> {
        // The event's own row and its token fence the report: a run that a caller has locked does
        // not delay the reports of others.
        let load = Load {
            outbox: self
                .reports
                .iter()
                .map(|report| (report.run_id, report.id))
                .collect(),
            ..Load::default()
        };
        let loaded = tx.load(load).await?;
        let mut work = Work::new(tx.now().await?, loaded);
        let stored = self
            .reports
            .iter()
            .map(|report| work.publish(report))
            .collect();
        Ok((stored, work.finish()))
    }
}

impl Work {
    fn publish(&mut self, report: &OutboxReport) -> bool {
        let now = self.now;
        let Some(event) = self.loaded.outbox.get_mut(&(report.run_id, report.id)) else {
            return false;
        };
        if event.state != OutboxState::InFlight || event.token != Some(report.token) {
            return false;
        }
        event.token = None;
        match &report.result {
            OutboxResult::Published => {
                event.state = OutboxState::Published;
                event.published_at = Some(now);
            }
            OutboxResult::Retry {
                after: delay,
                error,
            } => {
                event.state = OutboxState::Pending;
                event.available_at = after(now, *delay);
                event.last_error = Some(error.clone());
            }
            OutboxResult::Failed { error } => {
                event.state = OutboxState::Failed;
                event.last_error = Some(error.clone());
            }
        }
        let event = event.clone();
        self.changes.update_outbox.push(event);
        true
    }
}
