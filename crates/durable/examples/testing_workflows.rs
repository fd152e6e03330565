//! Testing workflows: a month passes at once, a crash is survived, a changed workflow is caught.
//!
//! ```sh
//! cargo run --example testing_workflows
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::time::Duration;

use everruns_durable::prelude::*;
use everruns_durable::testing::{TestEnv, TestEnvBuilder, simulate, verify};

const MONTH: Duration = Duration::from_secs(30 * 86_400);

#[activity]
async fn charge(_customer: String) -> ActivityResult<u32> {
    Err(ActivityError::new("Production", "would move real money"))
}

#[activity]
async fn send_receipt(_number: u32) -> ActivityResult<()> {
    Err(ActivityError::new("Production", "would send real mail"))
}

/// Charges a customer every month, three times.
#[workflow]
async fn subscription(ctx: WorkflowContext, customer: String) -> WorkflowResult<u32> {
    let mut paid = 0;
    for _ in 0..3 {
        let receipt = ctx.activity::<charge>(customer.clone()).await?;
        ctx.activity::<send_receipt>(receipt).await?;
        paid += 1;
        ctx.sleep(MONTH).await?;
    }
    Ok(paid)
}

/// The same after a careless change: waits before it charges.
mod careless {
    use super::*;

    #[workflow(name = "subscription")]
    pub async fn subscription(ctx: WorkflowContext, customer: String) -> WorkflowResult<u32> {
        let mut paid = 0;
        for _ in 0..3 {
            ctx.sleep(MONTH).await?;
            let receipt = ctx.activity::<charge>(customer.clone()).await?;
            ctx.activity::<send_receipt>(receipt).await?;
            paid += 1;
        }
        Ok(paid)
    }
}

fn mocks(env: TestEnvBuilder) -> TestEnvBuilder {
    env.workflow::<subscription>()
        .mock::<charge>(|_customer| Ok(4711))
        .mock::<send_receipt>(|_number| Ok(()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recorded = months_pass_at_once().await?;
    a_crash_is_survived().await?;
    every_crash_is_survived().await?;
    a_careless_change_is_caught(&recorded);
    Ok(())
}

async fn months_pass_at_once() -> everruns_durable::Result<String> {
    let env = mocks(TestEnv::new()).time_by_hand().start().await;
    let run = env.start::<subscription>("Ann".to_owned()).await?;
    println!(
        "on the first day Ann is charged {} time",
        env.calls::<charge>().len()
    );
    env.advance(MONTH).await;
    println!(
        "a month later she was charged {} times",
        env.calls::<charge>().len()
    );
    env.advance(MONTH * 2).await;
    println!("two more, and the run ends with {}", run.result().await?);
    Ok(run.history().await?.to_json())
}

async fn a_crash_is_survived() -> everruns_durable::Result<()> {
    let driver = mocks(TestEnv::new()).driver().await;
    let run = driver.start::<subscription>("Bob".to_owned()).await?;
    let step = driver.step().await?.expect("the first turn");
    println!("driver: {step}");
    driver.crash().await;
    println!("driver: the process dies before Bob's receipt is stored");
    driver.resume().await;
    for _ in 0..3 {
        driver.run_until_idle().await?;
        driver.advance(MONTH).await;
    }
    driver.run_until_idle().await?;
    println!(
        "driver: another one carries on, and the run ends with {}",
        run.result().await?
    );
    println!(
        "driver: charge was called {} times, since activities run at least once",
        driver.calls::<charge>().len()
    );
    Ok(())
}

async fn every_crash_is_survived() -> Result<(), Box<dyn std::error::Error>> {
    let simulated = simulate::<subscription>("Cleo".to_owned(), 0..1)
        .world(mocks)
        .faults_max(200)
        .await?;
    println!(
        "simulator: more than 50 crashes survived: {}",
        simulated.crashes > 50
    );
    Ok(())
}

fn a_careless_change_is_caught(recorded: &str) {
    let same = verify::<subscription>(recorded).is_ok();
    println!("verify: today's code carries on yesterday's runs: {same}");
    if let Err(error) = verify::<careless::subscription>(recorded) {
        println!("verify: the changed code does not: {error}");
    }
}
