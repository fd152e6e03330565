//! Schedules, on a clock that is advanced by hand: ticks, overlaps, pauses, backfills, time zones.
//!
//! ```sh
//! cargo run --example schedules
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use everruns_durable::core::Timestamp;
use everruns_durable::persistence::model::WorkflowStatus;
use everruns_durable::prelude::*;
use everruns_durable::testing::TestEnv;
use serde_json::Value;

const DAY: Duration = Duration::from_secs(86_400);
const ALL: Page = Page {
    limit: 1_000,
    offset: 0,
};

/// Takes as long as it is told.
#[workflow]
async fn report(ctx: WorkflowContext, span: String) -> WorkflowResult<()> {
    ctx.sleep(span).await
}

fn instant(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

/// A schedule that fires daily, for runs that last a day and a half.
fn daily(id: &str, overlap: OverlapPolicy) -> Schedule {
    Schedule::cron(id, "0 9 * * *")
        .workflow::<report>("PT36H".to_owned())
        .time_zone("Europe/Berlin")
        .overlap(overlap)
}

/// How many runs a schedule has started, and how they stand.
async fn tell(env: &TestEnv, id: &'static str) -> Result<(), Error> {
    let runs = env
        .with(|client| async move {
            let mut runs = Vec::new();
            for run in client.list(RunFilter::default(), ALL).await?.runs {
                runs.push(client.get(run.id).await?);
            }
            Ok(runs)
        })
        .await?;
    let mine: Vec<_> = runs
        .iter()
        .filter(|run| {
            let memo = run.memo.to_value::<Value>().unwrap_or_default();
            memo["schedule_id"] == id
        })
        .collect();
    let count = |status| mine.iter().filter(|run| run.status == status).count();
    println!(
        "  {id}: {} started, {} completed, {} cancelled, {} failed",
        mine.len(),
        count(WorkflowStatus::Completed),
        count(WorkflowStatus::Cancelled),
        count(WorkflowStatus::Failed),
    );
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let env = TestEnv::new()
        .workflow::<report>()
        .starting_at(instant("2026-04-01T00:00:00Z"))
        .time_by_hand()
        .start()
        .await;
    let policies = [
        ("allow", OverlapPolicy::Allow),
        ("skip", OverlapPolicy::Skip),
        ("replace", OverlapPolicy::Replace),
        ("terminate", OverlapPolicy::Terminate),
        ("buffer one", OverlapPolicy::BufferOne),
    ];
    for (id, policy) in policies {
        env.with(move |client| async move { client.create_schedule(daily(id, policy)).await })
            .await?;
    }
    println!("six days, runs of 36 hours:");
    env.advance(DAY * 6).await;
    for (id, _) in policies {
        tell(&env, id).await?;
    }

    println!("paused for six days, and triggered by hand once:");
    env.with(|client| async move {
        client.pause_schedule("allow").await?;
        client.trigger_schedule("allow").await?;
        Ok(())
    })
    .await?;
    env.advance(DAY * 6).await;
    tell(&env, "allow").await?;

    println!("made up for, around a change of the clock in Berlin:");
    let (from, to) = (
        instant("2026-03-27T00:00:00Z"),
        instant("2026-03-30T00:00:00Z"),
    );
    let times = env
        .with(move |client| async move {
            let mut times = Vec::new();
            for run in client.backfill_schedule("allow", from, to).await? {
                let memo: Value = client.memo(run).await?;
                times.push(memo["scheduled_at"].clone());
            }
            client.resume_schedule("allow").await?;
            Ok(times)
        })
        .await?;
    for time in times {
        println!("  a run for {time}");
    }
    env.advance(DAY).await;
    tell(&env, "allow").await?;

    let wrong = Schedule::cron("wrong", "61 * * * *").workflow::<report>(String::new());
    let refused = env
        .with(|client| async move { client.create_schedule(wrong).await })
        .await;
    println!("refused: {}", refused.expect_err("minute 61"));
    Ok(())
}
