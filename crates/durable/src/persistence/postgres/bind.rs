//! Parameters: rows turned into columns, one array each.

use std::collections::BTreeMap;

use durable_core::{Payload, Timestamp, TraceContext};
use serde::Serialize;
use tokio_postgres::types::ToSql;

use super::instant::Instant;
use super::statement::Statement;

/// A parameter; borrows what it can from what is written.
pub(super) type Param<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A statement with its parameters.
pub(super) struct Call<'a> {
    /// The statement.
    pub(super) statement: &'static Statement,
    /// Its parameters.
    pub(super) params: Vec<Param<'a>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(statement: &'static Statement, params: Vec<Param<'a>>) -> Self {
        Self { statement, params }
    }
}

/// A single value.
pub(super) fn value<'a>(value: impl ToSql + Sync + Send + 'a) -> Param<'a> {
    Box::new(value)
}

/// One field of all rows, as an array.
pub(super) fn column<'a, R, T>(rows: &[&'a R], field: impl Fn(&'a R) -> T) -> Param<'a>
where
    T: ToSql + Sync + Send + 'a,
{
    Box::new(rows.iter().map(|row| field(row)).collect::<Vec<T>>())
}

/// One field of all rows, as an array, that is none in most of them. Where it is none in all, the array is empty: a set takes its length
/// from its longest column and has NULL where another one ends, so that nobody writes and reads a list of nothing.
pub(super) fn nullable<'a, R, T>(rows: &[&'a R], field: impl Fn(&'a R) -> Option<T>) -> Param<'a>
where
    T: ToSql + Sync + Send + 'a,
{
    let mut values: Vec<Option<T>> = rows.iter().map(|row| field(row)).collect();
    if values.iter().all(Option::is_none) {
        values.clear();
    }
    Box::new(values)
}

/// Items by the shard they belong to, in the order of the shards.
pub(super) fn by_shard<'a, T>(
    items: impl IntoIterator<Item = &'a T>,
    shard: impl Fn(&T) -> i32,
) -> BTreeMap<i32, Vec<&'a T>> {
    let mut groups = BTreeMap::<i32, Vec<&'a T>>::new();
    for item in items {
        groups.entry(shard(item)).or_default().push(item);
    }
    groups
}

/// Of several rows with one key, the last; in the order of the keys, which is the order of locks.
pub(super) fn last_by_key<'a, T, K: Ord>(
    rows: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> impl Iterator<Item = &'a T> {
    let by_key: BTreeMap<K, &'a T> = rows.iter().map(|row| (key(row), row)).collect();
    by_key.into_values()
}

/// A payload's bytes; the absent one is NULL.
pub(super) fn payload(payload: &Payload) -> Option<&[u8]> {
    (!payload.is_absent()).then(|| payload.as_bytes())
}

/// An instant.
pub(super) fn at(at: Timestamp) -> Instant {
    Instant(at)
}

/// An instant that may be none.
pub(super) fn maybe_at(at: Option<Timestamp>) -> Option<Instant> {
    at.map(Instant)
}

/// A value's JSON.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what is stored has a JSON form")
}

/// A list's JSON; the empty one is NULL.
pub(super) fn json_list<T: Serialize>(list: &[T]) -> Option<Vec<u8>> {
    (!list.is_empty()).then(|| json(&list))
}

/// A counter; what does not fit is the largest that does.
pub(super) fn int(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A counter of 64 bits, likewise.
pub(super) fn long(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// How many rows at most.
pub(super) fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

/// A trace context's three columns.
pub(super) fn trace<'a, R>(
    rows: &[&'a R],
    field: impl Fn(&'a R) -> Option<&'a TraceContext>,
) -> [Param<'a>; 3] {
    [
        nullable(rows, |r| field(r).map(|t| t.trace_id.as_str())),
        nullable(rows, |r| field(r).map(|t| t.span_id.as_str())),
        nullable(rows, |r| field(r).map(|t| i16::from(t.trace_flags))),
    ]
}
