//! Keys.

use uuid::Uuid;

use crate::persistence::StoreResult;
use crate::persistence::model::{KeyKind, KeyRecord};
use crate::persistence::postgres::bind::{Call, at, column, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::keys;
use crate::persistence::postgres::statement::Statement;

/// A key by its name.
pub(in crate::persistence::postgres) type Name = (KeyKind, String);

/// A statement on keys of a shard that needs no more than their names.
pub(in crate::persistence::postgres) fn named<'a>(
    statement: &'static Statement,
    shard: i32,
    names: &[&'a Name],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(names, |(kind, _)| kind.as_str()),
        column(names, |(_, key)| key.as_str()),
    ];
    Call::new(statement, params)
}

/// Tombstones of a shard to look at.
pub(in crate::persistence::postgres) fn tombstones<'a>(shard: i32, names: &[&'a Name]) -> Call<'a> {
    let params = vec![value(shard), column(names, |(_, key)| key.as_str())];
    Call::new(&keys::READ_TOMBSTONES, params)
}

/// Keys of a shard to write.
pub(in crate::persistence::postgres) fn put<'a>(shard: i32, rows: &[&'a KeyRecord]) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |r| r.kind.as_str()),
        column(rows, |r| r.key.as_str()),
        column(rows, |r| r.run_id),
        column(rows, |r| at(r.created_at)),
    ];
    Call::new(&keys::PUT_KEYS, params)
}

/// Keys of a shard to delete, if they still are the run's.
pub(in crate::persistence::postgres) fn delete<'a>(
    shard: i32,
    rows: &[&'a (KeyKind, String, Uuid)],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |(kind, _, _)| kind.as_str()),
        column(rows, |(_, key, _)| key.as_str()),
        column(rows, |(_, _, run_id)| *run_id),
    ];
    Call::new(&keys::DELETE_KEYS, params)
}

/// A key; None while it is only reserved.
pub(in crate::persistence::postgres) fn record(
    row: &mut Reader<'_>,
) -> StoreResult<Option<KeyRecord>> {
    let kind = row.name(KeyKind::parse)?;
    let key = row.next()?;
    let run_id: Option<Uuid> = row.next()?;
    let created_at = row.at()?;
    Ok(run_id.map(|run_id| KeyRecord {
        kind,
        key,
        run_id,
        created_at,
    }))
}

/// A key's name.
pub(in crate::persistence::postgres) fn name(row: &mut Reader<'_>) -> StoreResult<Name> {
    Ok((row.name(KeyKind::parse)?, row.next()?))
}
