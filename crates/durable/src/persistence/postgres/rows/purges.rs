//! Deleted runs whose rows are still to be deleted.

use durable_core::Timestamp;

use crate::persistence::postgres::bind::{Call, at, column, value};
use crate::persistence::postgres::sql::purge;
use crate::persistence::sql::rows::{PostponedPurge, PurgeRecord};

/// Runs of a shard that were deleted.
pub(in crate::persistence::postgres) fn insert<'a>(
    shard: i32,
    now: Timestamp,
    rows: &[&'a PurgeRecord],
) -> Call<'a> {
    let params = vec![
        value(shard),
        value(at(now)),
        column(rows, |purge| purge.run_id),
        column(rows, |purge| purge.idempotency_key.as_deref()),
        column(rows, |purge| purge.business_id.as_deref()),
    ];
    Call::new(&purge::INSERT_PURGES, params)
}

/// Deletions of a shard that failed.
pub(in crate::persistence::postgres) fn postpone<'a>(
    shard: i32,
    rows: &[&'a PostponedPurge],
) -> Call<'a> {
    let params = vec![
        value(shard),
        column(rows, |purge| purge.run_id),
        column(rows, |purge| purge.failures),
        column(rows, |purge| at(purge.retry_at)),
        column(rows, |purge| purge.error.as_str()),
    ];
    Call::new(&purge::POSTPONE_PURGES, params)
}
