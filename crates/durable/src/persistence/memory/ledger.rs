//! What a turn writes beside the queue: answers to updates, attributes, the outbox, log lines.

use std::collections::BTreeMap;

use durable_core::{AttributeValue, Failure, Timestamp, error_types};
use uuid::Uuid;

use super::state::State;
use crate::persistence::model::{
    NewOutboxEvent, NewStepLog, OutboxRecord, OutboxState, StepLogRecord, UpdateAnswer, UpdateState,
};

impl State {
    /// Answers updates; when the run ends, those that nobody answered fail.
    pub(super) fn answer_updates(
        &mut self,
        run_id: Uuid,
        answers: Vec<UpdateAnswer>,
        ends: bool,
        now: Timestamp,
    ) {
        let updates = &mut self.at_mut(run_id).updates;
        for answer in answers {
            let Some(update) = updates.get_mut(&answer.update_id) else {
                continue;
            };
            if update.state == UpdateState::Pending {
                update.state = answer
                    .result
                    .map_or_else(UpdateState::Failed, UpdateState::Completed);
                update.completed_at = Some(now);
            }
        }
        if !ends {
            return;
        }
        for update in updates.values_mut() {
            if update.state == UpdateState::Pending {
                let failure = Failure::new(error_types::UPDATE_FAILED, "the run ended first");
                update.state = UpdateState::Failed(failure.non_retryable());
                update.completed_at = Some(now);
            }
        }
    }

    pub(super) fn set_attributes(
        &mut self,
        run_id: Uuid,
        attributes: BTreeMap<String, Option<AttributeValue>>,
    ) {
        let stored = &mut self.at_mut(run_id).attributes;
        for (name, value) in attributes {
            match value {
                Some(value) => stored.insert(name, value),
                None => stored.remove(&name),
            };
        }
    }

    pub(super) fn add_outbox(&mut self, run_id: Uuid, events: Vec<NewOutboxEvent>, now: Timestamp) {
        for event in events {
            if self.at(run_id).outbox().contains_key(&event.id) {
                continue;
            }
            self.put_outbox(OutboxRecord {
                id: event.id,
                run_id,
                event_type: event.event_type,
                payload: event.payload,
                idempotency_key: event.idempotency_key,
                state: OutboxState::Pending,
                attempts: 0,
                available_at: now,
                token: None,
                last_error: None,
                created_at: now,
                published_at: None,
            });
        }
    }

    pub(super) fn add_step_logs(&mut self, run_id: Uuid, logs: Vec<NewStepLog>, now: Timestamp) {
        let stored = &mut self.at_mut(run_id).step_logs;
        for log in logs {
            stored.entry(log.id).or_insert(StepLogRecord {
                id: log.id,
                run_id,
                activity_id: log.activity_id,
                attempt: log.attempt,
                level: log.level,
                message: log.message,
                meta: log.meta,
                created_at: now,
            });
        }
    }
}
