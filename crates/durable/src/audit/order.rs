//! I4: events and arrivals are numbered without gaps.

use crate::persistence::model::{Dump, RunDump};
use durable_core::{Timestamp, WorkflowEvent};

use super::{Findings, Invariant, Violation};

pub(super) fn check(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        events_have_no_gaps(run, findings);
        arrivals_have_no_gaps(run, findings);
        marks_are_counted(run, findings);
    }
}

fn events_have_no_gaps(run: &RunDump, findings: &mut Findings) {
    let numbers = run.events.iter().map(|event| event.sequence_num);
    // Retention deletes the first events, of earlier iterations.
    let first = first_event(run);
    findings.expect(
        numbers.eq(first..=run.run.sequence),
        run.run.id,
        format!(
            "its {} events are not numbered {first} to {}",
            run.events.len(),
            run.run.sequence
        ),
    );
    findings.expect(
        first == 1 || first <= run.run.history_start + 1,
        run.run.id,
        format!(
            "its first event is {first}, but its iteration begins after {}",
            run.run.history_start
        ),
    );
}

/// Number of the first event that is stored.
fn first_event(run: &RunDump) -> i64 {
    let first = run.events.first();
    first.map_or(run.run.sequence + 1, |event| event.sequence_num)
}

fn arrivals_have_no_gaps(run: &RunDump, findings: &mut Findings) {
    let r = &run.run;
    let (id, consumed, arrivals) = (r.id, r.consumed, r.arrivals);
    findings.expect(
        consumed <= arrivals,
        id,
        format!("{consumed} facts are taken and {arrivals} have arrived"),
    );
    let numbers: Vec<i64> = run.facts.iter().map(|fact| fact.arrival).collect();
    // A reset and a continuation drop facts from the middle.
    let fits = if r.epoch == 0 && r.iteration == 0 {
        numbers.iter().copied().eq(consumed + 1..=arrivals) || r.status.is_terminal()
    } else {
        numbers.is_sorted_by(|a, b| a < b)
            && numbers.iter().all(|n| *n > consumed && *n <= arrivals)
    };
    findings.expect(
        fits,
        id,
        format!(
            "the facts that wait, {numbers:?}, are not those from {} to {arrivals}",
            consumed + 1
        ),
    );
    findings.expect(
        numbers.is_empty() || r.ready_at.is_some(),
        id,
        "facts wait and no turn is due",
    );
}

/// Iteration and epoch are the numbers of continuations and resets.
fn marks_are_counted(run: &RunDump, findings: &mut Findings) {
    let r = &run.run;
    let mut continued = Vec::new();
    let mut resets = 0_u32;
    for event in &run.events {
        match event.event {
            WorkflowEvent::WorkflowContinuedAsNew { .. } => continued.push(event.sequence_num),
            WorkflowEvent::WorkflowReset { .. } => resets += 1,
            _ => {}
        }
    }
    // Retention has deleted events of earlier iterations: what they counted is not known.
    if first_event(run) > 1 {
        let counted = u32::try_from(continued.len()).unwrap_or(u32::MAX);
        findings.expect(
            counted <= r.iteration && resets <= r.epoch,
            r.id,
            format!(
                "it is in iteration {} and epoch {} after {counted} continuations and {resets} resets",
                r.iteration, r.epoch
            ),
        );
        return;
    }
    findings.expect(
        u32::try_from(continued.len()) == Ok(r.iteration),
        r.id,
        format!(
            "it is in iteration {} after {} continuations",
            r.iteration,
            continued.len()
        ),
    );
    findings.expect(
        r.epoch == resets,
        r.id,
        format!("it is in epoch {} after {resets} resets", r.epoch),
    );
    let start = continued.last().copied().unwrap_or_default();
    findings.expect(
        r.history_start == start,
        r.id,
        format!(
            "its iteration begins after {start}, not after {}",
            r.history_start
        ),
    );
}

/// What was written later than now.
pub(super) fn from_the_future(dump: &Dump, now: Timestamp) -> Vec<Violation> {
    dump.runs
        .iter()
        .filter_map(|run| {
            let event = run.events.iter().find(|event| event.created_at > now)?;
            Some(Violation {
                invariant: Invariant::I4,
                run: Some(run.run.id),
                message: format!("event {} was written in the future", event.sequence_num),
            })
        })
        .collect()
}
