//! Schedules: each tick is taken once, whoever asks.

use std::time::Duration;

use durable_core::Timestamp;
use everruns_durable::persistence::model::{
    KeyKind, OverlapPolicy, Page, ReusePolicy, ScheduleFilter, ScheduleFire, ScheduleOutcome,
    ScheduleRecord, StartRejection, WorkflowStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{WORKFLOW, at_once, json, one};

claims! { "schedules":
    a_schedule_is_kept_as_it_was_put,
    replacing_a_schedule_keeps_when_it_was_made_and_what_it_did,
    a_schedule_that_was_changed_meanwhile_is_not_swapped,
    of_many_who_swap_a_schedule_at_once_one_succeeds,
    schedules_are_listed_by_id_in_pages,
    continuing_after_a_schedule_visits_every_one_that_stays,
    a_deleted_schedule_is_gone,
    due_schedules_come_earliest_first_without_paused_ones,
    due_schedules_come_without_their_inputs,
    taking_a_tick_starts_the_run_and_moves_the_schedule,
    a_tick_is_taken_once_by_sixteen_callers_at_once,
    a_tick_that_is_not_the_next_is_lost,
    a_paused_or_deleted_schedule_fires_nothing,
    a_skipped_tick_moves_the_schedule_without_a_run,
    a_tick_is_never_taken_again_even_if_the_schedule_is_put_back,
    missed_ticks_are_made_up_for_one_by_one,
    a_refused_start_still_takes_the_tick,
    a_tick_whose_run_exists_answers_that_run,
    a_schedule_without_a_next_time_is_never_due,
    the_clock_is_the_given_instant_or_never_goes_back,
}

const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn schedule(w: &World, id: &str) -> ScheduleRecord {
    ScheduleRecord {
        id: id.into(),
        workflow_type: WORKFLOW.into(),
        version: "v1".into(),
        input: json("{\"a\":9007199254740993}"),
        cron: "0 * * * *".into(),
        time_zone: "Europe/Berlin".into(),
        overlap: OverlapPolicy::BufferOne,
        catchup_window_ms: 60_000,
        paused: false,
        next_fire_at: Some(after(w.instant(), HOUR)),
        last_fire_at: None,
        last_run: None,
        created_at: w.instant(),
        updated_at: w.instant(),
    }
}

async fn put(w: &World, schedule: ScheduleRecord) -> ScheduleRecord {
    let put = w.store.put_schedule(schedule.clone()).await;
    put.expect("put_schedule");
    schedule
}

async fn get(w: &World, id: &str) -> Option<ScheduleRecord> {
    w.store.get_schedule(id).await.expect("get_schedule")
}

fn tick(w: &World, schedule: &ScheduleRecord) -> ScheduleFire {
    let nominal = schedule.next_fire_at.expect("it fires");
    ScheduleFire {
        schedule_id: schedule.id.clone(),
        nominal,
        next_fire_at: Some(after(nominal, HOUR)),
        start: Some(w.new_start()),
    }
}

fn run_of(fire: &ScheduleFire) -> Uuid {
    fire.start.as_ref().expect("a start").run_id
}

async fn fire(w: &World, fire: ScheduleFire) -> ScheduleOutcome {
    one(w.store.fire_schedules(vec![fire], w.now()).await)
}

async fn due(w: &World, max: usize) -> Vec<String> {
    let due = w.store.due_schedules(max, w.now()).await;
    let due = due.expect("due_schedules");
    due.into_iter().map(|schedule| schedule.id).collect()
}

async fn runs(w: &World) -> usize {
    w.everything().await.runs.len()
}

async fn a_schedule_is_kept_as_it_was_put(w: &World) {
    assert_eq!(get(w, "hourly").await, None);
    for overlap in OverlapPolicy::ALL {
        let mut schedule = schedule(w, overlap.as_str());
        schedule.overlap = overlap;
        let schedule = put(w, schedule).await;
        assert_eq!(get(w, overlap.as_str()).await, Some(schedule));
    }
}

async fn replacing_a_schedule_keeps_when_it_was_made_and_what_it_did(w: &World) {
    let first = put(w, schedule(w, "hourly")).await;
    w.advance(HOUR);
    let taken = tick(w, &first);
    fire(w, taken.clone()).await;
    w.advance(HOUR);
    let mut second = schedule(w, "hourly");
    second.workflow_type = "other".into();
    second.version = String::new();
    second.input = json("2");
    second.cron = "*/5 * * * *".into();
    second.time_zone = "UTC".into();
    second.overlap = OverlapPolicy::Skip;
    second.catchup_window_ms = 0;
    second.paused = true;
    let second = put(w, second).await;
    let expected = ScheduleRecord {
        created_at: first.created_at,
        last_fire_at: Some(taken.nominal),
        last_run: Some(run_of(&taken)),
        ..second
    };
    assert_eq!(get(w, "hourly").await, Some(expected));
}

async fn a_schedule_that_was_changed_meanwhile_is_not_swapped(w: &World) {
    let swap = async |seen: Option<&ScheduleRecord>, next: &ScheduleRecord| {
        let swapped = w.store.swap_schedule(seen.cloned(), next.clone()).await;
        swapped.expect("swap_schedule")
    };
    let first = schedule(w, "hourly");
    assert!(!swap(Some(&first), &first).await, "there is none");
    assert_eq!(get(w, "hourly").await, None);
    assert!(swap(None, &first).await);
    assert!(!swap(None, &first).await, "there is one");
    let stored = get(w, "hourly").await.expect("is there");
    assert_eq!(stored, first);
    // Whatever changes it: a tick, a pause, anything else that is put.
    w.advance(HOUR);
    let taken = tick(w, &stored);
    fire(w, taken.clone()).await;
    let paused = ScheduleRecord {
        paused: true,
        ..stored.clone()
    };
    assert!(!swap(Some(&stored), &paused).await, "its tick was taken");
    let fired = get(w, "hourly").await.expect("is there");
    assert_eq!(fired.last_fire_at, Some(taken.nominal));
    assert!(!fired.paused);
    w.advance(HOUR);
    let replaced = ScheduleRecord {
        paused: true,
        input: json("9"),
        created_at: w.instant(),
        last_fire_at: None,
        last_run: None,
        ..fired.clone()
    };
    assert!(swap(Some(&fired), &replaced).await);
    let expected = ScheduleRecord {
        paused: true,
        input: json("9"),
        ..fired.clone()
    };
    assert_eq!(get(w, "hourly").await, Some(expected), "its past is kept");
    assert!(!swap(Some(&fired), &replaced).await, "repeated");
    let other = schedule(w, "other");
    let refused = w.store.swap_schedule(Some(fired), other).await;
    assert!(refused.is_err_and(|error| error.is_refusal()));
}

async fn of_many_who_swap_a_schedule_at_once_one_succeeds(w: &World) {
    for round in 0..10 {
        let id = format!("s{round}");
        for seen in [None, Some(schedule(w, &id))] {
            let callers = (0..8)
                .map(|caller| {
                    let (store, seen) = (w.store.clone(), seen.clone());
                    let mut next = schedule(w, &id);
                    if seen.is_some() {
                        next.catchup_window_ms = 1_000 + caller;
                    }
                    async move {
                        let swapped = store.swap_schedule(seen, next).await;
                        swapped.expect("swap_schedule")
                    }
                })
                .collect();
            let swapped = at_once(callers).await;
            assert_eq!(swapped.iter().filter(|done| **done).count(), 1);
        }
    }
}

async fn schedules_are_listed_by_id_in_pages(w: &World) {
    for id in ["b", "a10", "B", "a9", "é"] {
        put(w, schedule(w, id)).await;
    }
    let mut listed = Vec::new();
    for offset in [0, 2, 4, 6] {
        let all = ScheduleFilter::default();
        let schedules = w.store.list_schedules(all, Page { limit: 2, offset }).await;
        let schedules = schedules.expect("list");
        listed.extend(schedules.into_iter().map(|schedule| schedule.id));
    }
    assert_eq!(listed, ["B", "a10", "a9", "b", "é"], "ids by their bytes");
}

async fn continuing_after_a_schedule_visits_every_one_that_stays(w: &World) {
    for id in ["b", "a10", "B", "a9", "é"] {
        put(w, schedule(w, id)).await;
    }
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().cloned();
        let page = w
            .store
            .list_schedules(ScheduleFilter { after }, Page::first(2));
        let page = page.await.expect("list");
        if page.is_empty() {
            break;
        }
        for schedule in page {
            w.store.delete_schedule(&schedule.id).await.expect("delete");
            seen.push(schedule.id);
        }
        put(w, schedule(w, "A")).await;
    }
    assert_eq!(seen, ["B", "a10", "a9", "b", "é"]);
}

