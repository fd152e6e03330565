//! What the cache of programs saves: a run of a hundred steps whose program is kept, and one that is rebuilt for every turn.

use criterion::{Criterion, Throughput};
use everruns_durable::prelude::*;

/// Steps of the run.
const STEPS: u32 = 100;

#[workflow]
async fn steps(ctx: WorkflowContext, steps: u32) -> WorkflowResult<u32> {
    for step in 0..steps {
        ctx.activity_named::<()>("step", step).await?;
    }
    Ok(steps)
}

pub(crate) fn measure(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut group = criterion.benchmark_group("programs");
    group.throughput(Throughput::Elements(u64::from(STEPS)));
    group.sample_size(20);
    for (name, always_replay) in [("kept", false), ("rebuilt", true)] {
        let engine = Engine::in_memory()
            .workflow::<steps>()
            .activity_fn("step", |_ctx, _step: u32| async move { Ok(()) })
            .always_replay(always_replay);
        let engine = runtime.block_on(engine.start()).expect("it starts");
        group.bench_function(name, |bencher| {
            bencher
                .to_async(&runtime)
                .iter(|| async { engine.run::<steps>(STEPS).await.expect("it completes") });
        });
        runtime.block_on(engine.shutdown()).expect("it stops");
    }
    group.finish();
}
