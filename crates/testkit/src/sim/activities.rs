//! The activities of simulated runs. Each notes its executions in the ledger, and logs the execution's number with its outcome.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use everruns_durable::activity::ActivityContext;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::persistence::model::LogLevel;
use everruns_durable::prelude::*;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::tally::Happening;
use super::world::World;

/// An execution that is under way; dropped with its node, it ends without an answer.
struct UnderWay {
    world: Arc<World>,
    node: String,
    what: String,
    serial: usize,
    answered: bool,
}

impl UnderWay {
    fn begin(world: &Arc<World>, node: &str, ctx: &ActivityContext) -> Self {
        let serial = world.ledger.begin(ctx, node, world.millis());
        ctx.log(LogLevel::Info, serial.to_string());
        world.count(Happening::ActivityRetried, usize::from(ctx.attempt > 1));
        let found = ctx.heartbeat_details::<Value>().is_some();
        world.count(Happening::HeartbeatFound, usize::from(found));
        let what = format!("{} {} #{serial}", ctx.activity_type(), ctx.activity_id);
        let run = ctx.workflow_id.simple().to_string();
        world.note(node, || {
            format!(
                "begins {what} of run {} attempt {}",
                &run[28..],
                ctx.attempt
            )
        });
        Self {
            world: Arc::clone(world),
            node: node.to_owned(),
            what,
            serial,
            answered: false,
        }
    }

    fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let world = &self.world;
        world.ledger.end(self.serial, world.millis(), self.answered);
        world.count(Happening::ActivityLost, usize::from(!self.answered));
        let how = if self.answered { "ends" } else { "drops" };
        world.note(&self.node, || format!("{how} {}", self.what));
    }
}

/// The activity that waits until it is told to stop.
pub(super) const PATIENT: &str = "patient";

/// The activity that runs only so often.
pub(super) const LIMITED: &str = "limited";

type Answered = Result<Value, ActivityError>;

/// Names an activity to those who call it by its type; what it does is added by name.
macro_rules! named {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal),+ $(,)?) => {$(
        $(#[doc = $doc])+
        pub(super) struct $name;

        #[async_trait]
        impl Activity for $name {
            const TYPE: &'static str = $text;
            type Input = Value;
            type Output = Value;

            async fn execute(&self, _ctx: &ActivityContext, _input: Value) -> ActivityResult<Value> {
                Err(ActivityError::new("Misplaced", "the one of that name is meant"))
            }
        }
    )+};
}

named! {
    /// Answers what it is given.
    Echo = "local-echo",
    /// Fails until the attempt it is told to succeed at.
    Flaky = "local-flaky",
}

/// Adds them to a node.
pub(super) fn add(builder: EngineBuilder, world: &Arc<World>, node: &str) -> EngineBuilder {
    // Local ones are run by the turn that needs them, as often as it is taken: no ledger is kept of them.
    let builder = builder
        .activity_fn(Echo::TYPE, |_ctx, input: Value| async move { Ok(input) })
        .activity_fn(Flaky::TYPE, flaky);
    let noted = Noted { world, node };
    let builder = noted.add(builder, "echo", |_ctx, input| async move { Ok(input) });
    let builder = noted.add(builder, "tidy", |_ctx, input| async move { Ok(input) });
    let builder = noted.add(builder, LIMITED, |_ctx, input| async move { Ok(input) });
    let builder = noted.add(builder, "flaky", flaky);
    let patients = Arc::clone(world);
    let builder = noted.add(builder, "sick", move |_ctx, input| {
        let mended = patients.remedies.is_mended(&input);
        async move {
            if mended {
                return Ok(input);
            }
            Err(ActivityError::new("Sick", "not mended yet"))
        }
    });
    let deeds = Arc::clone(world);
    let builder = noted.add(builder, "once", move |ctx, _input| {
        once(Arc::clone(&deeds), ctx)
    });
    let builder = noted.add(builder, "slow", |_ctx, input| async move {
        sleep(millis(&input)).await;
        Ok(input)
    });
    let builder = noted.add(builder, "nap", |_ctx, input| async move {
        sleep(Duration::from_millis(
            200 + 300 * input.as_u64().unwrap_or(0),
        ))
        .await;
        Ok(input)
    });
    let builder = noted.add(builder, "pages", pages);
    let builder = noted.add(builder, "memory", memory);
    let builder = noted.add(builder, "fatal", |_ctx, _input| async move {
        Err(ActivityError::new("Fatal", "no use trying again").non_retryable())
    });
    let builder = noted.add(builder, "broken", |_ctx, _input| async move {
        Err(ActivityError::new("Broken", "never works"))
    });
    let builder = noted.add(builder, "hangs", |_ctx, _input| async move {
        sleep(Duration::from_secs(60)).await;
        Ok(Value::Null)
    });
    let builder = noted.add(builder, "stubborn", |_ctx, input| async move {
        sleep(Duration::from_secs(3)).await;
        Ok(input)
    });
    noted.add(builder, PATIENT, |ctx, input| async move {
        tokio::select! {
            biased;
            () = ctx.cancelled() => Err(ActivityError::new("Stopped", "asked to stop")),
            () = sleep(Duration::from_secs(90)) => Ok(input),
        }
    })
}

