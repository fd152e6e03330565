//! Activations and their answers between the wire and the library.

use durable_proto::convert::{
    Malformed, failure, item, memories, payload, payload_bytes, query_item, required, step_actions,
};
use durable_proto::v1;
use everruns_durable::hosting::{Activation, Asked, Beginning, HostError, Item, Step};
use everruns_durable::workflow::RunInfo;
use v1::turn_answer::Answer;

/// An activation to send, under the longest id there is until it has its own.
pub(super) fn activation_message(activation: Activation) -> v1::Activation {
    let (from_start, ephemeral, after_items) = match activation.beginning {
        Beginning::Start => (true, false, 0),
        Beginning::Apart => (true, true, 0),
        Beginning::After(items) => (false, false, items),
    };
    v1::Activation {
        activation_id: u64::MAX.to_string(),
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

/// What a worker has answered. What cannot be read is the trouble of this run alone.
pub(super) fn steps(answer: Option<Answer>) -> Result<Vec<Step>, HostError> {
    let unreadable = |mistake: Malformed| {
        HostError::Broken(format!("the worker's answer cannot be read: {mistake}"))
    };
    match required("answer", answer).map_err(unreadable)? {
        Answer::NotKept(_) => Err(HostError::NotKept),
        Answer::Broken(message) => {
            let failure = failure("broken", message).map_err(unreadable)?;
            Err(HostError::Broken(format!(
                "the worker cannot go on with the run: {failure}"
            )))
        }
        Answer::Steps(steps) => {
            let read = |(index, message)| {
                step(message).map_err(|mistake| mistake.within(&format!("steps[{index}]")))
            };
            let steps: Result<Vec<Step>, Malformed> =
                steps.steps.into_iter().enumerate().map(read).collect();
            steps.map_err(unreadable)
        }
    }
}

/// What an item led to.
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
