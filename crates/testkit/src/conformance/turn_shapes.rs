//! Turns that contradict themselves are refused at the edge, with all of their set.

use std::time::Duration;

use everruns_durable::persistence::model::Next;
use everruns_durable::persistence::{StoreError, StoreResult};

use crate::World;
use crate::world::json;

claims! { "turn_shapes":
    one_bad_turn_refuses_the_whole_set,
    two_turns_of_one_run_in_a_set_are_refused,
    events_that_do_not_say_what_becomes_of_the_run_are_refused,
    a_turn_that_ends_the_run_cannot_queue_tasks_or_set_timers,
    ids_that_appear_twice_in_a_turn_are_refused,
}

fn is_invalid<T: std::fmt::Debug>(result: &StoreResult<T>) -> bool {
    matches!(result, Err(StoreError::Invalid(_)))
}

async fn one_bad_turn_refuses_the_whole_set(w: &World) {
    let runs = [w.start().await, w.start().await];
    let before = w.everything().await;
    let good = w.turn(runs[0]).await;
    let mut bad = w.turn(runs[1]).await;
    bad.tasks = vec![w.task("")];
    let result = w.store.commit_turns(vec![good, bad], w.now()).await;
    assert!(is_invalid(&result), "{result:?}");
    assert_eq!(w.everything().await, before);
}

async fn two_turns_of_one_run_in_a_set_are_refused(w: &World) {
    let run_id = w.start().await;
    let other = w.start().await;
    let before = w.everything().await;
    let turns = vec![
        w.turn(run_id).await,
        w.turn(other).await,
        w.turn(run_id).await,
    ];
    let result = w.store.commit_turns(turns, w.now()).await;
    assert!(is_invalid(&result), "{result:?}");
    assert_eq!(w.everything().await, before);
}

async fn events_that_do_not_say_what_becomes_of_the_run_are_refused(w: &World) {
    let run_id = w.start().await;
    let before = w.everything().await;
    let mut silent = w.turn(run_id).await;
    silent.next = Next::Complete { result: json("1") };
    let mut contradicting = World::completing(w.turn(run_id).await);
    contradicting.next = Next::Wait;
    let mut eventless = w.turn(run_id).await;
    eventless.events.clear();
    eventless.tasks = vec![w.task("a")];
    for turn in [silent, contradicting, eventless] {
        let result = w.store.commit_turns(vec![turn], w.now()).await;
        assert!(is_invalid(&result), "{result:?}");
    }
    assert_eq!(w.everything().await, before);
}

async fn a_turn_that_ends_the_run_cannot_queue_tasks_or_set_timers(w: &World) {
    let run_id = w.start().await;
    let mut queueing = World::completing(w.turn(run_id).await);
    queueing.tasks = vec![w.task("a")];
    let mut setting = World::completing(w.turn(run_id).await);
    setting.timers = vec![World::timer("t", Duration::from_secs(1))];
    for turn in [queueing, setting] {
        let result = w.store.commit_turns(vec![turn], w.now()).await;
        assert!(is_invalid(&result), "{result:?}");
    }
}

async fn ids_that_appear_twice_in_a_turn_are_refused(w: &World) {
    let run_id = w.start().await;
    let mut activities = w.turn(run_id).await;
    activities.tasks = vec![w.task("a"), w.task("a")];
    let mut tasks = w.turn(run_id).await;
    tasks.tasks = vec![w.task("a"), w.task("b")];
    tasks.tasks[1].task_id = tasks.tasks[0].task_id;
    let mut timers = w.turn(run_id).await;
    timers.timers = vec![
        World::timer("t", Duration::from_secs(1)),
        World::timer("t", Duration::from_secs(2)),
    ];
    for turn in [activities, tasks, timers] {
        let result = w.store.commit_turns(vec![turn], w.now()).await;
        assert!(is_invalid(&result), "{result:?}");
    }
}
