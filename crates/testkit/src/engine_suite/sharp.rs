//! The sharp cases of async workflows: where engines of this kind lose or double something.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everruns_durable::Engine;
use everruns_durable::core::WorkflowEvent;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::prelude::*;
use everruns_durable::runtime::Runtime;
use everruns_durable::workflow::{Birth, Program, WorkflowDefinition, function_program};
use uuid::Uuid;

use super::{Arena, Effects, claims};

claims! { "sharp":
    concurrent_turns_advance_once,
    a_crash_at_each_commit_boundary_resumes_identically,
    a_late_activity_result_is_dropped,
    a_late_child_completion_cannot_flip_a_selects_winner,
    a_late_signal_is_not_eaten_by_a_timed_out_wait,
    an_in_flight_run_keeps_the_old_path_after_a_patch,
    a_reset_replays_from_the_chosen_point_and_late_results_are_refused,
    an_update_is_validated_before_it_changes_anything,
    a_query_during_a_turn_never_sees_half_of_it,
    a_divergence_blocks_the_run_until_a_build_that_matches_comes,
    a_run_of_a_thousand_steps_survives_a_crash,
}

/// Notes what it was given, and answers it.
pub(super) struct Note(pub(super) Effects);

#[async_trait]
impl Activity for Note {
    const TYPE: &'static str = "note";
    type Input = String;
    type Output = String;

    async fn execute(&self, _ctx: &ActivityContext, text: String) -> ActivityResult<String> {
        self.0.note(text.clone());
        Ok(text)
    }
}

/// Notes that it began, and answers when the gate is open, whatever it is asked meanwhile.
struct Stubborn(Effects);

#[async_trait]
impl Activity for Stubborn {
    const TYPE: &'static str = "stubborn";
    type Input = ();
    type Output = String;

    async fn execute(&self, ctx: &ActivityContext, (): ()) -> ActivityResult<String> {
        self.0.note("stubborn began");
        while !self.0.is_gate_open() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // What it does after its lease is gone changes nothing.
        let _ = ctx.heartbeat(None).await;
        self.0.note("stubborn ended");
        Ok("stubborn".to_owned())
    }
}

fn engine(arena: &Arena, effects: &Effects) -> EngineBuilder {
    arena
        .engine(effects)
        .activity(Note(effects.clone()))
        .activity(Stubborn(effects.clone()))
}

#[workflow]
async fn five(ctx: WorkflowContext) -> WorkflowResult<Vec<String>> {
    let mut seen = Vec::new();
    for step in 0..5 {
        seen.push(ctx.activity::<Note>(format!("step {step}")).await?);
    }
    Ok(seen)
}

fn steps() -> Vec<String> {
    (0..5).map(|step| format!("step {step}")).collect()
}

pub(super) async fn names(engine: &Engine, run_id: Uuid) -> Vec<&'static str> {
    let history = engine.client().history(run_id).await.expect("there");
    let events = history.events.iter();
    events.map(|event| event.event.event_type()).collect()
}

async fn concurrent_turns_advance_once(arena: &Arena) {
    let effects = Effects::new();
    let build = || engine(arena, &effects).workflow::<five>();
    let (first, second) = (build().start().await, build().start().await);
    let (first, second) = (first.expect("starts"), second.expect("starts"));
    let run = first.client().start::<five>(()).await.expect("starts");
    // Both are told about the run again and again while it advances.
    for n in 0..50 {
        let client = if n % 2 == 0 {
            first.client()
        } else {
            second.client()
        };
        let told = client.signal(run.id(), "noise", &n).await;
        assert!(told.is_ok() || told.is_err_and(|error| error.is_run_finished()));
    }
    assert_eq!(run.result().await.expect("completes"), steps());
    let scheduled = names(&first, run.id()).await;
    let scheduled = scheduled
        .iter()
        .filter(|name| **name == "activity.scheduled");
    assert_eq!(scheduled.count(), 5);
    first.shutdown().await.expect("stops");
    second.shutdown().await.expect("stops");
}

