//! Instants on the wire: microseconds, cut and not rounded, on the way in and out.

use std::error::Error;
use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use durable_core::Timestamp;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::persistence::model::after;

/// 2000-01-01T00:00:00Z, from which PostgreSQL counts, in microseconds of Unix time.
const EPOCH_US: i64 = 946_684_800_000_000;

/// A `TIMESTAMPTZ`. The driver's own conversion rounds, which could move a lease's end past the
/// instant that the rules computed; this one cuts, as the contract says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant(pub(super) Timestamp);

impl ToSql for Instant {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.0.as_microsecond() - EPOCH_US);
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Instant {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        let unix = micros.saturating_add(EPOCH_US);
        match Timestamp::from_microsecond(unix) {
            Ok(at) => Ok(Self(at)),
            // PostgreSQL's calendar is longer than ours: an instant that a claim computed past our end is our last one.
            Err(_) if unix > 0 => Ok(Self(after(Timestamp::MAX, Duration::ZERO))),
            Err(error) => Err(error.into()),
        }
    }

    accepts!(TIMESTAMPTZ);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::model::cut;

    fn there_and_back(at: Timestamp) -> Timestamp {
        let mut wire = BytesMut::new();
        Instant(at).to_sql(&Type::TIMESTAMPTZ, &mut wire).unwrap();
        Instant::from_sql(&Type::TIMESTAMPTZ, &wire).unwrap().0
    }

    #[test]
    fn an_instant_comes_back_cut_to_microseconds() {
        for text in [
            "2026-11-15T10:00:00.123456789Z",
            "1969-07-20T00:00:00Z",
            "9999-12-30T21:59:59Z",
        ] {
            let at: Timestamp = text.parse().unwrap();
            assert_eq!(there_and_back(at), cut(at));
        }
    }

    #[test]
    fn what_lies_past_our_calendar_is_its_last_instant() {
        let last = after(Timestamp::MAX, Duration::ZERO);
        assert_eq!(there_and_back(Timestamp::MAX), last);
        let infinity = i64::MAX.to_be_bytes();
        let read = Instant::from_sql(&Type::TIMESTAMPTZ, &infinity).unwrap();
        assert_eq!(read, Instant(last));
    }
}
