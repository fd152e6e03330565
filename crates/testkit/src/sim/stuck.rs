//! A run that does not end, for whoever has to find out why.

use everruns_durable::persistence::model::RunDump;

/// Where a run stands and what it waits for.
pub(super) fn waits_for(dump: &RunDump) -> String {
    let run = &dump.run;
    let tasks: Vec<String> = dump
        .tasks
        .iter()
        .map(|task| {
            format!(
                "{} {} attempt {} deliveries {}",
                task.activity_id,
                task.status.as_str(),
                task.attempt,
                task.deliveries
            )
        })
        .collect();
    let timers: Vec<&str> = dump
        .timers
        .iter()
        .map(|timer| timer.timer_id.as_str())
        .collect();
    let last: Vec<&str> = dump
        .events
        .iter()
        .rev()
        .take(4)
        .map(|event| event.event.event_type())
        .collect();
    format!(
        "run {} is {} at {} (iteration {}), arrivals {} consumed {}, ready {}, blocked {:?}, tasks {tasks:?}, timers {timers:?}, last events {last:?}",
        run.id,
        run.status,
        run.sequence,
        run.iteration,
        run.arrivals,
        run.consumed,
        run.ready_at.is_some(),
        run.blocked,
    )
}
