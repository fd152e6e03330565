//! I6: a tick of a schedule is taken once.

use std::collections::BTreeSet;

use crate::persistence::model::{Dump, KeyKind};

use super::Findings;

/// The keys of ticks taken, such as `nightly@1800000000000000`.
fn taken(dump: &Dump) -> BTreeSet<&str> {
    dump.keys
        .iter()
        .filter(|key| key.kind == KeyKind::CronSlot)
        .map(|key| key.key.as_str())
        .collect()
}

/// The last tick of a schedule has its key.
pub(super) fn check_rows(dump: &Dump, findings: &mut Findings) {
    let taken = taken(dump);
    for key in &taken {
        let nominal = key
            .rsplit_once('@')
            .map(|(_, micros)| micros.parse::<i64>());
        findings.expect(
            matches!(nominal, Some(Ok(_))),
            None,
            format!("{key:?} is not the key of a tick"),
        );
    }
    for schedule in &dump.schedules {
        if let Some(last) = schedule.last_fire_at {
            let key = format!("{}@{}", schedule.id, last.as_microsecond());
            findings.expect(
                taken.contains(key.as_str()),
                None,
                format!("schedule {} fired at {last} without a key", schedule.id),
            );
        }
    }
}

/// The next tick of a schedule is still to be had: one that was taken would hold the schedule up for ever.
pub(super) fn check_next(dump: &Dump, findings: &mut Findings) {
    let taken = taken(dump);
    for schedule in &dump.schedules {
        if let Some(next) = schedule.next_fire_at {
            let key = format!("{}@{}", schedule.id, next.as_microsecond());
            findings.expect(
                !taken.contains(key.as_str()),
                None,
                format!("schedule {} waits for a tick that was taken", schedule.id),
            );
        }
    }
}
