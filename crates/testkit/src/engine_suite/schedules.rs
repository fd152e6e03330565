//! Schedules: ticks, missed ticks, overlaps, and what clients do with them.
//!
//! A schedule that is put with its next tick in the past is due at once; its cron is a yearly one, so that nothing else comes.

use std::time::Duration;

use async_trait::async_trait;
use everruns_durable::Engine;
use everruns_durable::client::{Client, Schedule};
use everruns_durable::codec::{CodecError, PayloadCodec, envelope};
use everruns_durable::core::{Payload, Timestamp};
use everruns_durable::persistence::model::{
    OverlapPolicy, Page, RunFilter, RunRecord, RunSummary, ScheduleRecord, WorkflowStatus,
};
use serde_json::json;

use super::{Arena, Effects, Script, Scripted, Step, claims};

claims! { "schedules":
    a_tick_is_fired_once_by_two_engines,
    a_created_schedule_knows_its_next_tick,
    an_engine_looks_when_a_schedule_is_created_beside_it,
    a_paused_schedule_fires_nothing_until_it_is_resumed,
    missed_ticks_are_skipped,
    missed_ticks_are_made_up_for_within_the_window,
    allow_starts_beside_the_last_run,
    skip_leaves_the_last_run_alone,
    replace_cancels_the_last_run,
    terminate_ends_the_last_run,
    buffer_one_starts_when_the_last_run_ends,
    a_tick_put_back_after_it_was_taken_holds_nothing_up,
    a_schedule_whose_input_cannot_be_decoded_stops_no_other,
    creating_the_same_schedule_again_changes_nothing,
    another_schedule_under_the_same_id_replaces_it,
    a_pause_is_not_lost_to_a_replacement_at_the_same_time,
    a_cron_or_zone_that_cannot_be_read_is_refused,
    triggering_starts_a_run_now,
    a_backfill_starts_each_tick_once,
    a_deleted_schedule_is_gone,
}

const MINUTE: Duration = Duration::from_secs(60);

async fn now(arena: &Arena) -> Timestamp {
    arena.store.clock(None).await.expect("tells the time")
}

fn before(instant: Timestamp, duration: Duration) -> Timestamp {
    instant.checked_sub(duration).expect("not that long ago")
}

fn payload(script: &Script) -> Payload {
    Payload::from_value(script).expect("a script is JSON")
}

/// A run that ends at once.
fn short() -> Script {
    Script::of([Step::activity("echo", json!("tick"))])
}

/// A run that waits for a signal.
fn waiting() -> Script {
    Script::of([Step::Signal {
        name: "go".to_owned(),
    }])
}

/// A schedule with a tick due at that instant.
async fn due(
    arena: &Arena,
    tick: Timestamp,
    overlap: OverlapPolicy,
    script: &Script,
) -> ScheduleRecord {
    let schedule = ScheduleRecord {
        id: "report".into(),
        workflow_type: "scripted".into(),
        version: String::new(),
        input: payload(script),
        cron: "0 0 1 1 *".into(),
        time_zone: "UTC".into(),
        overlap,
        catchup_window_ms: 0,
        paused: false,
        next_fire_at: Some(tick),
        last_fire_at: None,
        last_run: None,
        created_at: tick,
        updated_at: tick,
    };
    arena
        .store
        .put_schedule(schedule.clone())
        .await
        .expect("puts");
    schedule
}

/// Puts a further tick of the schedule, due at that instant.
async fn tick_again(arena: &Arena, tick: Timestamp) {
    let mut schedule = stored(arena).await;
    schedule.next_fire_at = Some(tick);
    arena.store.put_schedule(schedule).await.expect("puts");
}

async fn stored(arena: &Arena) -> ScheduleRecord {
    let schedule = arena.store.get_schedule("report").await.expect("reads");
    schedule.expect("it exists")
}

