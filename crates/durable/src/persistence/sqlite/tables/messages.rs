//! Messages between runs.
//!
//! Payloads are taken out of the message and kept beside it: JSON could not tell an absent one from `null`, nor keep a codec's bytes.

use durable_core::Payload;
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::limits::fitting;
use crate::persistence::model::{Message, MessageRecord};
use crate::persistence::sql::rows::{MessageKey, Picked};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::messages as sql;
use crate::persistence::sqlite::value::{Body, Id, Json, hex_list, rows};

pub(crate) fn insert(db: Db<'_>, record: &MessageRecord) -> StoreResult<()> {
    let mut message = record.message.clone();
    let (payload, memo) = payloads(&mut message);
    let payload = payload.map(std::mem::take).unwrap_or_default();
    let memo = memo.map(std::mem::take).unwrap_or_default();
    db.run(
        sql::INSERT,
        params![
            db.shard(record.sender),
            Id(record.sender),
            record.sequence_num,
            record.idx,
            Json(&message),
            Body(&payload),
            Body(&memo),
        ],
    )?;
    Ok(())
}

/// The first messages, as many as fit.
pub(crate) fn pick(db: Db<'_>, shard: i32, max: usize, except: &[Uuid]) -> StoreResult<Picked> {
    let except = hex_list(except);
    let params = params![shard, rows(max), except];
    let sizes = db.all(sql::SIZES, params, |row| row.int::<u64>())?;
    let found = sizes.len();
    let fit = fitting(sizes);
    Ok(Picked {
        messages: db.all(sql::PICK, params![shard, rows(fit), except], record)?,
        full: found == max || fit < found,
    })
}

pub(crate) fn of_run(db: Db<'_>, sender: Uuid) -> StoreResult<Vec<MessageRecord>> {
    db.all(sql::OF_RUN, params![db.shard(sender), Id(sender)], record)
}

pub(crate) fn delete(db: Db<'_>, key: MessageKey) -> StoreResult<()> {
    let (sender, sequence_num, idx) = key;
    db.run(
        sql::DELETE,
        params![db.shard(sender), Id(sender), sequence_num, idx],
    )?;
    Ok(())
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<MessageRecord> {
    let mut record = MessageRecord {
        sender: row.id()?,
        sequence_num: row.int()?,
        idx: row.int()?,
        message: row.json()?,
    };
    let (payload, memo) = payloads(&mut record.message);
    let stored = (row.body()?, row.body()?);
    if let Some(payload) = payload {
        *payload = stored.0;
    }
    if let Some(memo) = memo {
        *memo = stored.1;
    }
    Ok(record)
}

/// Where a message holds its payload, and its memo.
fn payloads(message: &mut Message) -> (Option<&mut Payload>, Option<&mut Payload>) {
    match message {
        Message::StartChild { start, .. } => (Some(&mut start.input), Some(&mut start.memo)),
        Message::ChildFinished { result, .. } => (Some(result), None),
        Message::Signal { signal, .. } => (Some(&mut signal.payload), None),
        Message::CloseChildren => (None, None),
    }
}
