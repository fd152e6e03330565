//! I2: every signal and update waits, or was taken once.

use std::collections::{BTreeMap, BTreeSet};

use durable_core::WorkflowEvent;
use everruns_durable::persistence::model::{Dump, HistoryEvent, RunDump};

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
    for signal in &run.signals {
        findings.expect(
            signal.processed_at.is_none() || signal.arrival <= run.run.consumed,
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

/// Within one stretch a signal is appended at most once; over a history without continuations and resets exactly once.
fn what_was_taken_is_in_the_history(run: &RunDump, findings: &mut Findings) {
    let id = run.run.id;
    let mut ledger: BTreeMap<Likeness<'_>, (usize, usize)> = BTreeMap::new();
    for signal in &run.signals {
        let likeness = (
            signal.signal_type.as_str(),
            signal.payload.as_bytes(),
            signal.sent_at.as_nanosecond(),
        );
        let (all, taken) = ledger.entry(likeness).or_default();
        *all += 1;
        *taken += usize::from(signal.processed_at.is_some());
    }
    let stretches = stretches(run);
    for stretch in &stretches {
        for (likeness, count) in received(stretch) {
            let (all, _) = ledger.get(&likeness).copied().unwrap_or_default();
            findings.expect(
                count <= all,
                id,
                format!(
                    "signal {:?} was sent {all} times and taken {count} times",
                    likeness.0
                ),
            );
        }
    }
    let events = received(&run.events);
    for (likeness, (_, taken)) in ledger {
        let count = events.get(&likeness).copied().unwrap_or_default();
        let fits = if stretches.len() == 1 {
            count == taken
        } else {
            count >= taken
        };
        findings.expect(
            fits,
            id,
            format!(
                "signal {:?} was taken {taken} times and is {count} times in the history",
                likeness.0
            ),
        );
    }
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
