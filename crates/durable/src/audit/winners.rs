//! I9: a race has one winner, for ever: keys, ids and children.

use std::collections::{BTreeMap, BTreeSet};

use crate::persistence::model::{Dump, KeyKind, KeyRecord, RunRecord};
use uuid::Uuid;

use super::Findings;
use super::walk::Holder;

pub(super) fn check_keys(dump: &Dump, findings: &mut Findings) {
    let runs: BTreeMap<Uuid, &RunRecord> =
        dump.runs.iter().map(|run| (run.run.id, &run.run)).collect();
    let mut seen = BTreeSet::new();
    for key in &dump.keys {
        findings.expect(
            seen.insert((key.kind, key.key.as_str())),
            key.run_id,
            format!("the {} key {:?} exists twice", key.kind.as_str(), key.key),
        );
        points_at_its_run(key, &runs, findings);
    }
    let keys: BTreeMap<(KeyKind, &str), Uuid> = dump
        .keys
        .iter()
        .map(|key| ((key.kind, key.key.as_str()), key.run_id))
        .collect();
    for run in runs.values() {
        if let Some(key) = &run.idempotency_key {
            findings.expect(
                keys.get(&(KeyKind::Idempotency, key.as_str())) == Some(&run.id),
                run.id,
                format!("it was started under the key {key:?}, which is not its own"),
            );
        }
    }
}

fn points_at_its_run(key: &KeyRecord, runs: &BTreeMap<Uuid, &RunRecord>, findings: &mut Findings) {
    let holder = runs.get(&key.run_id).map(|run| Holder {
        idempotency_key: run.idempotency_key.clone(),
        business_id: run.business_id.clone(),
        deleted: false,
    });
    findings.expect(
        belongs(key.kind, &key.key, key.run_id, holder.as_ref()),
        key.run_id,
        format!(
            "the {} key {:?} does not belong to it",
            key.kind.as_str(),
            key.key
        ),
    );
}

/// Whether a key is one of its run's, by what the run says; without a holder there is no such run.
pub(super) fn belongs(kind: KeyKind, key: &str, run_id: Uuid, holder: Option<&Holder>) -> bool {
    match kind {
        KeyKind::Idempotency => {
            holder.is_some_and(|run| run.idempotency_key.as_deref() == Some(key))
        }
        KeyKind::Business => holder.is_some_and(|run| run.business_id.as_deref() == Some(key)),
        // A tick outlives its run.
        KeyKind::CronSlot => true,
        KeyKind::Tombstone => holder.is_none_or(|run| run.deleted) && key == run_id.to_string(),
    }
}

/// A child of a name is started once in an epoch and iteration of its parent.
pub(super) fn check_children(dump: &Dump, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for run in &dump.runs {
        if let Some(parent) = &run.run.parent {
            let place = (
                parent.run_id,
                parent.epoch,
                parent.iteration,
                parent.child_id.as_str(),
            );
            findings.expect(
                seen.insert(place),
                run.run.id,
                format!(
                    "child {} of run {} was started twice",
                    parent.child_id, parent.run_id
                ),
            );
        }
    }
}
