//! The conformance suite on every store.

use durable_testkit::conformance::{self, Claim};
use durable_testkit::flavour::Kind;
use durable_testkit::{Flavour, World};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let flavours = [
        (Kind::Memory, 1),
        (Kind::Memory, 4),
        (Kind::Sqlite, 1),
        (Kind::Sqlite, 4),
        (Kind::Postgres, 1),
        (Kind::Postgres, 4),
        (Kind::Pooled, 1),
        (Kind::Coded, 1),
        (Kind::Coded, 4),
    ];
    let trials = flavours
        .into_iter()
        .map(|(kind, shards)| Flavour { kind, shards })
        .flat_map(|flavour| {
            conformance::all()
                .into_iter()
                .filter(move |claim| !is_about_stored_sizes(flavour, claim))
                .map(move |claim| trial(flavour, claim))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Behind a codec the limits hold for what the codec made, which is a little larger; and a result that does not fit fails its
/// activity instead of the call.
fn is_about_stored_sizes(flavour: Flavour, claim: &Claim) -> bool {
    let sizes = [
        "a_payload_of_exactly_the_limit_is_stored",
        "a_result_or_heartbeat_one_byte_over_the_limit_is_refused",
    ];
    flavour.kind == Kind::Coded && sizes.contains(&claim.name)
}

fn trial(flavour: Flavour, claim: Claim) -> Trial {
    let name = format!("{}::{}::{}", flavour.name(), claim.subject, claim.name);
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
            (claim.body)(&World::new(under_test.store.clone())).await;
            under_test.close().await;
            Ok(())
        })
    })
}
