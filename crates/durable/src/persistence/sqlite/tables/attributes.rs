//! Search attributes.

use durable_core::AttributeValue;
use rusqlite::params;
use rusqlite::types::Value;
use uuid::Uuid;

use crate::persistence::model::Attributes;
use crate::persistence::sqlite::cells::Cells;
use crate::persistence::sqlite::db::Db;
use crate::persistence::sqlite::sql::attributes as sql;
use crate::persistence::sqlite::value::Id;
use crate::persistence::{StoreError, StoreResult};

/// Sets an attribute, or removes it.
pub(crate) fn put(
    db: Db<'_>,
    run_id: Uuid,
    name: &str,
    value: Option<&AttributeValue>,
) -> StoreResult<()> {
    let shard = db.shard(run_id);
    match value.map(stored) {
        Some((value_type, value)) => db.run(
            sql::PUT,
            params![shard, Id(run_id), name, value_type, value],
        )?,
        None => db.run(sql::DELETE, params![shard, Id(run_id), name])?,
    };
    Ok(())
}

pub(crate) fn of_run(db: Db<'_>, run_id: Uuid) -> StoreResult<Attributes> {
    let found = db.all(sql::OF_RUN, params![db.shard(run_id), Id(run_id)], |row| {
        Ok((row.text()?, read(row)?))
    })?;
    Ok(found.into_iter().collect())
}

/// Names of a run's attributes.
pub(crate) fn names_of(db: Db<'_>, run_id: Uuid) -> StoreResult<Vec<String>> {
    let params = params![db.shard(run_id), Id(run_id)];
    db.all(sql::NAMES_OF_RUN, params, |row| row.text())
}

/// Type and value as they are stored.
pub(super) fn stored(value: &AttributeValue) -> (&'static str, Value) {
    match value {
        AttributeValue::Text(text) => ("text", Value::Text(text.clone())),
        AttributeValue::Int(number) => ("int", Value::Integer(*number)),
        AttributeValue::Double(number) => ("double", Value::Real(*number)),
        AttributeValue::Bool(flag) => ("bool", Value::Integer(i64::from(*flag))),
        AttributeValue::Time(instant) => ("time", Value::Integer(instant.as_microsecond())),
    }
}

fn read(row: &mut Cells<'_, '_>) -> StoreResult<AttributeValue> {
    Ok(match row.str()? {
        "text" => AttributeValue::Text(row.text()?),
        "int" => AttributeValue::Int(row.int()?),
        "double" => AttributeValue::Double(row.float()?),
        "bool" => AttributeValue::Bool(row.flag()?),
        "time" => AttributeValue::Time(row.at()?),
        other => {
            return Err(StoreError::Corrupt {
                message: format!("{other:?} is not a type of search attributes"),
                source: None,
            });
        }
    })
}
