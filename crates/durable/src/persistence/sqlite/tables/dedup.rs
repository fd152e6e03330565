//! Results recorded once.

use durable_core::{Payload, Timestamp};
use rusqlite::params;

use crate::persistence::StoreResult;
use crate::persistence::model::DedupRecord;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::dedup as sql;
use crate::persistence::sqlite::value::{At, Body};

pub(crate) fn get(db: Db<'_>, key: &str) -> StoreResult<Option<Payload>> {
    db.first(sql::GET, [key], |row| row.body())
}

/// Records a result unless there is one; answers the recorded one.
pub(crate) fn put(db: Db<'_>, key: &str, result: &Payload, now: Timestamp) -> StoreResult<Payload> {
    db.run(sql::INSERT, params![key, Body(result), At(now)])?;
    db.one(sql::GET, [key], |row| row.body())
}

/// All of them, by key.
pub(crate) fn list(db: Db<'_>) -> StoreResult<Vec<DedupRecord>> {
    db.all(sql::LIST, [], |row| {
        Ok(DedupRecord {
            key: row.text()?,
            result: row.body()?,
            created_at: row.at()?,
        })
    })
}