async fn a_crash_at_each_commit_boundary_resumes_identically(arena: &Arena) {
    for boundary in 1..=6 {
        let effects = Effects::new();
        let build = || {
            engine(arena, &effects)
                .workflow::<five>()
                .configure(|settings| {
                    settings.worker.lease = Duration::from_millis(400);
                    settings.worker.lease_renewal = Duration::from_millis(100);
                    settings.turns.owner_lease = Duration::from_millis(400);
                    settings.chores.fallback_poll = Duration::from_millis(100);
                    settings.chores.reap_interval = Duration::from_millis(100);
                })
        };
        let runtime = Runtime::real();
        let (dying, told) = (runtime.clone(), Arc::new(AtomicUsize::new(0)));
        let first = build()
            .runtime(runtime)
            .listener(move |event| {
                // One of these is told for each turn that is committed.
                if matches!(event.name(), "run.suspended" | "run.completed")
                    && told.fetch_add(1, Ordering::SeqCst) + 1 == boundary
                {
                    dying.kill();
                }
            })
            .start()
            .await
            .expect("starts");
        let client = everruns_durable::Client::on(arena.store.clone());
        let run = client.start::<five>(()).await.expect("starts");
        let second = build().start().await.expect("starts");
        assert_eq!(
            run.result().await.expect("completes"),
            steps(),
            "{boundary}"
        );
        let scheduled = names(&second, run.id()).await;
        let scheduled = scheduled
            .iter()
            .filter(|name| **name == "activity.scheduled");
        assert_eq!(scheduled.count(), 5, "{boundary}");
        drop(first);
        second.shutdown().await.expect("stops");
    }
}

#[workflow]
async fn gives_up(ctx: WorkflowContext) -> WorkflowResult<String> {
    let first = select! {
        slow = ctx.activity::<Stubborn>(()) => slow?,
        signal = ctx.signal::<String>("go") => signal?,
    };
    ctx.activity::<Note>("went on".to_owned()).await?;
    let second: String = ctx.signal("end").await?;
    Ok(format!("{first} {second}"))
}

async fn a_late_activity_result_is_dropped(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).workflow::<gives_up>();
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start::<gives_up>(()).await.expect("starts");
    effects.reached("stubborn began", 1).await;
    run.signal("go", "signal").await.expect("sends");
    effects.reached("went on", 1).await;
    effects.open_gate();
    effects.reached("stubborn ended", 1).await;
    run.signal("end", "end").await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), "signal end");
    let history = engine.client().history(run.id()).await.expect("there");
    let late = history.events.iter().any(|event| {
        matches!(&event.event, WorkflowEvent::ActivityCompleted { activity_id, .. } if activity_id == "1")
    });
    assert!(!late, "the result of a cancelled activity is no event");
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn stubborn_child(ctx: WorkflowContext) -> WorkflowResult<String> {
    // Asked to stop at either of these, it completes all the same.
    if ctx.activity::<Note>("child began".to_owned()).await.is_ok() {
        let _ = ctx.signal::<()>("never").await;
    }
    ctx.activity::<Stubborn>(()).await
}

#[workflow]
async fn races_a_child(ctx: WorkflowContext) -> WorkflowResult<String> {
    let winner = select! {
        child = ctx.child::<stubborn_child>(()) => child?,
        signal = ctx.signal::<String>("go") => signal?,
    };
    ctx.activity::<Note>("decided".to_owned()).await?;
    let end: String = ctx.signal("end").await?;
    Ok(format!("{winner} {end}"))
}

async fn a_late_child_completion_cannot_flip_a_selects_winner(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects)
        .workflow::<races_a_child>()
        .workflow::<stubborn_child>();
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start::<races_a_child>(()).await;
    let run = run.expect("starts");
    effects.reached("child began", 1).await;
    run.signal("go", "signal").await.expect("sends");
    effects.reached("decided", 1).await;
    effects.reached("stubborn began", 1).await;
    effects.open_gate();
    loop {
        let names = names(&engine, run.id()).await;
        if names.contains(&"child.completed") {
            break;
        }
        tokio::task::yield_now().await;
    }
    run.signal("end", "end").await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), "signal end");
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn waits_twice(ctx: WorkflowContext) -> WorkflowResult<(Option<u32>, Option<u32>)> {
    let first = ctx.signal("n").timeout(Duration::from_millis(1)).await?;
    ctx.activity::<Note>("timed out".to_owned()).await?;
    let second = ctx.signal("n").timeout("PT1H").await?;
    Ok((first, second))
}

async fn a_late_signal_is_not_eaten_by_a_timed_out_wait(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).workflow::<waits_twice>();
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start::<waits_twice>(()).await;
    let run = run.expect("starts");
    effects.reached("timed out", 1).await;
    run.signal("n", &7).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), (None, Some(7)));
    let names = names(&engine, run.id()).await;
    let fired = names.iter().filter(|name| **name == "timer.fired");
    assert_eq!(fired.count(), 1, "the second wait did not run out");
    engine.shutdown().await.expect("stops");
}

