//! I2: every signal and update waits, or was taken once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use durable_core::{Timestamp, WorkflowEvent};

use crate::persistence::model::{Dump, HistoryEvent, RunDump, after};

use super::Findings;
use super::history::stretches;

/// What tells one signal in a history from another: name, data and instant.
type Likeness<'a> = (&'a str, &'a [u8], i128);

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        what_waits_is_in_the_inbox(run, findings);
        updates_that_wait_are_known(run, findings);
        what_was_taken_is_in_the_history(run, findings);
    }
}

/// No signal was taken more often than it was sent. Retention deletes ledger rows by their age, so
/// that only a whole store, whose newest turn is known, can tell a missing row from an old one.
pub(super) fn check_sent(dump: &Dump, findings: &mut Findings) {
    let latest = dump.runs.iter().map(|run| run.run.updated_at).max();
    for run in &dump.runs {
        what_was_taken_was_sent(run, latest.unwrap_or_default(), findings);
    }
}

/// Signals that were taken that long before the newest turn may have left the ledger by their age.
const LEDGER_KEPT: Duration = Duration::from_secs(60 * 60);

fn what_waits_is_in_the_inbox(run: &RunDump, findings: &mut Findings) {
    let id = run.run.id;
    let inbox: BTreeSet<i64> = run
        .facts
        .iter()
        .filter(|fact| matches!(fact.event, WorkflowEvent::SignalReceived { .. }))
        .map(|fact| fact.arrival)
        .collect();
    let waiting: BTreeSet<i64> = run
        .signals
        .iter()
        .filter(|signal| signal.processed_at.is_none())
        .map(|signal| signal.arrival)
        .collect();
    for arrival in waiting.difference(&inbox) {
        findings.add(
            id,
            format!("signal {arrival} is not taken and not in the inbox"),
        );
    }
    for arrival in inbox.difference(&waiting) {
        findings.add(
            id,
            format!("signal {arrival} is in the inbox and not in the ledger as waiting"),
        );
    }
    // A continuation gives the signals that it carries over numbers of facts that were taken.
    let taken = if run.run.iteration == 0 {
        run.run.consumed
    } else {
        run.run.arrivals
    };
    for signal in &run.signals {
        findings.expect(
            signal.processed_at.is_none() || signal.arrival <= taken,
            id,
            format!("signal {} is marked as taken and was not", signal.arrival),
        );
    }
}

fn updates_that_wait_are_known(run: &RunDump, findings: &mut Findings) {
    let known: BTreeMap<i64, &str> = run
        .updates
        .iter()
        .map(|update| (update.arrival, update.update_id.as_str()))
        .collect();
    for fact in &run.facts {
        if let WorkflowEvent::UpdateAccepted { update_id, .. } = &fact.event {
            findings.expect(
                known.get(&fact.arrival) == Some(&update_id.as_str()),
                run.run.id,
                format!("update {update_id} waits and is not in the ledger"),
            );
        }
    }
}

/// Within one stretch a signal is appended at most once.
fn what_was_taken_was_sent(run: &RunDump, latest: Timestamp, findings: &mut Findings) {
    let ledger = ledger(run, None);
    for stretch in &stretches(run) {
        let young = stretch
            .iter()
            .filter(|event| after(event.created_at, LEDGER_KEPT) >= latest);
        let young: Vec<HistoryEvent> = young.cloned().collect();
        for (likeness, count) in received(&young) {
            let (all, _) = ledger.get(&likeness).copied().unwrap_or_default();
            findings.expect(
                count <= all,
                run.run.id,
                format!(
                    "signal {:?} was sent {all} times and taken {count} times",
                    likeness.0
                ),
            );
        }
    }
}

/// Over a history without continuations and resets a signal is appended exactly once.
fn what_was_taken_is_in_the_history(run: &RunDump, findings: &mut Findings) {
    let whole = stretches(run).len() == 1 && known_since(run).is_none();
    let events = received(&run.events);
    for (likeness, (_, taken)) in ledger(run, known_since(run)) {
        let count = events.get(&likeness).copied().unwrap_or_default();
        let fits = if whole {
            count == taken
        } else {
            count >= taken
        };
        findings.expect(
            fits,
            run.run.id,
            format!(
                "signal {:?} was taken {taken} times and is {count} times in the history",
                likeness.0
            ),
        );
    }
}

/// When the first event that is stored was appended, where events of earlier iterations have left
/// by their age, and with them the signals that they took.
fn known_since(run: &RunDump) -> Option<Timestamp> {
    match run.events.first() {
        Some(first) => (first.sequence_num > 1).then_some(first.created_at),
        None => (run.run.sequence > 0).then_some(Timestamp::MAX),
    }
}

/// Signals of the ledger: how often one like it was sent, and how often taken. Without those that
/// were taken before an instant.
fn ledger(run: &RunDump, known_since: Option<Timestamp>) -> BTreeMap<Likeness<'_>, (usize, usize)> {
    let mut ledger: BTreeMap<Likeness<'_>, (usize, usize)> = BTreeMap::new();
    for signal in &run.signals {
        if let (Some(since), Some(at)) = (known_since, signal.processed_at)
            && at <= since
        {
            continue;
        }
        let likeness = (
            signal.signal_type.as_str(),
            signal.payload.as_bytes(),
            signal.sent_at.as_nanosecond(),
        );
        let (all, taken) = ledger.entry(likeness).or_default();
        *all += 1;
        *taken += usize::from(signal.processed_at.is_some());
    }
    ledger
}

/// Signals in a history, read or not: either way they are taken out of the inbox.
fn received(events: &[HistoryEvent]) -> BTreeMap<Likeness<'_>, usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        if let WorkflowEvent::SignalReceived { signal, .. } = &event.event {
            let likeness = (
                signal.signal_type.as_str(),
                signal.payload.as_bytes(),
                signal.sent_at.as_nanosecond(),
            );
            *counts.entry(likeness).or_default() += 1;
        }
    }
    counts
}
