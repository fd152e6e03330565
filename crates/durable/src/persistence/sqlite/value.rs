//! Values on their way into SQLite: ids as 16 bytes, instants as microseconds, payloads as bytes or NULL.

use durable_core::{Payload, Timestamp};
use rusqlite::ToSql;
use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use serde::Serialize;
use uuid::Uuid;

use crate::persistence::model::cut;

/// An id.
pub(super) struct Id(pub(super) Uuid);

impl ToSql for Id {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

/// Ids as a list that `json_each` takes apart, in the form of `hex`.
pub(super) fn hex_list(ids: &[Uuid]) -> String {
    let hex = |id: &Uuid| format!("{:X}", id.as_simple());
    let ids: Vec<String> = ids.iter().map(hex).collect();
    serde_json::to_string(&ids).unwrap_or_else(|_| "[]".to_owned())
}

/// An instant, cut to microseconds.
pub(super) struct At(pub(super) Timestamp);

impl ToSql for At {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(cut(self.0).as_microsecond().into())
    }
}

/// An instant that stored ones are compared with by `<` or `>=`: rounded up, since they hold no fractions of a microsecond.
pub(super) struct Until(pub(super) Timestamp);

impl ToSql for Until {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let whole = cut(self.0);
        let has_rest = self.0 > whole;
        Ok((whole.as_microsecond() + i64::from(has_rest)).into())
    }
}

/// A payload; an absent one is NULL.
pub(super) struct Body<'a>(pub(super) &'a Payload);

impl ToSql for Body<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        if self.0.is_absent() {
            return Null.to_sql();
        }
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

/// Text that is known to be UTF-8, such as JSON that serde wrote.
pub(super) struct Utf8<'a>(pub(super) &'a [u8]);

impl ToSql for Utf8<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// Anything as JSON text.
pub(super) struct Json<'a, T>(pub(super) &'a T);

impl<T: Serialize> ToSql for Json<'_, T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(self.0)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(text.into())
    }
}

/// A number of rows.
pub(super) fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(value: &impl ToSql) -> i64 {
        match value.to_sql().expect("an instant has a stored form") {
            ToSqlOutput::Owned(rusqlite::types::Value::Integer(micros)) => micros,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bounds_round_up_and_instants_are_cut() {
        let exact = Timestamp::from_nanosecond(5_000).unwrap();
        let between = Timestamp::from_nanosecond(5_001).unwrap();
        assert_eq!((stored(&At(between)), stored(&Until(between))), (5, 6));
        assert_eq!((stored(&At(exact)), stored(&Until(exact))), (5, 5));
        let before = Timestamp::from_nanosecond(-5_001).unwrap();
        assert_eq!((stored(&At(before)), stored(&Until(before))), (-6, -5));
    }
}