/// One type, two builds: the code before a change and after it.
struct Before;
struct After;
struct Broken;

macro_rules! build_of {
    ($name:ident, $body:expr) => {
        impl WorkflowDefinition for $name {
            const TYPE: &'static str = "changing";
            type Input = ();
            type Output = String;

            fn program(birth: Birth) -> Box<dyn Program> {
                function_program::<Self, _, _>(birth, $body)
            }
        }
    };
}

build_of!(Before, |ctx: WorkflowContext, ()| async move {
    ctx.activity::<Note>("old".to_owned()).await?;
    ctx.signal::<()>("go").await?;
    ctx.activity::<Note>("old end".to_owned()).await
});
build_of!(After, |ctx: WorkflowContext, ()| async move {
    let new = ctx.patched("shorter");
    let name = if new { "new" } else { "old" };
    ctx.activity::<Note>(name.to_owned()).await?;
    ctx.signal::<()>("go").await?;
    ctx.activity::<Note>(format!("{name} end")).await
});
build_of!(Broken, |ctx: WorkflowContext, ()| async move {
    ctx.sleep(Duration::from_secs(1)).await?;
    Ok("broken".to_owned())
});

async fn an_in_flight_run_keeps_the_old_path_after_a_patch(arena: &Arena) {
    let effects = Effects::new();
    let before = engine(arena, &effects).workflow::<Before>().build_id("1");
    let before = before.start().await.expect("starts");
    let old = before.client().start::<Before>(()).await.expect("starts");
    effects.reached("old", 1).await;
    while !names(&before, old.id())
        .await
        .contains(&"activity.completed")
    {
        tokio::task::yield_now().await;
    }
    before.shutdown().await.expect("stops");
    let after = engine(arena, &effects).workflow::<After>().build_id("2");
    let after = after.start().await.expect("starts");
    let client = after.client();
    let fresh = client.start::<After>(()).await.expect("starts");
    for run in [old.id(), fresh.id()] {
        client.signal(run, "go", &()).await.expect("sends");
    }
    let old = client.run::<After>(old.id()).result().await;
    assert_eq!(old.expect("completes"), "old end");
    assert_eq!(fresh.result().await.expect("completes"), "new end");
    after.shutdown().await.expect("stops");
}

async fn a_divergence_blocks_the_run_until_a_build_that_matches_comes(arena: &Arena) {
    let effects = Effects::new();
    let before = engine(arena, &effects).workflow::<Before>().build_id("1");
    let before = before.start().await.expect("starts");
    let run = before.client().start::<Before>(()).await.expect("starts");
    effects.reached("old", 1).await;
    while !names(&before, run.id())
        .await
        .contains(&"activity.completed")
    {
        tokio::task::yield_now().await;
    }
    before.shutdown().await.expect("stops");
    let broken = engine(arena, &effects).workflow::<Broken>().build_id("2");
    let broken = broken.start().await.expect("starts");
    let client = broken.client();
    client.signal(run.id(), "go", &()).await.expect("sends");
    let blocked = loop {
        if let Some(blocked) = client.get(run.id()).await.expect("there").blocked {
            break blocked;
        }
        tokio::task::yield_now().await;
    };
    for part in [
        "schedule activity",
        "start timer",
        "sharp.rs:",
        "ctx.patched(",
    ] {
        assert!(blocked.reason.contains(part), "{part}: {}", blocked.reason);
    }
    broken.shutdown().await.expect("stops");
    let again = engine(arena, &effects).workflow::<Before>().build_id("3");
    let again = again.start().await.expect("starts");
    let run = again.client().run::<Before>(run.id());
    assert_eq!(run.result().await.expect("completes"), "old end");
    again.shutdown().await.expect("stops");
}

#[workflow]
async fn resettable(ctx: WorkflowContext) -> WorkflowResult<String> {
    let id = ctx.side_effect(|| 1_u32)?;
    ctx.activity::<Note>(format!("first {id}")).await?;
    ctx.activity::<Stubborn>(()).await
}

