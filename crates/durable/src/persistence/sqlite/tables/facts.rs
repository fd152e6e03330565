//! The inbox.

use std::ops::ControlFlow;

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use super::{events, signals};
use crate::persistence::StoreResult;
use crate::persistence::limits::TURN_FACTS_MAX;
use crate::persistence::model::Fact;
use crate::persistence::prefix::Prefix;
use crate::persistence::sql::rows::{KeepUnread, UnreadSlice};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::facts as sql;
use crate::persistence::sqlite::value::{At, Body, Id, Json, Utf8, rows};

pub(crate) fn insert(db: Db<'_>, run_id: Uuid, fact: &Fact) -> StoreResult<()> {
    let event = fact.event.encode();
    db.run(
        sql::INSERT,
        params![
            db.shard(run_id),
            Id(run_id),
            fact.arrival,
            event.event_type,
            Utf8(&event.data),
            Body(&event.payload),
            Json(&fact.attempts),
            fact.last_attempt.as_ref().map(Json),
            At(fact.arrived_at),
        ],
    )?;
    Ok(())
}

/// All facts that wait for a run.
pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<Fact>> {
    db.all(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], fact)
}

/// The first facts that wait for a run, as many as its turn takes, and the arrival of one behind
/// them, if any waits there.
pub(crate) fn first_of_run(
    db: Db<'_>,
    run_id: Uuid,
    prefix: &mut Prefix,
) -> StoreResult<(Vec<Fact>, Option<i64>)> {
    prefix.next_run();
    let (mut facts, mut last) = (Vec::new(), None);
    // Row by row: what is not taken is not read.
    db.each(
        sql::FIRST_OF_RUN,
        params![db.shard(run_id), Id(run_id), rows(TURN_FACTS_MAX + 1)],
        |row| {
            if !prefix.takes_more() {
                last = Some(row.int()?);
                return Ok(ControlFlow::Break(()));
            }
            let fact = fact(row)?;
            last = Some(fact.arrival);
            prefix.count(&fact);
            facts.push(fact);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    Ok((facts, last))
}

fn fact(row: &mut Cells<'_, '_>) -> StoreResult<Fact> {
    Ok(Fact {
        arrival: row.int()?,
        event: events::event(row)?,
        attempts: row.json()?,
        last_attempt: row.json_opt()?,
        arrived_at: row.at()?,
    })
}

/// The signals that wait for a run behind an arrival, as one slice; none where none wait. The
/// writer moves them one by one.
pub(crate) fn unread(db: Db<'_>, run_id: Uuid, behind: i64) -> StoreResult<Option<UnreadSlice>> {
    let arrivals = signals_behind(db, run_id, behind)?;
    let (Some((first, _)), Some((last, _))) = (arrivals.first(), arrivals.last()) else {
        return Ok(None);
    };
    Ok(Some(UnreadSlice {
        first: *first,
        last: *last,
        signals: i64::try_from(arrivals.len()).unwrap_or(i64::MAX),
        bytes: arrivals.iter().map(|(_, bytes)| bytes).sum(),
    }))
}

/// Waiting signals become unread events, in order of arrival.
pub(crate) fn keep_unread(db: Db<'_>, keep: &KeepUnread, now: Timestamp) -> StoreResult<()> {
    let arrivals = signals_behind(db, keep.run_id, keep.slice.first.saturating_sub(1))?;
    let arrivals = arrivals.into_iter().map(|(arrival, _)| arrival);
    let of_slice = arrivals.take_while(|arrival| *arrival <= keep.slice.last);
    for (arrival, sequence_num) in of_slice.zip(keep.sequence + 1..) {
        events::keep_unread(db, keep.run_id, arrival, sequence_num, now)?;
    }
    Ok(())
}

/// Arrival and bytes of each signal that waits behind an arrival.
fn signals_behind(db: Db<'_>, run_id: Uuid, behind: i64) -> StoreResult<Vec<(i64, i64)>> {
    let params = params![db.shard(run_id), Id(run_id), behind];
    db.all(sql::SIGNALS_BEHIND, params, |row| {
        Ok((row.int::<i64>()?, row.int::<i64>()?))
    })
}

/// A turn takes what arrived up to there; signals among it are marked.
pub(crate) fn consume(db: Db<'_>, run_id: Uuid, through: i64, now: Timestamp) -> StoreResult<()> {
    db.run(sql::CONSUME, params![db.shard(run_id), Id(run_id), through])?;
    signals::mark(db, run_id, through, now)
}

/// A reset drops what its dropped tasks and timers had sent.
pub(crate) fn drop_stale(db: Db<'_>, run_id: Uuid) -> StoreResult<()> {
    db.run(sql::DROP_STALE, params![db.shard(run_id), Id(run_id)])?;
    Ok(())
}

/// A new iteration drops what the old one had asked for.
pub(crate) fn drop_iteration(db: Db<'_>, run_id: Uuid) -> StoreResult<()> {
    db.run(sql::DROP_ITERATION, params![db.shard(run_id), Id(run_id)])?;
    Ok(())
}
