//! Two things at the same moment, one of which must win, for ever: a signal and the end, a result and its deadline, a heartbeat and
//! the finish.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everruns_durable::Engine;
use everruns_durable::client::{Client, RunHandle};
use everruns_durable::core::WorkflowEvent;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::prelude::*;
use everruns_durable::runtime::Runtime;
use futures_util::stream::{self, StreamExt as _};

use super::sharp::{Note, names};
use super::{Arena, Effects, claims};

claims! { "races":
    a_signal_at_the_moment_of_completion_is_in_the_history_or_refused,
    a_result_that_arrives_before_the_deadline_beats_the_timeout,
    of_a_result_and_a_deadline_at_the_same_moment_one_wins_for_ever,
    a_heartbeat_after_the_finish_is_ignored,
}

fn engine(arena: &Arena, effects: &Effects) -> EngineBuilder {
    arena.engine(effects).activity(Note(effects.clone()))
}

#[workflow]
async fn one_signal(ctx: WorkflowContext) -> WorkflowResult<u32> {
    ctx.signal("go").await
}

/// Rounds of the race; `DURABLE_TEST_SIGNAL_RACES=10000` for more than the share that every test run takes.
fn rounds() -> u32 {
    let asked = std::env::var("DURABLE_TEST_SIGNAL_RACES").ok();
    asked.map_or(100, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Races at once: what they cost each other moves the end, which is what is wanted.
const AT_ONCE: usize = 8;

/// How far from the end, at most, the second signal is sent.
const AROUND_US: u64 = 2_000;

/// How long a run took from its signal to its end, the last time.
#[derive(Default)]
struct Latency(AtomicU64);

impl Latency {
    fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.store(took, Ordering::Relaxed);
    }

    /// A moment within ±2 ms of the end that is to be expected.
    fn moment(&self, round: u32) -> Duration {
        let offset = u64::from(round).wrapping_mul(7_919) % (2 * AROUND_US);
        let expected = self.0.load(Ordering::Relaxed);
        Duration::from_micros((expected + offset).saturating_sub(AROUND_US))
    }
}

#[allow(clippy::print_stdout, reason = "how near the race was to the end")]
async fn a_signal_at_the_moment_of_completion_is_in_the_history_or_refused(arena: &Arena) {
    let engine = engine(arena, &Effects::new()).workflow::<one_signal>();
    let engine = engine.start().await.expect("starts");
    let (latency, taken) = (Latency::default(), AtomicUsize::new(0));
    let races = stream::iter(0..rounds()).for_each_concurrent(AT_ONCE, |round| {
        let (engine, latency, taken) = (&engine, &latency, &taken);
        async move {
            if race_with_the_end(engine, latency, round).await {
                taken.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    races.await;
    let taken = taken.into_inner();
    println!("{taken} of {} signals came before the end", rounds());
    engine.shutdown().await.expect("stops");
}

/// Whether the second signal was taken; then it is in the history, and otherwise it is not.
async fn race_with_the_end(engine: &Engine, latency: &Latency, round: u32) -> bool {
    let run = engine.client().start::<one_signal>(()).await;
    let run = run.expect("starts");
    let began = Instant::now();
    let ended = async {
        run.signal("go", &round).await.expect("the first is taken");
        assert_eq!(run.result().await.expect("completes"), round);
        latency.note(began.elapsed());
    };
    let late = async {
        // No synchronisation: the moment is what is varied.
        tokio::time::sleep(latency.moment(round)).await;
        match run.signal("late", &round).await {
            Ok(()) => true,
            Err(error) if error.is_run_finished() => false,
            Err(error) => panic!("round {round}: {error}"),
        }
    };
    let ((), taken) = tokio::join!(ended, late);
    let history = engine.client().history(run.id()).await.expect("there");
    let there = history.events.iter().filter(|event| {
        matches!(&event.event, WorkflowEvent::SignalReceived { signal, .. } if signal.signal_type == "late")
    });
    assert_eq!(there.count(), usize::from(taken), "round {round}");
    taken
}

/// Long enough for a killed host, a result and a look at the clock; it is waited for once.
const DEADLINE: Duration = Duration::from_secs(2);

#[workflow]
async fn in_time(ctx: WorkflowContext) -> WorkflowResult<String> {
    select! {
        slept = ctx.sleep(DEADLINE) => slept.map(|()| "late".to_owned()),
        noted = ctx.activity::<Gated>(()) => noted,
    }
}

/// Notes that it began, and answers when the gate is open.
struct Gated(Effects);

#[async_trait]
impl Activity for Gated {
    const TYPE: &'static str = "gated-race";
    type Input = ();
    type Output = String;

    async fn execute(&self, _ctx: &ActivityContext, (): ()) -> ActivityResult<String> {
        self.0.note("began");
        self.0.pass_gate().await;
        Ok("in time".to_owned())
    }
}

/// Whether the run's inbox has this many facts by now, and its deadline is still to come.
async fn arrived_in_time(client: &Client, run: &RunHandle<in_time>, facts: i64) -> bool {
    loop {
        let now = client.store().clock(None).await.expect("it has one");
        let record = run.get().await.expect("there");
        let deadline = record.created_at.checked_add(DEADLINE).expect("in range");
        if record.arrivals >= facts || now >= deadline {
            return now < deadline;
        }
        tokio::task::yield_now().await;
    }
}

/// The result waits in the inbox while nobody turns the run; the deadline passes; then somebody comes, and finds both.
async fn a_result_that_arrives_before_the_deadline_beats_the_timeout(arena: &Arena) {
    loop {
        let (effects, runtime) = (Effects::new(), Runtime::real());
        let worker = arena.engine(&effects).activity(Gated(effects.clone()));
        let worker = worker.start().await.expect("starts");
        let host = arena.engine(&effects).workflow::<in_time>();
        let host = host.runtime(runtime.clone()).start().await;
        let host = host.expect("starts");
        let client = Client::on(arena.store.clone());
        let run = client.start::<in_time>(()).await.expect("starts");
        effects.reached("began", 1).await;
        runtime.kill();
        effects.open_gate();
        let in_time = arrived_in_time(&client, &run, 1).await;
        // The worker does the chores, too: the timer fires though nobody turns the run.
        while in_time && run.get().await.expect("there").arrivals < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let heir = arena.engine(&effects).workflow::<in_time>();
        let heir = heir.start().await.expect("starts");
        let result = run.result().await.expect("completes");
        drop(host);
        heir.shutdown().await.expect("stops");
        worker.shutdown().await.expect("stops");
        if in_time {
            assert_eq!(result, "in time");
            return;
        }
        // The machine was too slow for this round to tell anything.
    }
}

#[workflow]
async fn photo_finish(ctx: WorkflowContext, deadline_us: u64) -> WorkflowResult<String> {
    let first = select! {
        slept = ctx.sleep(Duration::from_micros(deadline_us)) => slept.map(|()| "timer"),
        noted = ctx.activity::<Note>("done".to_owned()) => noted.map(|_| "result"),
    }?;
    // Behind it the history is replayed, kept programs or not.
    ctx.activity::<Note>(first.to_owned()).await
}

async fn of_a_result_and_a_deadline_at_the_same_moment_one_wins_for_ever(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).workflow::<photo_finish>();
    let engine = engine.start().await.expect("starts");
    // From before any activity can have ended to after most of them have.
    for deadline_us in (0..40).map(|round| round * 250) {
        let run = engine.client().start::<photo_finish>(deadline_us).await;
        let run = run.expect("starts");
        let winner = run.result().await.expect("completes");
        let history = engine.client().history(run.id()).await.expect("there");
        let first = history.events.iter().find_map(|event| match &event.event {
            WorkflowEvent::TimerFired { .. } => Some("timer"),
            WorkflowEvent::ActivityCompleted { .. } => Some("result"),
            _ => None,
        });
        assert_eq!(first, Some(winner.as_str()), "{deadline_us} µs");
        let names = names(&engine, run.id()).await;
        let count = |name| names.iter().filter(|it| **it == name).count();
        let (fired, given_up) = (count("timer.fired"), count("timer.cancelled"));
        assert_eq!(fired + given_up, 1, "{names:?}");
        let (done, given_up) = (count("activity.completed"), count("activity.cancelled"));
        assert_eq!(done + given_up, 2, "{names:?}");
    }
    engine.shutdown().await.expect("stops");
}

/// Keeps its context, and beats with it after it has answered.
struct Lingers(Effects);

#[async_trait]
impl Activity for Lingers {
    const TYPE: &'static str = "lingers";
    type Input = ();
    type Output = ();

    async fn execute(&self, ctx: &ActivityContext, (): ()) -> ActivityResult<()> {
        let (ctx, effects) = (ctx.clone(), self.0.clone());
        tokio::spawn(async move {
            effects.reached("over", 1).await;
            let beat = ctx.heartbeat(Some(serde_json::json!("late"))).await;
            effects.note(if beat.is_ok() { "beat" } else { "refused" });
        });
        Ok(())
    }
}

#[workflow]
async fn lingering(ctx: WorkflowContext) -> WorkflowResult<()> {
    ctx.activity::<Lingers>(()).await?;
    ctx.activity::<Note>("over".to_owned()).await?;
    ctx.signal::<()>("end").await
}

async fn a_heartbeat_after_the_finish_is_ignored(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects)
        .workflow::<lingering>()
        .activity(Lingers(effects.clone()));
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start::<lingering>(()).await;
    let run = run.expect("starts");
    // A beat does not wait for the store, so nobody can tell it that it came too late: it is taken and goes nowhere.
    effects.reached("beat", 1).await;
    run.signal("end", &()).await.expect("sends");
    run.result().await.expect("completes");
    assert_eq!(effects.all(), ["over", "beat"], "one answer");
    let activity_events: Vec<_> = names(&engine, run.id())
        .await
        .into_iter()
        .filter(|name| name.starts_with("activity."))
        .collect();
    let once = [
        "activity.scheduled",
        "activity.started",
        "activity.completed",
    ];
    assert_eq!(activity_events, [once, once].concat());
    engine.shutdown().await.expect("stops");
}
