//! The outbox, breakers, and results recorded once.

use durable_core::{Payload, Timestamp};

use super::index::first_due;
use super::state::State;
use crate::persistence::limits::fitting;
use crate::persistence::model::{
    BreakerRecord, ClaimOutbox, DedupRecord, OutboxRecord, OutboxReport, OutboxResult, OutboxState,
};
use crate::persistence::model::{after, cut};

impl State {
    pub(super) fn claim_outbox(
        &mut self,
        claim: &ClaimOutbox,
        now: Timestamp,
    ) -> Vec<OutboxRecord> {
        let mut claimed = Vec::new();
        for shard in self.shards.from(claim.first_shard) {
            if OutboxRecord::are_enough(&claimed) {
                break;
            }
            let max = claim.max - claimed.len();
            let due = first_due(&self.shard(shard).outbox, |key| key.0, now, max);
            let sizes = due.iter().map(|(_, id, run_id)| {
                let event = self.find(*run_id).and_then(|run| run.outbox().get(id));
                event.map_or(1, OutboxRecord::claimed_bytes)
            });
            let fit = fitting(sizes);
            for (_, id, run_id) in due.into_iter().take(fit) {
                let event = self.edit_outbox(run_id, id, |event| {
                    event.state = OutboxState::InFlight;
                    event.attempts += 1;
                    event.token = Some(claim.token);
                    event.available_at = after(now, claim.lease);
                });
                claimed.push(event.clone());
            }
        }
        claimed
    }

    /// Stores how publishing went; false: the claim had passed on.
    pub(super) fn finish_outbox(&mut self, report: OutboxReport, now: Timestamp) -> bool {
        let event = self
            .find(report.run_id)
            .and_then(|run| run.outbox().get(&report.id));
        let holds = event.is_some_and(|event| {
            event.state == OutboxState::InFlight && event.token == Some(report.token)
        });
        if holds {
            self.edit_outbox(report.run_id, report.id, |event| {
                event.token = None;
                match report.result {
                    OutboxResult::Published => {
                        event.state = OutboxState::Published;
                        event.published_at = Some(now);
                    }
                    OutboxResult::Retry {
                        after: delay,
                        error,
                    } => {
                        event.state = OutboxState::Pending;
                        event.available_at = after(now, delay);
                        event.last_error = Some(error);
                    }
                    OutboxResult::Failed { error } => {
                        event.state = OutboxState::Failed;
                        event.last_error = Some(error);
                    }
                }
            });
        }
        holds
    }

    /// Saves a breaker if nobody else has since it was read.
    pub(super) fn save_breaker(&mut self, mut breaker: BreakerRecord, now: Timestamp) -> bool {
        let stored = self.breakers.get(&breaker.key);
        let current = stored.map_or(0, |stored| stored.version) == breaker.version;
        if current {
            breaker.version += 1;
            breaker.updated_at = now;
            breaker.opened_at = breaker.opened_at.map(cut);
            self.breakers.insert(breaker.key.clone(), breaker);
        }
        current
    }

    /// Records a result under a key unless there is one; answers the recorded one.
    pub(super) fn put_once(&mut self, key: &str, result: Payload, now: Timestamp) -> Payload {
        let record = self
            .dedup
            .entry(key.to_owned())
            .or_insert_with(|| DedupRecord {
                key: key.to_owned(),
                result,
                created_at: now,
            });
        record.result.clone()
    }
}
