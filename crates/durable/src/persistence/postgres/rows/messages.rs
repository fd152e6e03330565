//! Messages. Payloads stand beside the JSON, so that they are kept to the byte and a codec's output stays what it is.

use durable_core::{Failure, Payload};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{
    ClosePolicy, Message, MessageRecord, NewSignal, StoredStart, WorkflowStatus,
};
use crate::persistence::postgres::bind::{Call, column, json, payload, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::messages;
use crate::persistence::sql::rows::MessageKey;

/// A message without its payloads, as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Head {
    StartChild {
        start: Box<StoredStart>,
        close_policy: ClosePolicy,
        child_id: String,
        epoch: u32,
        iteration: u32,
    },
    ChildFinished {
        parent: Uuid,
        child_id: String,
        epoch: u32,
        iteration: u32,
        status: WorkflowStatus,
        error: Option<Failure>,
    },
    Signal {
        run_id: Uuid,
        signal_id: Uuid,
        signal_type: String,
    },
    CloseChildren,
}

/// New messages of a shard.
pub(in crate::persistence::postgres) fn insert<'a>(
    shard: i32,
    rows: &[&'a MessageRecord],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.sender),
        column(rows, |r| r.sequence_num),
        column(rows, |r| r.idx),
        column(rows, |r| kind(&r.message)),
        column(rows, |r| json(&head(&r.message))),
        column(rows, |r| payloads(&r.message).0.and_then(payload)),
        column(rows, |r| payloads(&r.message).1.and_then(payload)),
    ];
    Call::new(&messages::INSERT_MESSAGES, params)
}

/// Delivered messages of a shard.
pub(in crate::persistence::postgres) fn delete<'a>(
    shard: i32,
    rows: &[&'a MessageKey],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |(sender, _, _)| *sender),
        column(rows, |(_, sequence_num, _)| *sequence_num),
        column(rows, |(_, _, idx)| *idx),
    ];
    Call::new(&messages::DELETE_MESSAGES, params)
}

/// A message.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<MessageRecord> {
    Ok(MessageRecord {
        sender: row.next()?,
        sequence_num: row.next()?,
        idx: row.next()?,
        message: message(row.json()?, row.payload()?, row.payload()?),
    })
}

/// Puts the payloads back.
fn message(head: Head, payload: Payload, memo: Payload) -> Message {
    match head {
        Head::StartChild {
            mut start,
            close_policy,
            child_id,
            epoch,
            iteration,
        } => {
            start.input = payload;
            start.memo = memo;
            Message::StartChild {
                start: *start,
                close_policy,
                child_id,
                epoch,
                iteration,
            }
        }
        Head::ChildFinished {
            parent,
            child_id,
            epoch,
            iteration,
            status,
            error,
        } => Message::ChildFinished {
            parent,
            child_id,
            epoch,
            iteration,
            status,
            result: payload,
            error,
        },
        Head::Signal {
            run_id,
            signal_id,
            signal_type,
        } => Message::Signal {
            run_id,
            signal: NewSignal {
                signal_id,
                signal_type,
                payload,
            },
        },
        Head::CloseChildren => Message::CloseChildren,
    }
}

/// Leaves the payloads out.
fn head(message: &Message) -> Head {
    match message {
        Message::StartChild {
            start,
            close_policy,
            child_id,
            epoch,
            iteration,
        } => Head::StartChild {
            start: Box::new(StoredStart {
                input: Payload::ABSENT,
                memo: Payload::ABSENT,
                ..start.clone()
            }),
            close_policy: *close_policy,
            child_id: child_id.clone(),
            epoch: *epoch,
            iteration: *iteration,
        },
        Message::ChildFinished {
            parent,
            child_id,
            epoch,
            iteration,
            status,
            error,
            ..
        } => Head::ChildFinished {
            parent: *parent,
            child_id: child_id.clone(),
            epoch: *epoch,
            iteration: *iteration,
            status: *status,
            error: error.clone(),
        },
        Message::Signal { run_id, signal } => Head::Signal {
            run_id: *run_id,
            signal_id: signal.signal_id,
            signal_type: signal.signal_type.clone(),
        },
        Message::CloseChildren => Head::CloseChildren,
    }
}

fn kind(message: &Message) -> &'static str {
    match message {
        Message::StartChild { .. } => "start_child",
        Message::ChildFinished { .. } => "child_finished",
        Message::Signal { .. } => "signal",
        Message::CloseChildren => "close_children",
    }
}

fn payloads(message: &Message) -> (Option<&Payload>, Option<&Payload>) {
    match message {
        Message::StartChild { start, .. } => (Some(&start.input), Some(&start.memo)),
        Message::ChildFinished { result, .. } => (Some(result), None),
        Message::Signal { signal, .. } => (Some(&signal.payload), None),
        Message::CloseChildren => (None, None),
    }
}
