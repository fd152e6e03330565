//! Totals.

use std::collections::BTreeMap;

use crate::persistence::StoreResult;
use crate::persistence::model::{RollupKind, RollupOutcome, RollupRecord};
use crate::persistence::postgres::bind::{Call, at, column, value};
use crate::persistence::postgres::reader::Reader;
use crate::persistence::postgres::sql::rollups;

/// Counts with one key added up, in the order of the keys.
pub(in crate::persistence::postgres) fn merged(records: &[RollupRecord]) -> Vec<RollupRecord> {
    let mut by_key = BTreeMap::<_, RollupRecord>::new();
    for record in records {
        let key = (
            record.hour,
            record.kind.as_str(),
            record.name.as_str(),
            record.outcome.as_str(),
            record.duration_exp,
        );
        by_key
            .entry(key)
            .and_modify(|sum| {
                sum.count += record.count;
                sum.total_ms += record.total_ms;
                sum.wait_ms += record.wait_ms;
            })
            .or_insert_with(|| record.clone());
    }
    by_key.into_values().collect()
}

/// Counts to add to a slot.
pub(in crate::persistence::postgres) fn add<'a>(
    shard: i32,
    slot: i32,
    rows: &[&'a RollupRecord],
) -> Call<'a> {
    let params = vec![
        value(shard),
        value(slot),
        column(rows, |r| at(r.hour)),
        column(rows, |r| r.kind.as_str()),
        column(rows, |r| r.name.as_str()),
        column(rows, |r| r.outcome.as_str()),
        column(rows, |r| r.duration_exp),
        column(rows, |r| r.count),
        column(rows, |r| r.total_ms),
        column(rows, |r| r.wait_ms),
    ];
    Call::new(&rollups::ADD_ROLLUPS, params)
}

/// A total.
pub(in crate::persistence::postgres) fn record(row: &mut Reader<'_>) -> StoreResult<RollupRecord> {
    Ok(RollupRecord {
        hour: row.at()?,
        kind: row.name(RollupKind::parse)?,
        name: row.next()?,
        outcome: row.name(RollupOutcome::parse)?,
        duration_exp: row.next()?,
        count: row.next()?,
        total_ms: row.next()?,
        wait_ms: row.next()?,
    })
}
