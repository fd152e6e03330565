//! `worker --db URL`: a real worker process for the suites that kill some.
//!
//! It talks by lines. It says `ready`, then takes commands from standard input until that is closed, and shuts down:
//! - `start SCRIPT`: starts a scripted run and says `started RUN`
//! - `march STEPS`: starts an async workflow of so many steps, one after the other, and says `started RUN`
//! - `await RUN`: waits for a run and says `ended RUN STATUS`

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use durable_testkit::engine_suite::{Script, Scripted};
use durable_testkit::process::{EffectsFile, STOPPED, open_store};
use everruns_durable::engine::EngineBuilder;
use everruns_durable::prelude::*;
use everruns_durable::{Client, Engine};
use serde_json::Value;
use tokio::sync::mpsc;
use uuid::Uuid;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database
    #[arg(long, value_name = "URL")]
    db: String,
    /// Hosts the scripted workflow too, not only its activities
    #[arg(long)]
    workflows: bool,
    /// Activities at once
    #[arg(long, default_value_t = 100)]
    slots: usize,
    /// Where effects are written down
    #[arg(long, value_name = "FILE")]
    effects: PathBuf,
    /// For how long tasks and runs are left to a worker that gives no sign
    #[arg(long, default_value_t = 15_000)]
    lease_ms: u64,
    /// How often is looked for what nobody rang for
    #[arg(long, default_value_t = 500)]
    poll_ms: u64,
    /// No activity ends: it writes its effect down and hangs, until the process is killed
    #[arg(long)]
    hang: bool,
    /// The `effect` with this input hangs
    #[arg(long, value_name = "STEP")]
    hang_at: Option<u64>,
}

#[workflow]
async fn marching(ctx: WorkflowContext, steps: u64) -> WorkflowResult<u64> {
    for step in 1..=steps {
        let done: u64 = ctx.activity_named("effect", step).await?;
        assert_eq!(done, step, "each step has its own answer");
    }
    Ok(steps)
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let store = open_store(&args.db).await?;
    let mut builder = Engine::on(store)
        .max_concurrent_tasks(args.slots)
        .configure(|settings| {
            let lease = Duration::from_millis(args.lease_ms);
            settings.worker.lease = lease;
            settings.worker.lease_renewal = lease / 4;
            settings.turns.owner_lease = lease;
            settings.chores.fallback_poll = Duration::from_millis(args.poll_ms);
            settings.chores.reap_interval = lease / 4;
        });
    if args.workflows {
        builder = builder.workflow::<Scripted>().workflow::<marching>();
    }
    let engine = with_activities(builder, args)?.start().await?;
    say("ready")?;
    let mut commands = commands();
    while let Some(command) = commands.recv().await {
        let client = engine.client();
        tokio::spawn(async move {
            if let Err(error) = obey(&client, &command).await {
                // The suite waits for an answer and shows this one.
                let _ = say(&format!("refused {command}: {error:#}"));
            }
        });
    }
    engine.shutdown().await?;
    Ok(ExitCode::SUCCESS)
}

/// `effect` writes its effect down and answers its input; `paced` does so after as many milliseconds as its input says;
/// `shaky` fails as long as the file beside the effects that ends in `.down` exists; `held` answers once the one that ends in `.open` does, and
/// writes down when it is told to stop.
fn with_activities(builder: EngineBuilder, args: &Args) -> anyhow::Result<EngineBuilder> {
    let effects = Arc::new(EffectsFile::append_to(&args.effects)?);
    let (hang, hang_at) = (args.hang, args.hang_at);
    let down = args.effects.with_extension("down");
    let note = move |effects: &EffectsFile, ctx: &ActivityContext| {
        effects.note(ctx.workflow_id, &ctx.activity_id, ctx.attempt)
    };
    let open = args.effects.with_extension("open");
    let (effect, paced) = (Arc::clone(&effects), Arc::clone(&effects));
    let (shaky, held) = (Arc::clone(&effects), effects);
    Ok(builder
        .activity_fn("effect", move |ctx: ActivityContext, input: Value| {
            let effects = Arc::clone(&effect);
            async move {
                note(&effects, &ctx)?;
                hang_if(hang || hang_at.is_some() && hang_at == input.as_u64()).await;
                Ok(input)
            }
        })
        .activity_fn("paced", move |ctx: ActivityContext, input: Value| {
            let effects = Arc::clone(&paced);
            async move {
                note(&effects, &ctx)?;
                hang_if(hang).await;
                tokio::time::sleep(PACE).await;
                Ok(input)
            }
        })
        .activity_fn("shaky", move |ctx: ActivityContext, input: Value| {
            let effects = Arc::clone(&shaky);
            let down = down.clone();
            async move {
                note(&effects, &ctx)?;
                if down.exists() {
                    return Err(ActivityError::new("Down", "the provider is down"));
                }
                Ok(input)
            }
        })
        .activity_fn("held", move |ctx: ActivityContext, input: Value| {
            let effects = Arc::clone(&held);
            let open = open.clone();
            async move {
                note(&effects, &ctx)?;
                while !open.exists() {
                    if ctx.is_cancelled() {
                        effects.note(ctx.workflow_id, STOPPED, ctx.attempt)?;
                        return Err(ActivityError::new("Stopped", "as it was told to"));
                    }
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Ok(input)
            }
        }))
}

/// How often a `held` activity looks whether it may go on.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How long a `paced` activity works: long against what its handing out costs, so that slots are what limits a worker.
const PACE: Duration = Duration::from_millis(50);

async fn hang_if(hang: bool) {
    if hang {
        std::future::pending::<()>().await;
    }
}

/// Lines of standard input, until it is closed.
fn commands() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    // A thread of its own: reading standard input cannot be broken off.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn obey(client: &Client, command: &str) -> anyhow::Result<()> {
    let (verb, rest) = command.split_once(' ').context("VERB ARGUMENT")?;
    match verb {
        "start" => {
            let script: Script = serde_json::from_str(rest)?;
            let run = client.start::<Scripted>(script).await?;
            say(&format!("started {}", run.id()))
        }
        "march" => {
            let run = client.start::<marching>(rest.parse()?).await?;
            say(&format!("started {}", run.id()))
        }
        "await" => {
            let run_id: Uuid = rest.parse()?;
            let run = client.run::<Scripted>(run_id).ended().await?;
            say(&format!("ended {run_id} {}", run.status.as_str()))
        }
        other => anyhow::bail!("there is no command {other}"),
    }
}

/// A line at once: the suite waits for it.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
