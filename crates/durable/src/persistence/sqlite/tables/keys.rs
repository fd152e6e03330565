//! Keys that belong to one run, in their own shard.

use durable_core::Timestamp;
use rusqlite::params;
use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{KeyKind, KeyRecord};
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::keys as sql;
use crate::persistence::sqlite::value::{At, Id, Until, rows};

pub(crate) fn put(db: Db<'_>, key: &KeyRecord) -> StoreResult<()> {
    db.run(
        sql::PUT,
        params![
            key.kind.as_str(),
            key.key,
            Id(key.run_id),
            At(key.created_at),
            db.shards.of_key(&key.key),
        ],
    )?;
    Ok(())
}

pub(crate) fn get(db: Db<'_>, kind: KeyKind, key: &str) -> StoreResult<Option<KeyRecord>> {
    db.first(
        sql::GET,
        params![db.shards.of_key(key), kind.as_str(), key],
        record,
    )
}

/// Deletes a key, if it still is this run's.
pub(crate) fn delete(db: Db<'_>, kind: KeyKind, key: &str, run_id: Uuid) -> StoreResult<()> {
    db.run(
        sql::DELETE,
        params![db.shards.of_key(key), kind.as_str(), key, Id(run_id)],
    )?;
    Ok(())
}

pub(crate) fn old_tombstones(
    db: Db<'_>,
    before: Timestamp,
    max: usize,
) -> StoreResult<Vec<(String, Uuid)>> {
    db.all(
        sql::OLD_TOMBSTONES,
        params![Until(before), rows(max)],
        |row| Ok((row.text()?, row.id()?)),
    )
}

pub(crate) fn old_slots(
    db: Db<'_>,
    before: Timestamp,
    now: Timestamp,
    max: usize,
) -> StoreResult<Vec<(String, Uuid)>> {
    db.all(
        sql::OLD_SLOTS,
        params![Until(before), At(now), rows(max)],
        |row| Ok((row.text()?, row.id()?)),
    )
}

/// All keys, by kind and key.
pub(crate) fn list(db: Db<'_>) -> StoreResult<Vec<KeyRecord>> {
    let mut keys = db.all(sql::LIST, [], record)?;
    keys.sort_unstable();
    Ok(keys)
}

fn record(row: &mut Cells<'_, '_>) -> StoreResult<KeyRecord> {
    Ok(KeyRecord {
        kind: row.name(KeyKind::parse)?,
        key: row.text()?,
        run_id: row.id()?,
        created_at: row.at()?,
    })
}
