//! The engine's suite on every store, with programs kept and with every turn replayed.

use durable_testkit::engine_suite::{self, Arena, Claim};
use durable_testkit::flavour::Kind;
use durable_testkit::{Flavour, audit};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let flavours = [
        (Kind::Memory, 1),
        (Kind::Memory, 4),
        (Kind::Sqlite, 1),
        (Kind::Postgres, 1),
        (Kind::Postgres, 4),
    ];
    let mut trials = Vec::new();
    for (kind, shards) in flavours {
        for always_replay in [false, true] {
            for claim in engine_suite::all() {
                trials.push(trial(Flavour { kind, shards }, always_replay, claim));
            }
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(flavour: Flavour, always_replay: bool, claim: Claim) -> Trial {
    let mode = if always_replay { "replayed" } else { "kept" };
    let name = format!(
        "{}::{mode}::{}::{}",
        flavour.name(),
        claim.subject,
        claim.name
    );
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| Failed::from(e.to_string()))?;
        runtime.block_on(async {
            let under_test = flavour
                .open()
                .await
                .map_err(|e| Failed::from(format!("{e:#}")))?;
            let arena = Arena {
                store: under_test.store.clone(),
                always_replay,
            };
            (claim.body)(&arena).await;
            let report = audit::audit(&*arena.store, None)
                .await
                .map_err(|e| Failed::from(format!("{e:#}")))?;
            if !report.is_clean() {
                return Err(Failed::from(format!("{report}")));
            }
            drop(arena);
            under_test.close().await;
            Ok(())
        })
    })
}