async fn a_deleted_schedule_is_gone(w: &World) {
    put(w, schedule(w, "hourly")).await;
    let delete = || w.store.delete_schedule("hourly");
    assert!(delete().await.expect("delete"));
    assert_eq!(get(w, "hourly").await, None);
    assert!(!delete().await.expect("delete"));
}

async fn due_schedules_come_earliest_first_without_paused_ones(w: &World) {
    let at = |secs| Some(after(w.instant(), Duration::from_secs(secs)));
    let put_at = async |id: &str, next_fire_at: Option<Timestamp>, paused: bool| {
        let mut schedule = schedule(w, id);
        schedule.next_fire_at = next_fire_at;
        schedule.paused = paused;
        put(w, schedule).await;
    };
    put_at("late", at(10), false).await;
    put_at("b", at(5), false).await;
    put_at("a", at(5), false).await;
    put_at("paused", at(1), true).await;
    put_at("later", at(11), false).await;
    assert_eq!(due(w, 10).await, Vec::<String>::new());
    w.advance(Duration::from_secs(10));
    assert_eq!(due(w, 10).await, ["a", "b", "late"]);
    assert_eq!(due(w, 2).await, ["a", "b"]);
}

async fn due_schedules_come_without_their_inputs(w: &World) {
    let mut schedule = schedule(w, "hourly");
    schedule.input = json("\"large\"");
    let stored = put(w, schedule).await;
    w.advance(HOUR);
    let due = w.store.due_schedules(10, w.now()).await;
    assert_eq!(due.expect("due_schedules"), [stored.clone().listed()]);
    assert_eq!(get(w, "hourly").await, Some(stored));
}