struct Noted<'a> {
    world: &'a Arc<World>,
    node: &'a str,
}

impl Noted<'_> {
    fn add<F, Fut>(&self, builder: EngineBuilder, name: &str, activity: F) -> EngineBuilder
    where
        F: Fn(ActivityContext, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answered> + Send + 'static,
    {
        let world = Arc::clone(self.world);
        let node = self.node.to_owned();
        builder.activity_fn(name, move |ctx: ActivityContext, input: Value| {
            let under_way = UnderWay::begin(&world, &node, &ctx);
            let answer = activity(ctx, input);
            async move {
                let answer = answer.await;
                under_way.answered();
                answer
            }
        })
    }
}

/// Fails until the attempt it is told to succeed at.
async fn flaky(ctx: ActivityContext, input: Value) -> Answered {
    if u64::from(ctx.attempt) < input.as_u64().unwrap_or(0) {
        return Err(ActivityError::new(
            "Flaky",
            format!("attempt {}", ctx.attempt),
        ));
    }
    Ok(json!(ctx.attempt))
}

/// Does something once, fails, and finds it done.
async fn once(world: Arc<World>, ctx: ActivityContext) -> Answered {
    let key = ctx.idempotency_key();
    let done: u64 = ctx
        .run_once(&key, || async { Ok(world.remedies.next_serial()) })
        .await?;
    if !world.remedies.is_first(&key, done) {
        world.violated(format!("{key} was done once and came to two things"));
    }
    if ctx.attempt == 1 {
        return Err(ActivityError::new("Interrupted", "after the deed"));
    }
    Ok(json!("once"))
}

/// Goes through pages with a heartbeat after each, from where an earlier attempt was.
async fn pages(ctx: ActivityContext, input: Value) -> Answered {
    let last = input.as_u64().unwrap_or(0);
    let mut done = ctx.heartbeat_details::<u64>().unwrap_or(0);
    while done < last {
        sleep(Duration::from_millis(400)).await;
        done += 1;
        if ctx.heartbeat(Some(json!(done))).await.is_err() {
            return Err(ActivityError::new("Stopped", "asked to stop"));
        }
    }
    Ok(json!(done))
}

/// Beats twice, the second time while the first beat is on its way, waits and fails; the next attempt tells what it found.
async fn memory(ctx: ActivityContext, _input: Value) -> Answered {
    if ctx.attempt > 1 {
        return Ok(json!(ctx.heartbeat_details::<u64>().unwrap_or(0)));
    }
    let beat = async |n: u64| ctx.heartbeat(Some(json!(n))).await;
    let stopped = || ActivityError::new("Stopped", "asked to stop");
    beat(1).await.map_err(|_| stopped())?;
    sleep(Duration::from_millis(102)).await;
    beat(2).await.map_err(|_| stopped())?;
    sleep(Duration::from_millis(1200)).await;
    Err(ActivityError::new("Interrupted", "after two heartbeats"))
}

fn millis(input: &Value) -> Duration {
    Duration::from_millis(input.as_u64().unwrap_or(0))
}
