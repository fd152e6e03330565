//! Values on their way out of SQLite: one cell after the other, in the order of the statement's columns.

use durable_core::{Payload, Timestamp, TraceContext};
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::persistence::{StoreError, StoreResult};

/// The cells of a row that have not been read yet.
pub(super) struct Cells<'r, 's> {
    row: &'r Row<'s>,
    next: usize,
}

impl<'r, 's> Cells<'r, 's> {
    /// All cells of a row.
    pub(super) fn of(row: &'r Row<'s>) -> Self {
        Self { row, next: 0 }
    }

    fn value(&mut self) -> StoreResult<ValueRef<'r>> {
        let value = self.row.get_ref(self.next)?;
        self.next += 1;
        Ok(value)
    }

    /// What is wrong with the cell that was read last.
    fn corrupt(&self, why: impl Into<crate::persistence::Source>) -> StoreError {
        let column = self.row.as_ref().column_name(self.next - 1);
        StoreError::corrupt(
            format!("column {} cannot be read", column.unwrap_or("?")),
            why,
        )
    }

    pub(super) fn int_opt<T: TryFrom<i64>>(&mut self) -> StoreResult<Option<T>> {
        match self.value()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(found) => match T::try_from(found) {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(self.corrupt(format!("{found} is out of range"))),
            },
            other => Err(self.corrupt(format!("{} where a number belongs", other.data_type()))),
        }
    }

    pub(super) fn int<T: TryFrom<i64>>(&mut self) -> StoreResult<T> {
        let found = self.int_opt()?;
        self.present(found)
    }

    pub(super) fn float(&mut self) -> StoreResult<f64> {
        match self.value()? {
            ValueRef::Real(number) => Ok(number),
            other => Err(self.corrupt(format!("{} where a number belongs", other.data_type()))),
        }
    }

    pub(super) fn flag(&mut self) -> StoreResult<bool> {
        Ok(self.int::<i64>()? != 0)
    }

    pub(super) fn id_opt(&mut self) -> StoreResult<Option<Uuid>> {
        match self.value()? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => match Uuid::from_slice(bytes) {
                Ok(id) => Ok(Some(id)),
                Err(error) => Err(self.corrupt(error)),
            },
            other => Err(self.corrupt(format!("{} where an id belongs", other.data_type()))),
        }
    }

    pub(super) fn id(&mut self) -> StoreResult<Uuid> {
        let found = self.id_opt()?;
        self.present(found)
    }

    pub(super) fn at_opt(&mut self) -> StoreResult<Option<Timestamp>> {
        let Some(micros) = self.int_opt::<i64>()? else {
            return Ok(None);
        };
        // Not by `from_microsecond`: its range ends a second before that of instants.
        let nanos = i32::try_from(micros.rem_euclid(1_000_000) * 1000);
        let nanos = nanos.expect("less than a second");
        match Timestamp::new(micros.div_euclid(1_000_000), nanos) {
            Ok(instant) => Ok(Some(instant)),
            Err(error) => Err(self.corrupt(error)),
        }
    }

    pub(super) fn at(&mut self) -> StoreResult<Timestamp> {
        let found = self.at_opt()?;
        self.present(found)
    }

    pub(super) fn body(&mut self) -> StoreResult<Payload> {
        match self.value()? {
            ValueRef::Null => Ok(Payload::ABSENT),
            ValueRef::Blob(bytes) => Ok(Payload::from_stored(bytes.to_vec())),
            other => Err(self.corrupt(format!("{} where bytes belong", other.data_type()))),
        }
    }

    pub(super) fn str_opt(&mut self) -> StoreResult<Option<&'r str>> {
        match self.value()? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(error) => Err(self.corrupt(error)),
            },
            other => Err(self.corrupt(format!("{} where text belongs", other.data_type()))),
        }
    }

    pub(super) fn str(&mut self) -> StoreResult<&'r str> {
        let found = self.str_opt()?;
        self.present(found)
    }

    pub(super) fn text_opt(&mut self) -> StoreResult<Option<String>> {
        Ok(self.str_opt()?.map(str::to_owned))
    }

    pub(super) fn text(&mut self) -> StoreResult<String> {
        Ok(self.str()?.to_owned())
    }

    pub(super) fn json_opt<T: DeserializeOwned>(&mut self) -> StoreResult<Option<T>> {
        let Some(text) = self.str_opt()? else {
            return Ok(None);
        };
        serde_json::from_str(text)
            .map(Some)
            .map_err(|error| self.corrupt(error))
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self) -> StoreResult<T> {
        let found = self.json_opt()?;
        self.present(found)
    }

    /// One of a set of names.
    pub(super) fn name<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> StoreResult<T> {
        let name = self.str()?;
        parse(name).ok_or_else(|| self.corrupt(format!("{name:?} is not a known name")))
    }

    /// `trace_id`, `span_id`, `trace_flags`: all or none.
    pub(super) fn trace(&mut self) -> StoreResult<Option<TraceContext>> {
        let (trace_id, span_id, flags) = (self.text_opt()?, self.text_opt()?, self.int_opt()?);
        let Some(trace_id) = trace_id else {
            return Ok(None);
        };
        Ok(Some(TraceContext {
            trace_id,
            span_id: self.present(span_id)?,
            trace_flags: self.present(flags)?,
        }))
    }

    /// What must not be NULL.
    pub(super) fn present<T>(&self, found: Option<T>) -> StoreResult<T> {
        found.ok_or_else(|| self.corrupt("NULL where a value belongs"))
    }
}