async fn taking_a_tick_starts_the_run_and_moves_the_schedule(w: &World) {
    let before = put(w, schedule(w, "hourly")).await;
    w.advance(HOUR);
    let taken = tick(w, &before);
    let run_id = run_of(&taken);
    let outcome = fire(w, taken.clone()).await;
    let fired = ScheduleOutcome::Fired {
        run_id: Some(run_id),
    };
    assert_eq!(outcome, fired);
    assert_eq!(w.run(run_id).await.status, WorkflowStatus::Pending);
    let expected = ScheduleRecord {
        next_fire_at: taken.next_fire_at,
        last_fire_at: Some(taken.nominal),
        last_run: Some(run_id),
        updated_at: w.instant(),
        ..before
    };
    assert_eq!(get(w, "hourly").await, Some(expected));
    let key = w.everything().await.keys.remove(0);
    assert_eq!((key.kind, key.run_id), (KeyKind::CronSlot, run_id));
    assert_eq!(
        key.key,
        format!("hourly@{}", taken.nominal.as_microsecond())
    );
}

async fn a_tick_is_taken_once_by_sixteen_callers_at_once(w: &World) {
    for round in 0..10 {
        let schedule = put(w, schedule(w, &format!("s{round}"))).await;
        let now = w.now();
        let callers = (0..16)
            .map(|_| {
                let (store, tick) = (w.store.clone(), tick(w, &schedule));
                async move {
                    let run_id = Some(run_of(&tick));
                    let outcome = one(store.fire_schedules(vec![tick], now).await);
                    if outcome != ScheduleOutcome::Lost {
                        assert_eq!(outcome, ScheduleOutcome::Fired { run_id });
                    }
                    outcome
                }
            })
            .collect();
        let outcomes = at_once(callers).await;
        let lost = outcomes.iter().filter(|o| **o == ScheduleOutcome::Lost);
        assert_eq!(lost.count(), 15);
        assert_eq!(runs(w).await, round + 1, "one run for one tick");
    }
}

async fn a_tick_that_is_not_the_next_is_lost(w: &World) {
    let schedule = put(w, schedule(w, "hourly")).await;
    let mut early = tick(w, &schedule);
    early.nominal = after(early.nominal, Duration::from_micros(1));
    assert_eq!(fire(w, early).await, ScheduleOutcome::Lost);
    let taken = tick(w, &schedule);
    fire(w, taken.clone()).await;
    assert_eq!(fire(w, taken).await, ScheduleOutcome::Lost, "repeated");
    assert_eq!(runs(w).await, 1);
}

async fn a_paused_or_deleted_schedule_fires_nothing(w: &World) {
    let mut paused = schedule(w, "paused");
    paused.paused = true;
    let paused = put(w, paused).await;
    let deleted = put(w, schedule(w, "deleted")).await;
    w.store.delete_schedule("deleted").await.expect("delete");
    for schedule in [&paused, &deleted] {
        let outcome = fire(w, tick(w, schedule)).await;
        assert_eq!(outcome, ScheduleOutcome::Lost);
    }
    let all = w.everything().await;
    assert_eq!((all.runs.len(), all.keys.len()), (0, 0));
    assert_eq!(all.schedules, [paused]);
}

