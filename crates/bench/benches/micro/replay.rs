//! A program from its history.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use everruns_durable::core::{ReplayMode, TraitProgram, replay};

use crate::long_run::{self, LongRun};

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay");
    for events in [10_usize, 100, 1_000, 10_000] {
        let history = long_run::history(events).expect("a history");
        group.throughput(Throughput::Elements(events as u64));
        group.bench_with_input(
            BenchmarkId::from_parameter(events),
            &history,
            |bencher, history| {
                bencher.iter_batched(
                    || history.clone(),
                    |history| {
                        let program = Box::new(TraitProgram::<LongRun>::new());
                        replay(long_run::identity(), program, history, ReplayMode::Normal)
                            .expect("it replays")
                    },
                    BatchSize::SmallInput,
                );
            },
        );
    }
    group.finish();
}
