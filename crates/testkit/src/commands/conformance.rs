//! `conformance --stores memory,sqlite [--fail-fast]`

use std::process::ExitCode;
use std::time::Duration;

use durable_testkit::conformance::{self, Claim};
use durable_testkit::{Flavour, World};
use futures_util::{StreamExt as _, stream};
use tokio::task::JoinSet;

use super::kind;

/// A claim that takes longer is stuck.
const CLAIM_TIME: Duration = Duration::from_secs(120);
/// Claims at a time.
const AT_A_TIME: usize = 4;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stores of memory, sqlite, postgres, pgbouncer; each with one shard and with four
    #[arg(long, value_delimiter = ',', default_value = "memory,sqlite")]
    stores: Vec<String>,
    /// Ends with the first claim that does not hold
    #[arg(long)]
    fail_fast: bool,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // A claim that does not hold panics; its message is told once, below.
    std::panic::set_hook(Box::new(|_| {}));
    let mut trials = Vec::new();
    for name in &args.stores {
        let kind = kind(name)?;
        for shards in [1, 4] {
            let flavour = Flavour { kind, shards };
            trials.extend(conformance::all().into_iter().map(|claim| (flavour, claim)));
        }
    }
    let (mut held, mut failed) = (0, 0);
    let mut outcomes = stream::iter(trials)
        .map(|(flavour, claim)| trial(flavour, claim))
        .buffer_unordered(AT_A_TIME);
    while let Some((name, outcome)) = outcomes.next().await {
        match outcome? {
            Ok(()) => held += 1,
            Err(reason) => {
                failed += 1;
                println!("FAILED {name}: {}", first_lines(&reason));
                if args.fail_fast {
                    drop(outcomes);
                    // Not by returning: the runtime would wait for claims that loop for ever.
                    std::process::exit(1);
                }
            }
        }
    }
    println!("{held} claims hold, {failed} do not");
    Ok(if failed == 0 && held > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One claim on a store of its own; a task of its own catches its panic. The outer error is a store that cannot be
/// opened, which says nothing about the claim.
async fn trial(flavour: Flavour, claim: Claim) -> (String, anyhow::Result<Result<(), String>>) {
    let name = format!("{}::{}::{}", flavour.name(), claim.subject, claim.name);
    let under_test = match flavour.open().await {
        Ok(under_test) => under_test,
        Err(error) => return (name.clone(), Err(error.context(name))),
    };
    let world = World::new(under_test.store.clone());
    let mut task = JoinSet::new(); // It ends its task when it is dropped.
    task.spawn(async move { (claim.body)(&world).await });
    let outcome = match tokio::time::timeout(CLAIM_TIME, task.join_next()).await {
        Ok(Some(Err(panicked))) => Err(panic_message(panicked)),
        Ok(_) => {
            under_test.close().await;
            Ok(())
        }
        Err(_) => Err(format!("it did not end within {CLAIM_TIME:?}")),
    };
    (name, Ok(outcome))
}

fn panic_message(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else {
        return "it was given up".into();
    };
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked")
        .to_owned()
}

fn first_lines(text: &str) -> String {
    let short: Vec<&str> = text.lines().take(4).map(str::trim).collect();
    short.join(" | ")
}
