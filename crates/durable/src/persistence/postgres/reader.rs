//! Rows read column by column, in the order in which the statement names them.

use durable_core::{Payload, Timestamp, TraceContext};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::instant::Instant;
use crate::persistence::{StoreError, StoreResult};

/// Reads a row from left to right.
pub(super) struct Reader<'r> {
    row: &'r Row,
    at: usize,
}

impl<'r> Reader<'r> {
    pub(super) fn new(row: &'r Row) -> Self {
        Self { row, at: 0 }
    }

    /// The next column.
    pub(super) fn next<T: FromSql<'r>>(&mut self) -> StoreResult<T> {
        let at = self.at;
        self.at += 1;
        self.row.try_get(at).map_err(|error| {
            let name = self.row.columns().get(at).map_or("?", |c| c.name());
            StoreError::corrupt(format!("column {name} cannot be read"), error)
        })
    }

    pub(super) fn at(&mut self) -> StoreResult<Timestamp> {
        self.next::<Instant>().map(|instant| instant.0)
    }

    pub(super) fn maybe_at(&mut self) -> StoreResult<Option<Timestamp>> {
        Ok(self.next::<Option<Instant>>()?.map(|instant| instant.0))
    }

    /// NULL is the absent payload.
    pub(super) fn payload(&mut self) -> StoreResult<Payload> {
        let bytes = self.next::<Option<Vec<u8>>>()?;
        Ok(bytes.map_or(Payload::ABSENT, Payload::from_stored))
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self) -> StoreResult<T> {
        parse(self.next::<&[u8]>()?)
    }

    pub(super) fn maybe_json<T: DeserializeOwned>(&mut self) -> StoreResult<Option<T>> {
        self.next::<Option<&[u8]>>()?.map(parse).transpose()
    }

    /// NULL is the empty list.
    pub(super) fn json_list<T: DeserializeOwned>(&mut self) -> StoreResult<Vec<T>> {
        Ok(self.maybe_json()?.unwrap_or_default())
    }

    /// A name of a fixed set.
    pub(super) fn name<T>(&mut self, parse: impl Fn(&str) -> Option<T>) -> StoreResult<T> {
        let name: &str = self.next()?;
        parse(name).ok_or_else(|| unknown_name(name))
    }

    /// A counter.
    pub(super) fn u32(&mut self) -> StoreResult<u32> {
        unsigned(self.next::<i32>()?)
    }

    /// A counter that may be absent.
    pub(super) fn maybe_u32(&mut self) -> StoreResult<Option<u32>> {
        self.next::<Option<i32>>()?.map(unsigned).transpose()
    }

    /// A counter kept in 64 bits.
    pub(super) fn long_u32(&mut self) -> StoreResult<u32> {
        unsigned(self.next::<i64>()?)
    }

    /// A counter of 64 bits.
    pub(super) fn u64(&mut self) -> StoreResult<u64> {
        unsigned(self.next::<i64>()?)
    }

    /// The three columns of a trace context.
    pub(super) fn trace(&mut self) -> StoreResult<Option<TraceContext>> {
        let trace_id: Option<String> = self.next()?;
        let span_id: Option<String> = self.next()?;
        let flags: Option<i16> = self.next()?;
        let (Some(trace_id), Some(span_id), Some(flags)) = (trace_id, span_id, flags) else {
            return Ok(None);
        };
        Ok(Some(TraceContext {
            trace_id,
            span_id,
            trace_flags: unsigned(flags)?,
        }))
    }
}

/// All rows, each by the same reader.
pub(super) fn read_all<'r, T>(
    rows: &'r [Row],
    read: impl Fn(&mut Reader<'r>) -> StoreResult<T>,
) -> StoreResult<Vec<T>> {
    rows.iter().map(|row| read(&mut Reader::new(row))).collect()
}

/// The first row, if there is one.
pub(super) fn read_first<'r, T>(
    rows: &'r [Row],
    read: impl Fn(&mut Reader<'r>) -> StoreResult<T>,
) -> StoreResult<Option<T>> {
    rows.first()
        .map(|row| read(&mut Reader::new(row)))
        .transpose()
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> StoreResult<T> {
    serde_json::from_slice(bytes).map_err(|e| StoreError::corrupt("stored JSON cannot be read", e))
}

fn unsigned<S, U: TryFrom<S>>(number: S) -> StoreResult<U>
where
    U::Error: std::error::Error + Send + Sync + 'static,
{
    U::try_from(number).map_err(|e| StoreError::corrupt("a counter is out of range", e))
}

fn unknown_name(name: &str) -> StoreError {
    StoreError::Corrupt {
        message: format!("{name:?} is not a name that this build knows"),
        source: None,
    }
}
