//! I5: a timer fires once and never early.

use std::collections::BTreeMap;

use crate::persistence::model::{Dump, RunDump, after};
use durable_core::{Timestamp, WorkflowEvent};

use super::Findings;
use super::history::effective;

/// A timer is of its run's epoch.
pub(super) fn check_rows(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        for timer in &run.timers {
            findings.expect(
                timer.epoch == run.run.epoch,
                run.run.id,
                format!(
                    "timer {} is of epoch {}, the run is in {}",
                    timer.timer_id, timer.epoch, run.run.epoch
                ),
            );
        }
    }
}

pub(super) fn check_history(dump: &Dump, findings: &mut Findings) {
    for run in &dump.runs {
        fires_once_and_in_time(run, findings);
        for timer in &run.timers {
            let waits = run.facts.iter().any(|fact| {
                matches!(&fact.event, WorkflowEvent::TimerFired { timer_id } if *timer_id == timer.timer_id)
            });
            findings.expect(
                !waits,
                run.run.id,
                format!("timer {} has fired and is still set", timer.timer_id),
            );
        }
    }
}

/// A timer of the history that counts.
struct Known {
    due: Timestamp,
    over: bool,
}

fn fires_once_and_in_time(run: &RunDump, findings: &mut Findings) {
    let id = run.run.id;
    let mut timers: BTreeMap<&str, Known> = BTreeMap::new();
    for event in effective(run) {
        match &event.event {
            WorkflowEvent::TimerStarted {
                timer_id,
                duration_ms,
            } => {
                let duration = std::time::Duration::from_millis(*duration_ms);
                let due = after(event.created_at, duration);
                timers.insert(timer_id, Known { due, over: false });
            }
            WorkflowEvent::TimerFired { timer_id } => match timers.get_mut(timer_id.as_str()) {
                None => findings.add(id, format!("timer {timer_id} fired and was never set")),
                Some(timer) => {
                    findings.expect(!timer.over, id, format!("timer {timer_id} fired twice"));
                    findings.expect(
                        event.created_at >= timer.due,
                        id,
                        format!("timer {timer_id} fired before {}", timer.due),
                    );
                    timer.over = true;
                }
            },
            WorkflowEvent::TimerCancelled { timer_id } => {
                if let Some(timer) = timers.get_mut(timer_id.as_str()) {
                    timer.over = true;
                }
            }
            _ => {}
        }
    }
    for timer in &run.timers {
        let over = timers.get(timer.timer_id.as_str()).is_some_and(|t| t.over);
        findings.expect(
            !over,
            id,
            format!("timer {} is over and still set", timer.timer_id),
        );
    }
}
