//! Events to bytes and back.

use criterion::{Criterion, Throughput};
use everruns_durable::core::WorkflowEvent;

use crate::long_run;

/// Events of one iteration: half of them ask for an activity, half tell of its end.
const EVENTS: usize = 1_000;

pub(crate) fn measure(criterion: &mut Criterion) {
    let history = long_run::history(EVENTS).expect("a history");
    let events: Vec<WorkflowEvent> = history.into_iter().map(|(_, event)| event).collect();
    let stored: Vec<_> = events.iter().map(WorkflowEvent::encode).collect();
    let mut group = criterion.benchmark_group("events");
    group.throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("encode", |bencher| {
        bencher.iter(|| -> Vec<_> { events.iter().map(WorkflowEvent::encode).collect() });
    });
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            for event in &stored {
                let payload = event.payload.clone();
                let read = WorkflowEvent::decode(event.event_type, &event.data, payload);
                std::hint::black_box(read.expect("it was encoded"));
            }
        });
    });
    group.finish();
}
