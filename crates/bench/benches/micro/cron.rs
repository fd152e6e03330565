//! Ticks of a cron expression, in a zone whose clock is put forward and back.

use criterion::{Criterion, Throughput};
use everruns_durable::client::{BACKFILL_TICKS_MAX, Schedule};
use everruns_durable::prelude::*;
use jiff::Timestamp;

pub(crate) fn measure(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let store = runtime.block_on(everruns_durable::persistence::open(
        "memory:",
        everruns_durable::persistence::OpenOptions::default(),
    ));
    let client = runtime.block_on(async { Client::on(store.expect("memory opens")) });
    let schedule = |id: &str, cron: &str| {
        Schedule::cron(id, cron)
            .workflow_named("nothing", Payload::null())
            .time_zone("Europe/Berlin")
    };
    let mut group = criterion.benchmark_group("cron");
    group.bench_function("read and save", |bencher| {
        bencher.to_async(&runtime).iter(|| async {
            let made = client
                .create_schedule(schedule("read", "*/5 8-18 * * mon-fri"))
                .await;
            made.expect("it is saved")
        });
    });
    for (name, cron) in [
        ("every minute", "* * * * *"),
        ("weekday mornings", "30 8 * * mon-fri"),
    ] {
        let made = runtime.block_on(client.create_schedule(schedule(name, cron)));
        made.expect("it is saved");
        group.throughput(Throughput::Elements(BACKFILL_TICKS_MAX as u64));
        // More ticks than a backfill takes: it computes as many as it may and refuses, before anything is written.
        group.bench_function(name, |bencher| {
            bencher.to_async(&runtime).iter(|| async {
                let refused = client
                    .backfill_schedule(name, Timestamp::UNIX_EPOCH, Timestamp::MAX)
                    .await;
                refused.expect_err("too many ticks")
            });
        });
    }
    group.finish();
}
