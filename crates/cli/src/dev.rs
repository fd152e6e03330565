//! `durable dev`: the engine on its embedded store, with one small workflow that tells what happens to it.
//!
//! The server (HTTP, gRPC, UI) that stays up comes with a later release; this ends when the run has ended.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use everruns_durable::persistence::model::RunFilter;
use everruns_durable::prelude::*;
use serde_json::Value;

/// How to run it.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The store: `sqlite:PATH`, `memory:` or `postgres://…`.
    #[arg(long, default_value = "sqlite:durable.db")]
    db: String,
}

/// Greets somebody, pauses, waits for a cheer, and is done.
struct Greeting {
    name: String,
    greeting: String,
    cheered: bool,
    paused: bool,
}

impl Workflow for Greeting {
    const TYPE: &'static str = "greeting";
    type Input = String;
    type Output = String;

    fn new(name: String) -> Self {
        Self {
            name,
            greeting: String::new(),
            cheered: false,
            paused: false,
        }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        let name = Payload::from_value(&self.name).expect("a string is JSON");
        vec![
            WorkflowAction::schedule_activity("greet-1", "greet", name),
            WorkflowAction::StartTimer {
                timer_id: "pause".to_owned(),
                duration: Duration::from_millis(200),
            },
        ]
    }

    fn on_activity_completed(&mut self, _id: &str, result: Value) -> Vec<WorkflowAction> {
        self.greeting = result.as_str().unwrap_or_default().to_owned();
        vec![]
    }

    fn on_activity_failed(&mut self, _id: &str, error: &ActivityError) -> Vec<WorkflowAction> {
        let error = WorkflowError::from(error.clone().into_failure());
        vec![WorkflowAction::FailWorkflow { error }]
    }

    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        self.paused = true;
        vec![]
    }

    fn on_signal(&mut self, signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        self.cheered |= signal.signal_type == "cheer";
        vec![]
    }

    fn is_completed(&self) -> bool {
        self.cheered && self.paused && !self.greeting.is_empty()
    }

    fn result(&self) -> Option<Result<String, WorkflowError>> {
        Some(Ok(self.greeting.clone()))
    }
}

/// Runs the demonstration.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let engine = Engine::open(&options.db)
        .workflow::<Greeting>()
        .activity_fn("greet", |ctx: ActivityContext, name: String| async move {
            println!("   activity `greet` runs, attempt {}", ctx.attempt);
            Ok(format!("Hello, {name}!"))
        })
        .start()
        .await?;
    println!(
        "1. an engine runs on {}, as worker {}",
        options.db,
        engine.worker_id()
    );
    let client = engine.client();
    let run = client.start::<Greeting>("World".to_owned()).await?;
    println!(
        "2. started run {} of workflow `greeting` with input \"World\"",
        run.id()
    );
    run.signal("cheer", "hooray").await?;
    println!("3. sent it a signal; it also set a timer of 200 ms");
    let result = run.result().await?;
    println!("4. it completed: {result}");
    tell(&client, &run).await?;
    engine.shutdown().await?;
    println!("\nThe server that stays up (HTTP, gRPC, UI) comes with a later release.");
    Ok(())
}

async fn tell(client: &Client, run: &RunHandle<Greeting>) -> anyhow::Result<()> {
    let history = client.store().load_history(run.id(), 0).await?;
    let history = history.context("the run is gone")?;
    println!("\nits history:");
    for event in &history.events {
        println!("  {:>2}  {}", event.sequence_num, event.event.event_type());
    }
    let filter = RunFilter {
        workflow_type: Some(Greeting::TYPE.to_owned()),
        ..RunFilter::default()
    };
    let runs = client.count(filter).await?;
    println!(
        "\nstatus: {}   runs of this workflow so far: {runs}",
        history.run.status
    );
    Ok(())
}