async fn a_skipped_tick_moves_the_schedule_without_a_run(w: &World) {
    let schedule = put(w, schedule(w, "hourly")).await;
    let mut skipped = tick(w, &schedule);
    skipped.start = None;
    let outcome = fire(w, skipped.clone()).await;
    assert_eq!(outcome, ScheduleOutcome::Fired { run_id: None });
    let after = get(w, "hourly").await.expect("it exists");
    assert_eq!(after.next_fire_at, skipped.next_fire_at);
    assert_eq!(after.last_fire_at, Some(skipped.nominal));
    assert_eq!(after.last_run, None);
    let all = w.everything().await;
    assert_eq!(all.runs.len(), 0);
    assert_eq!(all.keys[0].run_id, Uuid::nil());
    let late = tick(w, &schedule);
    assert_eq!(fire(w, late).await, ScheduleOutcome::Lost);
}

async fn a_tick_is_never_taken_again_even_if_the_schedule_is_put_back(w: &World) {
    let first = put(w, schedule(w, "hourly")).await;
    let taken = tick(w, &first);
    fire(w, taken).await;
    put(w, first.clone()).await;
    assert_eq!(fire(w, tick(w, &first)).await, ScheduleOutcome::Lost);
    w.store.delete_schedule("hourly").await.expect("delete");
    put(w, first.clone()).await;
    assert_eq!(fire(w, tick(w, &first)).await, ScheduleOutcome::Lost);
    assert_eq!(runs(w).await, 1);
}

async fn missed_ticks_are_made_up_for_one_by_one(w: &World) {
    let mut schedule = put(w, schedule(w, "hourly")).await;
    w.advance(HOUR * 3);
    let mut ticks = Vec::new();
    for _ in 0..3 {
        let taken = tick(w, &schedule);
        schedule.next_fire_at = taken.next_fire_at;
        ticks.push(taken);
    }
    let third = run_of(&ticks[2]);
    let expected: Vec<ScheduleOutcome> = ticks
        .iter()
        .map(|tick| ScheduleOutcome::Fired {
            run_id: Some(run_of(tick)),
        })
        .collect();
    let outcomes = w.store.fire_schedules(ticks, w.now()).await;
    assert_eq!(outcomes.expect("fire_schedules"), expected);
    let after = get(w, "hourly").await.expect("it exists");
    assert_eq!(after.next_fire_at, schedule.next_fire_at);
    assert_eq!(after.last_run, Some(third));
    assert_eq!(due(w, 10).await, Vec::<String>::new());
    assert_eq!(runs(w).await, 3);
}

async fn a_refused_start_still_takes_the_tick(w: &World) {
    let mut taken = w.new_start();
    taken.business_id = Some("singleton".into());
    let run_id = w.start_one(taken).await;
    let schedule = put(w, schedule(w, "hourly")).await;
    let mut refused = tick(w, &schedule);
    if let Some(start) = &mut refused.start {
        start.business_id = Some("singleton".into());
        start.reuse_policy = ReusePolicy::RejectDuplicate;
    }
    let outcome = fire(w, refused.clone()).await;
    let why = StartRejection::DuplicateBusinessId {
        run_id,
        status: WorkflowStatus::Pending,
    };
    assert_eq!(outcome, ScheduleOutcome::StartRejected(why));
    let after = get(w, "hourly").await.expect("it exists");
    assert_eq!(after.next_fire_at, refused.next_fire_at);
    assert_eq!(after.last_fire_at, Some(refused.nominal));
    assert_eq!(after.last_run, None);
    assert_eq!(fire(w, refused).await, ScheduleOutcome::Lost);
    assert_eq!(runs(w).await, 1);
}

async fn a_tick_whose_run_exists_answers_that_run(w: &World) {
    let schedule = put(w, schedule(w, "hourly")).await;
    let taken = tick(w, &schedule);
    let run_id = w.start_one(taken.start.clone().expect("a start")).await;
    let outcome = fire(w, taken).await;
    let fired = ScheduleOutcome::Fired {
        run_id: Some(run_id),
    };
    assert_eq!(outcome, fired);
    let after = get(w, "hourly").await.expect("it exists");
    assert_eq!(after.last_run, Some(run_id));
    assert_eq!(runs(w).await, 1);
}

async fn a_schedule_without_a_next_time_is_never_due(w: &World) {
    let schedule = put(w, schedule(w, "hourly")).await;
    let mut last = tick(w, &schedule);
    last.next_fire_at = None;
    fire(w, last).await;
    w.advance(HOUR * 1000);
    assert_eq!(due(w, 10).await, Vec::<String>::new());
    assert_eq!(
        fire(w, tick(w, &schedule)).await,
        ScheduleOutcome::Lost,
        "there is no tick left"
    );
}

async fn the_clock_is_the_given_instant_or_never_goes_back(w: &World) {
    let given = w.instant();
    let told = w.store.clock(Some(given)).await.expect("clock");
    assert_eq!(told, given);
    let first = w.store.clock(None).await.expect("clock");
    let second = w.store.clock(None).await.expect("clock");
    assert!(first <= second, "{first} before {second}");
}