async fn a_reset_replays_from_the_chosen_point_and_late_results_are_refused(arena: &Arena) {
    let effects = Effects::new();
    let engine = engine(arena, &effects).workflow::<resettable>();
    let engine = engine.start().await.expect("starts");
    let client = engine.client();
    let run = client.start::<resettable>(()).await.expect("starts");
    effects.reached("stubborn began", 1).await;
    let history = client.history(run.id()).await.expect("there");
    let first = history
        .events
        .iter()
        .find(|event| event.event.event_type() == "activity.completed")
        .expect("there");
    client
        .reset_to(run.id(), first.sequence_num)
        .await
        .expect("goes back");
    effects.reached("stubborn began", 2).await;
    effects.open_gate();
    assert_eq!(run.result().await.expect("completes"), "stubborn");
    assert_eq!(
        effects.count("first 1"),
        1,
        "what came before is not done again"
    );
    let ends = client.history(run.id()).await.expect("there");
    let ends = ends
        .events
        .iter()
        .filter(|event| event.event.event_type() == "activity.completed");
    assert_eq!(ends.count(), 2);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn guarded(ctx: WorkflowContext) -> WorkflowResult<Vec<i64>> {
    let taken = ctx.state(Vec::new());
    let of_update = taken.clone();
    ctx.on_update("add", move |n: i64| {
        let taken = of_update.clone();
        async move {
            taken.update(|taken| taken.push(n));
            Ok(())
        }
    })
    .validate(|n| {
        if *n > 0 {
            Ok(())
        } else {
            Err(WorkflowError::new("NotPositive", "must be positive"))
        }
    });
    ctx.signal::<()>("end").await?;
    Ok(taken.get())
}

async fn an_update_is_validated_before_it_changes_anything(arena: &Arena) {
    let engine = engine(arena, &Effects::new()).workflow::<guarded>();
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start::<guarded>(()).await.expect("starts");
    for n in [-1_i64, 0] {
        let refused = run.update("add", &n).await_result::<()>().await;
        let error = refused.expect_err("refused");
        assert!(error.failure().expect("why").is("NotPositive"), "{error}");
    }
    let unreadable = run.update("add", "text").await_result::<()>().await;
    let error = unreadable.expect_err("refused");
    assert!(error.failure().expect("why").is("InvalidInput"), "{error}");
    run.update("add", &1_i64)
        .await_result::<()>()
        .await
        .expect("taken");
    run.signal("end", &()).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), [1]);
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn pairs(ctx: WorkflowContext) -> WorkflowResult<()> {
    let pair = ctx.state((0_u32, 0_u32));
    let seen = pair.clone();
    ctx.on_query("pair", move |()| seen.get());
    for n in 1..=20 {
        pair.update(|pair| pair.0 = n);
        // Between the two halves the turn waits for a local activity.
        ctx.local_activity::<Note>(format!("half {n}")).await?;
        pair.update(|pair| pair.1 = n);
        ctx.activity::<Note>(format!("whole {n}")).await?;
    }
    Ok(())
}

async fn a_query_during_a_turn_never_sees_half_of_it(arena: &Arena) {
    let engine = engine(arena, &Effects::new()).workflow::<pairs>();
    let engine = engine.start().await.expect("starts");
    let run = engine.client().start::<pairs>(()).await.expect("starts");
    loop {
        let (a, b) = run.query::<(u32, u32)>("pair", &()).await.expect("answers");
        assert_eq!(a, b, "half of a turn was seen");
        if a == 20 {
            break;
        }
    }
    run.result().await.expect("completes");
    engine.shutdown().await.expect("stops");
}

#[workflow]
async fn thousand(ctx: WorkflowContext, steps: u32) -> WorkflowResult<u32> {
    for step in 0..steps {
        ctx.activity::<Note>(format!("{step}")).await?;
        if step + 1 == steps - 1 {
            ctx.activity::<Note>("nearly there".to_owned()).await?;
            ctx.signal::<()>("go").await?;
        }
    }
    Ok(steps)
}

async fn a_run_of_a_thousand_steps_survives_a_crash(arena: &Arena) {
    // Every turn replays all: a tenth is enough there.
    let steps = if arena.always_replay { 100 } else { 1_000 };
    let effects = Effects::new();
    let runtime = Runtime::real();
    let first = engine(arena, &effects).workflow::<thousand>();
    let first = first
        .runtime(runtime.clone())
        .start()
        .await
        .expect("starts");
    let run = first
        .client()
        .start::<thousand>(steps)
        .await
        .expect("starts");
    effects.reached("nearly there", 1).await;
    runtime.kill();
    let second = engine(arena, &effects).workflow::<thousand>();
    let second = second.start().await.expect("starts");
    let run = second.client().run::<thousand>(run.id());
    run.signal("go", &()).await.expect("sends");
    assert_eq!(run.result().await.expect("completes"), steps);
    assert_eq!(effects.count("0"), 1, "what was done is not done again");
    drop(first);
    second.shutdown().await.expect("stops");
}
