//! Search attributes.

use durable_core::{AttributeValue, Timestamp};
use uuid::Uuid;

use crate::persistence::model::Attributes;
use crate::persistence::postgres::bind::{Call, column, maybe_at, nullable, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::attributes;
use crate::persistence::{StoreError, StoreResult};

/// An attribute as a change: set, or removed.
pub(in crate::persistence::postgres) type Change = (Uuid, String, Option<AttributeValue>);

/// Attributes of a shard to set.
pub(in crate::persistence::postgres) fn put<'a>(shard: i32, rows: &[&'a Change]) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |(run_id, _, _)| *run_id),
        column(rows, |(_, name, _)| name.as_str()),
        column(rows, |(_, _, v)| v.as_ref().map(kind)),
        nullable(rows, |(_, _, v)| v.as_ref().and_then(text)),
        nullable(rows, |(_, _, v)| v.as_ref().and_then(int)),
        nullable(rows, |(_, _, v)| v.as_ref().and_then(double)),
        nullable(rows, |(_, _, v)| v.as_ref().and_then(bool)),
        nullable(rows, |(_, _, v)| maybe_at(v.as_ref().and_then(time))),
    ];
    Call::new(&attributes::PUT_ATTRIBUTES, params)
}

/// Attributes of a shard to remove.
pub(in crate::persistence::postgres) fn delete<'a>(shard: i32, rows: &[&'a Change]) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |(run_id, _, _)| *run_id),
        column(rows, |(_, name, _)| name.as_str()),
    ];
    Call::new(&attributes::DELETE_ATTRIBUTES, params)
}

/// An attribute, its name and its run.
pub(in crate::persistence::postgres) fn record(
    row: &mut Reader<'_>,
) -> StoreResult<(Uuid, String, AttributeValue)> {
    let run_id = row.next()?;
    let name: String = row.next()?;
    let kind: String = row.next()?;
    let text: Option<String> = row.next()?;
    let int: Option<i64> = row.next()?;
    let double: Option<f64> = row.next()?;
    let bool: Option<bool> = row.next()?;
    let time = row.maybe_at()?;
    let value = match kind.as_str() {
        "text" => text.map(AttributeValue::Text),
        "int" => int.map(AttributeValue::Int),
        "double" => double.map(AttributeValue::Double),
        "bool" => bool.map(AttributeValue::Bool),
        "time" => time.map(AttributeValue::Time),
        _ => None,
    };
    let value = value.ok_or_else(|| StoreError::Corrupt {
        message: format!("search attribute {name:?} of run {run_id} has no value of its kind"),
        source: None,
    })?;
    Ok((run_id, name, value))
}

/// Attributes of one run.
pub(in crate::persistence::postgres) fn of_run(
    records: Vec<(Uuid, String, AttributeValue)>,
) -> Attributes {
    records
        .into_iter()
        .map(|(_, name, value)| (name, value))
        .collect()
}

fn kind(value: &AttributeValue) -> &'static str {
    match value {
        AttributeValue::Text(_) => "text",
        AttributeValue::Int(_) => "int",
        AttributeValue::Double(_) => "double",
        AttributeValue::Bool(_) => "bool",
        AttributeValue::Time(_) => "time",
    }
}

fn text(value: &AttributeValue) -> Option<&str> {
    match value {
        AttributeValue::Text(text) => Some(text),
        _ => None,
    }
}

fn int(value: &AttributeValue) -> Option<i64> {
    match value {
        AttributeValue::Int(int) => Some(*int),
        _ => None,
    }
}

fn double(value: &AttributeValue) -> Option<f64> {
    match value {
        AttributeValue::Double(double) => Some(*double),
        _ => None,
    }
}

fn bool(value: &AttributeValue) -> Option<bool> {
    match value {
        AttributeValue::Bool(bool) => Some(*bool),
        _ => None,
    }
}

fn time(value: &AttributeValue) -> Option<Timestamp> {
    match value {
        AttributeValue::Time(time) => Some(*time),
        _ => None,
    }
}
