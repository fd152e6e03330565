//! Workflow turns over a session.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use durable_proto::convert::{
    Malformed, failure, item, memories, payload, payload_bytes, query_item, required, step_actions,
};
use durable_proto::v1;
use everruns_durable::hosting::{
    Activation, Asked, Beginning, HostError, Item, Step, WorkflowHost,
};
use everruns_durable::workflow::RunInfo;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;
use v1::server_message::Message;
use v1::turn_answer::Answer;

use super::outbox::Outbox;
use crate::grpc::RESPONSE_BYTES_MAX;

/// How long a worker may take for an activation, the wait for a free place included.
pub(super) const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// The activations that a session's worker has to answer.
pub(super) struct Turns {
    outbox: Outbox,
    places: Semaphore,
    last: AtomicU64,
    open: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
}

impl Turns {
    pub(super) fn new(outbox: Outbox, places: usize) -> Arc<Self> {
        Arc::new(Self {
            outbox,
            places: Semaphore::new(places),
            last: AtomicU64::new(0),
            open: Mutex::default(),
        })
    }

    /// Takes an answer in. One that nobody waits for any more came too late, which is no mistake.
    pub(super) fn answered(&self, message: v1::TurnAnswer) -> Result<(), Malformed> {
        let id = message.activation_id.parse().map_err(|_| {
            let problem = format!("{:?} is no id of an activation", message.activation_id);
            Malformed::new("turn_answer.activation_id", problem)
        })?;
        let answer = required("turn_answer.answer", message.answer)?;
        let waiting = self.open.lock().remove(&id);
        if let Some(waiting) = waiting {
            // Who gave up waiting in this very moment does not need it.
            waiting.send(answer).ok();
        }
        Ok(())
    }

    /// The session is over: nobody answers any more.
    pub(super) fn close(&self) {
        self.places.close();
        self.open.lock().clear();
    }

    async fn ask(&self, activation: Activation) -> Result<Answer, HostError> {
        let gone = |why: &str| HostError::Gone(why.to_owned());
        let place = self.places.acquire().await;
        let _place = place.map_err(|_| gone("its session is over"))?;
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let message = activation_message(id, activation);
        let bytes = message.encoded_len();
        if bytes > RESPONSE_BYTES_MAX {
            return Err(HostError::Broken(format!(
                "its history has {bytes} bytes as a message, the limit is {RESPONSE_BYTES_MAX}; let it continue as new in time"
            )));
        }
        let (sender, answer) = oneshot::channel();
        self.open.lock().insert(id, sender);
        let _open = Open { turns: self, id };
        if !self.outbox.send(Message::Activation(message)).await {
            return Err(gone("its connection is lost"));
        }
        answer.await.map_err(|_| gone("its session is over"))
    }
}

/// An activation that waits for its answer, until whoever waits gives up.
struct Open<'a> {
    turns: &'a Turns,
    id: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.turns.open.lock().remove(&self.id);
    }
}

#[async_trait]
impl WorkflowHost for Turns {
    async fn turn(&self, activation: Activation) -> Result<Vec<Step>, HostError> {
        let answer = tokio::time::timeout(TURN_TIMEOUT, self.ask(activation)).await;
        let answer = answer
            .map_err(|_| HostError::Gone(format!("it did not answer within {TURN_TIMEOUT:?}")))??;
        match answer {
            Answer::NotKept(_) => Err(HostError::NotKept),
            Answer::Broken(message) => {
                let failure = failure("broken", message);
                Err(HostError::Broken(failure.map_or_else(
                    |mistake| mistake.to_string(),
                    |failure| format!("the worker cannot go on with the run: {failure}"),
                )))
            }
            Answer::Steps(steps) => {
                let read = |(index, message)| {
                    step(message).map_err(|mistake| mistake.within(&format!("steps[{index}]")))
                };
                let steps: Result<Vec<Step>, Malformed> =
                    steps.steps.into_iter().enumerate().map(read).collect();
                steps.map_err(|mistake| {
                    HostError::Broken(format!("the worker's answer cannot be read: {mistake}"))
                })
            }
        }
    }

    fn forget(&self, run_id: Uuid) {
        self.outbox.post(Message::ForgetRun(v1::ForgetRun {
            run_id: run_id.to_string(),
        }));
    }
}

fn activation_message(id: u64, activation: Activation) -> v1::Activation {
    let (from_start, ephemeral, after_items) = match activation.beginning {
        Beginning::Start => (true, false, 0),
        Beginning::Apart => (true, true, 0),
        Beginning::After(items) => (false, false, items),
    };
    v1::Activation {
        activation_id: id.to_string(),
        run: Some(run_message(activation.run)),
        from_start,
        after_items,
        items: activation.items.into_iter().map(item_message).collect(),
        ephemeral,
    }
}

fn run_message(run: RunInfo) -> v1::RunInfo {
    v1::RunInfo {
        run_id: run.run_id.to_string(),
        workflow_type: run.workflow_type,
        version: run.version,
        workflow_id: run.workflow_id.unwrap_or_default(),
        parent_run_id: run
            .parent_run_id
            .map(|id| id.to_string())
            .unwrap_or_default(),
        iteration: run.iteration,
        attempt: run.attempt,
        memo: payload_bytes(run.memo),
    }
}

fn item_message(told: Item) -> v1::Item {
    let asked = match told.asked {
        Asked::Fact(fact) => item(fact),
        Asked::Query { name, input } => query_item(name, input),
    };
    v1::Item {
        item: Some(asked),
        replayed: told.replayed,
        memories: told
            .memories
            .into_iter()
            .filter_map(v1::Memory::of_event)
            .collect(),
    }
}

fn step(message: v1::Step) -> Result<Step, Malformed> {
    use v1::query_answer::Answer;
    let (actions, unread) = step_actions("actions", message.actions)?;
    let answer = match message
        .query
        .map(|query| required("query.answer", query.answer))
    {
        None => None,
        Some(answer) => Some(match answer? {
            Answer::Result(result) => Ok(payload("query.result", result)?),
            Answer::Failure(message) => Err(failure("query.failure", message)?),
        }),
    };
    let refused = message.refused.map(|message| failure("refused", message));
    Ok(Step {
        actions,
        memories: memories("memories", message.memories)?,
        answer,
        refused: refused.transpose()?,
        unread,
    })
}
