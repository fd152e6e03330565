//! Claims of runs with a turn due.

use std::collections::BTreeSet;

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use super::{facts, runs};
use crate::persistence::StoreResult;
use crate::persistence::limits::fitting;
use crate::persistence::model::{ClaimTurns, ClaimedTurn, HostedType, after};
use crate::persistence::prefix::Prefix;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::runs as sql;
use crate::persistence::sqlite::value::{At, Id, rows};

pub(crate) fn claim(
    db: Db<'_>,
    shard: i32,
    claim: &ClaimTurns,
    max: usize,
    now: Timestamp,
) -> StoreResult<Vec<ClaimedTurn>> {
    let expires_at = after(now, claim.lease);
    let mut claimed = Vec::new();
    let mut prefix = Prefix::default();
    let ready = first_ready(db, shard, claim, max, now)?;
    let fitting = fitting(ready.iter().map(|(.., bytes)| *bytes));
    for (_, run_id, _) in ready.into_iter().take(fitting) {
        db.run(
            sql::SET_OWNER,
            params![shard, Id(run_id), claim.worker_id, At(expires_at)],
        )?;
        claimed.extend(turn(db, run_id, &mut prefix)?);
    }
    Ok(claimed)
}

/// A run with the first of the facts that wait for it.
pub(crate) fn turn(
    db: Db<'_>,
    run_id: Uuid,
    prefix: &mut Prefix,
) -> StoreResult<Option<ClaimedTurn>> {
    let Some(run) = runs::get(db, run_id)? else {
        return Ok(None);
    };
    let (facts, last) = facts::first_of_run(db, run_id, prefix)?;
    Ok(Some(ClaimedTurn::new(run, facts, last)))
}

fn first_ready(
    db: Db<'_>,
    shard: i32,
    claim: &ClaimTurns,
    max: usize,
    now: Timestamp,
) -> StoreResult<Vec<(Timestamp, Uuid, u64)>> {
    let hosted: BTreeSet<&HostedType> = claim.hosted.iter().collect();
    let mut ready = Vec::new();
    for hosted in hosted {
        ready.extend(db.all(
            sql::READY,
            params![
                shard,
                hosted.workflow_type,
                hosted.version,
                At(now),
                claim.build,
                rows(max)
            ],
            |row| Ok((row.at()?, row.id()?, row.int()?)),
        )?);
    }
    ready.sort_unstable();
    ready.truncate(max);
    Ok(ready)
}
