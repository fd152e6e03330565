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
                .filter(move |claim| !is_about_stored_form(flavour, claim))
                .map(move |claim| trial(flavour, claim))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Behind a codec the limits hold for what the codec made, which is a little larger; and a child's start carries a fingerprint.
fn is_about_stored_form(flavour: Flavour, claim: &Claim) -> bool {
    let claims = [
        "a_payload_of_exactly_the_limit_is_stored",
        "messages_are_written_in_order",
    ];
    flavour.kind == Kind::Coded && claims.contains(&claim.name)
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