/// Waits until the schedule is as asked for.
async fn reached(arena: &Arena, done: impl Fn(&ScheduleRecord) -> bool) -> ScheduleRecord {
    loop {
        let schedule = stored(arena).await;
        if done(&schedule) {
            return schedule;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn fired(arena: &Arena, tick: Timestamp) -> ScheduleRecord {
    reached(arena, |schedule| schedule.last_fire_at == Some(tick)).await
}

/// All runs, oldest first.
async fn runs(arena: &Arena) -> Vec<RunSummary> {
    let page = Page {
        limit: 1000,
        offset: 0,
    };
    let mut runs = arena
        .store
        .list_runs(RunFilter::default(), page)
        .await
        .expect("lists")
        .runs;
    runs.sort_by_key(|run| run.id);
    runs
}

async fn started(arena: &Arena) -> Engine {
    arena.engine(&Effects::new()).start().await.expect("starts")
}

/// The time of a tick as stores keep it, a little in the past; `n` tells one from another.
async fn recent(arena: &Arena, n: u64) -> Timestamp {
    let second = now(arena).await.as_second() - 10;
    let tick = Timestamp::from_second(second).expect("an instant");
    tick.checked_add(Duration::from_secs(n))
        .expect("an instant")
}

async fn status(arena: &Arena, run: &RunSummary) -> WorkflowStatus {
    let run = arena.store.get_run(run.id).await.expect("reads");
    run.expect("it exists").status
}

async fn ended(client: &Client, run: &RunSummary) -> RunRecord {
    client.run::<Scripted>(run.id).ended().await.expect("ends")
}

async fn a_tick_is_fired_once_by_two_engines(arena: &Arena) {
    let engines = [started(arena).await, started(arena).await];
    let first = recent(arena, 0).await;
    let mut ticks = vec![first];
    due(arena, first, OverlapPolicy::Allow, &short()).await;
    fired(arena, first).await;
    for n in 1..5 {
        let tick = recent(arena, n).await;
        tick_again(arena, tick).await;
        fired(arena, tick).await;
        ticks.push(tick);
    }
    let runs = runs(arena).await;
    assert_eq!(runs.len(), ticks.len(), "one run for each tick");
    for run in &runs {
        // Seen in the store: the engines share one bell here, and a process does not hear its own rings.
        while !status(arena, run).await.is_terminal() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(status(arena, run).await, WorkflowStatus::Completed);
    }
    for engine in engines {
        engine.shutdown().await.expect("stops");
    }
}

async fn a_created_schedule_knows_its_next_tick(arena: &Arena) {
    let engine = started(arena).await;
    let client = engine.client();
    let schedule = Schedule::cron("report", "0 9 * * mon-fri")
        .workflow::<Scripted>(short())
        .time_zone("Europe/Berlin")
        .overlap(OverlapPolicy::Skip)
        .catchup(MINUTE * 5);
    let created = client.create_schedule(schedule).await.expect("creates");
    let next = created.next_fire_at.expect("a next tick");
    assert!(next > created.created_at);
    assert_eq!(next.as_second() % 3600, 0);
    assert_eq!(client.get_schedule("report").await.expect("there"), created);
    let listed = client
        .list_schedules(Default::default(), Page::default())
        .await
        .expect("lists");
    assert_eq!(listed, [created.listed()]);
    engine.shutdown().await.expect("stops");
}

async fn an_engine_looks_when_a_schedule_is_created_beside_it(arena: &Arena) {
    let builder = arena.engine(&Effects::new());
    let engine = builder
        .configure(|settings| settings.chores.fallback_poll = Duration::from_secs(3600))
        .start()
        .await
        .expect("starts");
    engine.run::<Scripted>(short()).await.expect("completes");
    let tick = recent(arena, 0).await;
    due(arena, tick, OverlapPolicy::Allow, &short()).await;
    let other = Schedule::cron("other", "0 0 1 1 *").workflow::<Scripted>(short());
    engine
        .client()
        .create_schedule(other)
        .await
        .expect("creates");
    let run_id = fired(arena, tick).await.last_run.expect("a run");
    engine
        .client()
        .run::<Scripted>(run_id)
        .result()
        .await
        .expect("completes");
    engine.shutdown().await.expect("stops");
}

async fn a_paused_schedule_fires_nothing_until_it_is_resumed(arena: &Arena) {
    let tick = recent(arena, 0).await;
    due(arena, tick, OverlapPolicy::Allow, &short()).await;
    let client = Client::on(arena.store.clone());
    client.pause_schedule("report").await.expect("pauses");
    let engine = started(arena).await;
    // Another schedule, due later, fires: the engine has passed over the paused one.
    let mut other = stored(arena).await;
    let later = recent(arena, 1).await;
    (other.id, other.paused, other.next_fire_at) = ("other".into(), false, Some(later));
    arena.store.put_schedule(other).await.expect("puts");
    while arena
        .store
        .get_schedule("other")
        .await
        .expect("reads")
        .expect("there")
        .last_run
        .is_none()
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(stored(arena).await.last_fire_at, None);
    client.resume_schedule("report").await.expect("resumes");
    let resumed = stored(arena).await;
    assert!(
        !resumed.paused && resumed.next_fire_at > Some(tick),
        "what was missed meanwhile is passed over"
    );
    tick_again(arena, later).await;
    fired(arena, later).await;
    engine.shutdown().await.expect("stops");
    assert_eq!(runs(arena).await.len(), 2);
}

async fn missed_ticks_are_skipped(arena: &Arena) {
    let missed = before(recent(arena, 0).await, MINUTE * 10);
    let mut schedule = due(arena, missed, OverlapPolicy::Allow, &short()).await;
    schedule.cron = "* * * * *".into();
    arena.store.put_schedule(schedule).await.expect("puts");
    let engine = started(arena).await;
    let moved = reached(arena, |schedule| schedule.last_fire_at.is_some()).await;
    let next = moved.next_fire_at.expect("a next tick");
    assert!(
        next > before(now(arena).await, MINUTE + MINUTE),
        "{next} is past what was missed"
    );
    engine.shutdown().await.expect("stops");
    let runs = runs(arena).await;
    assert!(
        runs.len() <= 2,
        "only ticks of the last minute, and one that came meanwhile: {}",
        runs.len()
    );
}

async fn missed_ticks_are_made_up_for_within_the_window(arena: &Arena) {
    // On a whole minute, so that ticks of the cron follow a minute apart.
    let minute = now(arena).await.as_second() / 60 * 60;
    let missed = Timestamp::from_second(minute - 5 * 60).expect("an instant");
    let mut schedule = due(arena, missed, OverlapPolicy::Allow, &short()).await;
    schedule.cron = "* * * * *".into();
    schedule.catchup_window_ms = 60 * 60 * 1000;
    arena.store.put_schedule(schedule).await.expect("puts");
    let engine = started(arena).await;
    let last = Timestamp::from_second(minute).expect("an instant");
    reached(arena, |schedule| schedule.last_fire_at >= Some(last)).await;
    let runs = runs(arena).await;
    assert!(
        runs.len() >= 6,
        "the missed one, four after it and this minute's: {}",
        runs.len()
    );
    for run in &runs {
        assert_eq!(
            ended(&engine.client(), run).await.status,
            WorkflowStatus::Completed
        );
    }
    engine.shutdown().await.expect("stops");
}

/// Two ticks, the second while the run of the first waits for a signal; answers both runs as they stand then.
async fn overlapping(arena: &Arena, overlap: OverlapPolicy) -> (Engine, Vec<RunSummary>) {
    let engine = started(arena).await;
    let first = recent(arena, 0).await;
    due(arena, first, overlap, &waiting()).await;
    fired(arena, first).await;
    let second = recent(arena, 5).await;
    tick_again(arena, second).await;
    fired(arena, second).await;
    (engine, runs(arena).await)
}

async fn finish(engine: Engine, runs: &[RunSummary]) {
    let client = engine.client();
    for run in runs {
        client.signal(run.id, "go", &"on").await.expect("taken");
        assert_eq!(ended(&client, run).await.status, WorkflowStatus::Completed);
    }
    engine.shutdown().await.expect("stops");
}

async fn allow_starts_beside_the_last_run(arena: &Arena) {
    let (engine, runs) = overlapping(arena, OverlapPolicy::Allow).await;
    assert_eq!(runs.len(), 2);
    finish(engine, &runs).await;
}

async fn skip_leaves_the_last_run_alone(arena: &Arena) {
    let (engine, runs) = overlapping(arena, OverlapPolicy::Skip).await;
    assert_eq!(runs.len(), 1);
    assert_eq!(stored(arena).await.last_run, Some(runs[0].id));
    finish(engine, &runs).await;
}

async fn replace_cancels_the_last_run(arena: &Arena) {
    let (engine, runs) = overlapping(arena, OverlapPolicy::Replace).await;
    assert_eq!(runs.len(), 2);
    assert_eq!(
        ended(&engine.client(), &runs[0]).await.status,
        WorkflowStatus::Cancelled
    );
    finish(engine, &runs[1..]).await;
}

async fn terminate_ends_the_last_run(arena: &Arena) {
    let (engine, runs) = overlapping(arena, OverlapPolicy::Terminate).await;
    assert_eq!(runs.len(), 2);
    let terminated = ended(&engine.client(), &runs[0]).await;
    assert_eq!(
        terminated.error.expect("an error").error_type,
        "WorkflowTerminated"
    );
    finish(engine, &runs[1..]).await;
}

async fn buffer_one_starts_when_the_last_run_ends(arena: &Arena) {
    let engine = started(arena).await;
    let client = engine.client();
    let first = recent(arena, 0).await;
    due(arena, first, OverlapPolicy::BufferOne, &waiting()).await;
    let first_run = fired(arena, first).await.last_run.expect("a run");
    let second = recent(arena, 5).await;
    tick_again(arena, second).await;
    // Another schedule, due later, fires meanwhile: the held tick holds up nobody else.
    let mut other = stored(arena).await;
    let later = recent(arena, 6).await;
    (other.id, other.next_fire_at, other.last_run, other.input) =
        ("other".into(), Some(later), None, payload(&short()));
    arena.store.put_schedule(other).await.expect("puts");
    while arena
        .store
        .get_schedule("other")
        .await
        .expect("reads")
        .expect("there")
        .last_run
        .is_none()
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let held = stored(arena).await;
    assert_eq!(
        (held.next_fire_at, held.last_fire_at),
        (Some(second), Some(first)),
        "the tick is held"
    );
    client.signal(first_run, "go", &"on").await.expect("taken");
    let second_run = fired(arena, second).await.last_run.expect("a run");
    assert_ne!(second_run, first_run);
    client.signal(second_run, "go", &"on").await.expect("taken");
    client
        .run::<Scripted>(second_run)
        .result()
        .await
        .expect("completes");
    engine.shutdown().await.expect("stops");
    assert_eq!(runs(arena).await.len(), 3);
}

/// A codec that cannot decode one input.
struct Damaged;

/// Its name, and that of the envelopes that it cannot open.
const DAMAGED: &str = "damaged";

#[async_trait]
impl PayloadCodec for Damaged {
    fn name(&self) -> String {
        DAMAGED.to_owned()
    }

    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError> {
        Ok(payload)
    }

    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError> {
        if envelope::open(DAMAGED, &payload).is_some() {
            return Err(CodecError::Damaged("as the test says".to_owned()));
        }
        Ok(payload)
    }
}

async fn a_schedule_whose_input_cannot_be_decoded_stops_no_other(arena: &Arena) {
    let tick = recent(arena, 0).await;
    let mut damaged = due(arena, tick, OverlapPolicy::Allow, &short()).await;
    damaged.id = "damaged".into();
    damaged.input = envelope::seal(DAMAGED, b"input").expect("seals");
    damaged.next_fire_at = Some(before(tick, Duration::from_secs(1)));
    arena.store.put_schedule(damaged).await.expect("puts");
    let builder = arena.engine(&Effects::new()).codec(Damaged);
    let engine = builder.start().await.expect("starts");
    let client = engine.client();
    let run_id = fired(arena, tick).await.last_run.expect("a run");
    let result = client.run::<Scripted>(run_id).result().await;
    result.expect("completes");
    // The one at fault is tried again and again, and an operator sees which one it is.
    let told = loop {
        let troubles = client.chore_troubles();
        let of_schedules = troubles.into_iter().find(|t| t.chore == "schedules");
        match of_schedules.filter(|trouble| trouble.in_a_row > 1) {
            Some(trouble) => break trouble.last_error,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(told.contains("schedule damaged"), "{told}");
    let left = arena.store.get_schedule("damaged").await.expect("reads");
    assert_eq!(left.expect("it exists").last_fire_at, None);
    engine.shutdown().await.expect("stops");
}

async fn a_tick_put_back_after_it_was_taken_holds_nothing_up(arena: &Arena) {
    let engine = started(arena).await;
    let tick = recent(arena, 0).await;
    let schedule = due(arena, tick, OverlapPolicy::Allow, &short()).await;
    fired(arena, tick).await;
    arena.store.put_schedule(schedule).await.expect("puts");
    let moved = reached(arena, |schedule| schedule.next_fire_at != Some(tick)).await;
    assert!(moved.next_fire_at > Some(tick));
    engine.shutdown().await.expect("stops");
    assert_eq!(runs(arena).await.len(), 1);
}

async fn creating_the_same_schedule_again_changes_nothing(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let schedule = Schedule::cron("report", "0 0 1 1 *").workflow::<Scripted>(short());
    client
        .create_schedule(schedule.clone())
        .await
        .expect("creates");
    client.pause_schedule("report").await.expect("pauses");
    let before = stored(arena).await;
    let again = client.create_schedule(schedule).await.expect("is there");
    assert_eq!(again, before);
    assert_eq!(stored(arena).await, before);
}

async fn another_schedule_under_the_same_id_replaces_it(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let schedule = |cron| Schedule::cron("report", cron).workflow::<Scripted>(short());
    let first = client
        .create_schedule(schedule("0 0 1 1 *"))
        .await
        .expect("creates");
    client.pause_schedule("report").await.expect("pauses");
    client
        .create_schedule(schedule("30 * * * *"))
        .await
        .expect("replaces");
    let second = stored(arena).await;
    assert!(second.paused, "it stays paused");
    assert_eq!(second.created_at, first.created_at);
    let next = second.next_fire_at.expect("a next tick");
    assert_eq!(next.as_second() % 3600, 1800);
}

async fn a_pause_is_not_lost_to_a_replacement_at_the_same_time(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let schedule = |minute: usize| {
        Schedule::cron("report", format!("{minute} * * * *")).workflow::<Scripted>(short())
    };
    for round in 0..20 {
        let made = client.create_schedule(schedule(round)).await;
        made.expect("creates");
        let replacements = (0..4).map(|n| {
            let (client, schedule) = (client.clone(), schedule(30 + n));
            tokio::spawn(async move { client.create_schedule(schedule).await.map(drop) })
        });
        let mut all: Vec<_> = replacements.collect();
        let pausing = client.clone();
        all.push(tokio::spawn(async move {
            pausing.pause_schedule("report").await
        }));
        for one in all {
            one.await.expect("no panic").expect("is done");
        }
        assert!(stored(arena).await.paused, "round {round}");
        client.resume_schedule("report").await.expect("resumes");
    }
}

async fn a_cron_or_zone_that_cannot_be_read_is_refused(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let table = [
        (
            Schedule::cron("report", "61 * * * *").workflow::<Scripted>(short()),
            "minute \"61\"",
        ),
        (
            Schedule::cron("report", "* * * *").workflow::<Scripted>(short()),
            "five",
        ),
        (
            Schedule::cron("report", "* * * * *")
                .time_zone("Mars/Base")
                .workflow::<Scripted>(short()),
            "Mars/Base",
        ),
        (Schedule::cron("report", "* * * * *"), "names no workflow"),
    ];
    for (schedule, says) in table {
        let error = client.create_schedule(schedule).await.expect_err("refused");
        assert!(
            error.is_invalid() && error.to_string().contains(says),
            "{error}"
        );
    }
    assert_eq!(
        client
            .list_schedules(Default::default(), Page::default())
            .await
            .expect("lists"),
        []
    );
}

async fn triggering_starts_a_run_now(arena: &Arena) {
    let engine = started(arena).await;
    let client = engine.client();
    let schedule = Schedule::cron("report", "0 0 1 1 *").workflow::<Scripted>(short());
    client.create_schedule(schedule).await.expect("creates");
    client.pause_schedule("report").await.expect("pauses");
    let before = stored(arena).await;
    let run = client.trigger_schedule("report").await.expect("starts");
    assert_eq!(
        run.ended().await.expect("ends").status,
        WorkflowStatus::Completed
    );
    assert_eq!(stored(arena).await, before, "its ticks stay as they are");
    assert!(
        client
            .trigger_schedule("nobody")
            .await
            .expect_err("no such schedule")
            .is_not_found()
    );
    engine.shutdown().await.expect("stops");
}

async fn a_backfill_starts_each_tick_once(arena: &Arena) {
    let engine = started(arena).await;
    let client = engine.client();
    let schedule = Schedule::cron("report", "0 * * * *").workflow::<Scripted>(short());
    client.create_schedule(schedule).await.expect("creates");
    let from: Timestamp = "2026-01-01T00:00:00Z".parse().expect("an instant");
    let to = from.checked_add(MINUTE * 60 * 10).expect("an instant");
    let started = client
        .backfill_schedule("report", from, to)
        .await
        .expect("starts");
    assert_eq!(
        started.len(),
        10,
        "the first hour is not in it, the last is"
    );
    for run_id in &started {
        client
            .run::<Scripted>(*run_id)
            .result()
            .await
            .expect("completes");
    }
    let further = to.checked_add(MINUTE * 60 * 2).expect("an instant");
    let again = client
        .backfill_schedule("report", from, further)
        .await
        .expect("starts");
    assert_eq!(again.len(), 2, "only what is missing");
    for run_id in &again {
        client
            .run::<Scripted>(*run_id)
            .result()
            .await
            .expect("completes");
    }
    let ages: Timestamp = "1970-01-01T00:00:00Z".parse().expect("an instant");
    let refused = client
        .backfill_schedule("report", ages, to)
        .await
        .expect_err("too many");
    assert!(refused.is_invalid(), "{refused}");
    engine.shutdown().await.expect("stops");
}

async fn a_deleted_schedule_is_gone(arena: &Arena) {
    let client = Client::on(arena.store.clone());
    let schedule = Schedule::cron("report", "0 * * * *").workflow::<Scripted>(short());
    client.create_schedule(schedule).await.expect("creates");
    client.delete_schedule("report").await.expect("deletes");
    assert!(
        client
            .get_schedule("report")
            .await
            .expect_err("gone")
            .is_not_found()
    );
    assert!(
        client
            .delete_schedule("report")
            .await
            .expect_err("gone")
            .is_not_found()
    );
    assert!(
        client
            .pause_schedule("report")
            .await
            .expect_err("gone")
            .is_not_found()
    );
}
