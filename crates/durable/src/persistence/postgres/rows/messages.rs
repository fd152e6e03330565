//! Messages. Payloads stand beside the JSON, so that they are kept to the byte and a codec's output stays what it is.

use durable_core::Payload;

use crate::persistence::StoreResult;
use crate::persistence::model::{Message, MessageRecord};
use crate::persistence::postgres::bind::{Call, column, json, nullable, payload, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::messages;
use crate::persistence::postgres::statement::Statement;
use crate::persistence::sql::rows::MessageKey;

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
        column(rows, |r| head(&r.message)),
        nullable(rows, |r| payloads(&r.message).0.and_then(payload)),
        nullable(rows, |r| payloads(&r.message).1.and_then(payload)),
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

/// Messages of a shard by their keys.
pub(in crate::persistence::postgres) fn read<'a>(shard: i32, keys: &'a [MessageKey]) -> Call<'a> {
    by_key(&messages::READ_MESSAGES, shard, keys)
}

/// Where the messages of senders stand, each sender's up to one of them.
pub(in crate::persistence::postgres) fn up_to<'a>(shard: i32, last: &'a [MessageKey]) -> Call<'a> {
    by_key(&messages::MESSAGES_UP_TO, shard, last)
}

fn by_key<'a>(statement: &'static Statement, shard: i32, keys: &'a [MessageKey]) -> Call<'a> {
    let keys: Vec<&MessageKey> = keys.iter().collect();
    let params = vec![
        value(shard),
        column(&keys, |(sender, _, _)| *sender),
        column(&keys, |(_, sequence_num, _)| *sequence_num),
        column(&keys, |(_, _, idx)| *idx),
    ];
    Call::new(statement, params)
}

/// A message.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<MessageRecord> {
    let sender = row.next()?;
    let sequence_num = row.next()?;
    let idx = row.next()?;
    let mut message: Message = row.json()?;
    let (first, second) = (row.payload()?, row.payload()?);
    let (place, memo) = payloads_mut(&mut message);
    if let Some(place) = place {
        *place = first;
    }
    if let Some(memo) = memo {
        *memo = second;
    }
    Ok(MessageRecord {
        sender,
        sequence_num,
        idx,
        message,
    })
}

fn kind(message: &Message) -> &'static str {
    match message {
        Message::StartChild { .. } => "start_child",
        Message::ChildFinished { .. } => "child_finished",
        Message::Signal { .. } => "signal",
        Message::CloseChildren => "close_children",
    }
}

/// The message's JSON without its payloads.
fn head(message: &Message) -> Vec<u8> {
    let mut head = message.clone();
    let (first, second) = payloads_mut(&mut head);
    for place in first.into_iter().chain(second) {
        *place = Payload::ABSENT;
    }
    json(&head)
}

fn payloads(message: &Message) -> (Option<&Payload>, Option<&Payload>) {
    match message {
        Message::StartChild { start, .. } => (Some(&start.input), Some(&start.memo)),
        Message::ChildFinished { result, .. } => (Some(result), None),
        Message::Signal { signal, .. } => (Some(&signal.payload), None),
        Message::CloseChildren => (None, None),
    }
}

fn payloads_mut(message: &mut Message) -> (Option<&mut Payload>, Option<&mut Payload>) {
    match message {
        Message::StartChild { start, .. } => (Some(&mut start.input), Some(&mut start.memo)),
        Message::ChildFinished { result, .. } => (Some(result), None),
        Message::Signal { signal, .. } => (Some(&mut signal.payload), None),
        Message::CloseChildren => (None, None),
    }
}
