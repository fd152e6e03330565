//! Instants on the wire: microseconds, cut and not rounded, on the way in and out.

use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use durable_core::Timestamp;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// 2000-01-01T00:00:00Z, from which PostgreSQL counts, in microseconds of Unix time.
const EPOCH_US: i64 = 946_684_800_000_000;

/// A `TIMESTAMPTZ`. The driver's own conversion rounds, which could move a lease's end past the
/// instant that the rules computed; this one cuts, as the contract says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instant(pub(super) Timestamp);

/// An instant cut to microseconds, which is what a store keeps.
pub(super) fn cut(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

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
        let unix = micros.checked_add(EPOCH_US).ok_or("instant out of range")?;
        Ok(Self(Timestamp::from_microsecond(unix)?))
    }

    accepts!(TIMESTAMPTZ);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_comes_back_cut_to_microseconds() {
        for text in [
            "2026-11-15T10:00:00.123456789Z",
            "1969-07-20T00:00:00Z",
            "9999-12-30T22:00:00.9Z",
        ] {
            let at: Timestamp = text.parse().unwrap();
            let mut wire = BytesMut::new();
            Instant(at).to_sql(&Type::TIMESTAMPTZ, &mut wire).unwrap();
            let back = Instant::from_sql(&Type::TIMESTAMPTZ, &wire).unwrap();
            assert_eq!(back.0, cut(at));
        }
    }
}
