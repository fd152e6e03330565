//! Timers and the deadlines of runs: never early, exactly once, in bounded batches.

use std::time::Duration;

use durable_core::{Failure, WorkflowEvent, error_types};
use everruns_durable::persistence::limits::DURATION_MS_MAX;
use everruns_durable::persistence::model::{
    Fact, FireDue, Fired, NewTimer, Rejection, StartRun, TimerRecord, WorkflowStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{as_unread, at_once};

claims! { "timers":
    a_timer_does_not_fire_a_microsecond_early,
    a_timer_fires_at_its_instant_and_only_once,
    a_timer_of_no_length_fires_at_once,
    a_cancelled_timer_never_fires,
    a_turn_that_fires_a_timer_takes_it_from_the_store,
    a_timer_id_can_be_used_again_once_it_fired,
    two_runs_may_use_one_timer_id,
    timers_fire_in_the_order_of_their_instants_then_ids,
    a_thousand_timers_due_at_one_instant_fire_in_bounded_batches,
    a_heap_of_due_timers_holds_up_neither_tasks_nor_deadlines,
    timers_fired_by_eight_callers_at_once_fire_once_each,
    the_timers_of_an_ended_run_are_gone,
    continuing_as_new_drops_the_old_timers,
    a_timer_that_fires_while_a_completing_turn_is_prepared_is_not_lost,
    ready_runs_are_told_once_each_in_order,
    a_timer_of_a_hundred_years_is_kept_exactly,
    the_next_due_instant_is_the_smallest_of_all_kinds,
    a_run_past_its_run_timeout_fails,
    a_run_past_its_execution_timeout_fails_with_that_even_if_both_passed,
    continuing_as_new_renews_the_run_timeout_and_not_the_execution_timeout,
    an_ended_run_has_no_deadline,
    a_run_that_timed_out_keeps_its_waiting_signals_in_the_history,
    deadlines_go_before_timers,
    deadlines_are_handled_in_bounded_batches_earliest_first,
}

const SECOND: Duration = Duration::from_secs(1);
const MICRO: Duration = Duration::from_micros(1);

async fn fire(w: &World, max: usize) -> Fired {
    let due = FireDue {
        max,
        first_shard: 0,
        jitter: 0.5,
        now: w.now(),
    };
    w.store.fire_due(due).await.expect("fire_due")
}

fn fired(timer_id: &str) -> WorkflowEvent {
    WorkflowEvent::TimerFired {
        timer_id: timer_id.into(),
    }
}

async fn a_timer_does_not_fire_a_microsecond_early(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", SECOND).await;
    let fire_at = after(w.instant(), SECOND);
    let timer = TimerRecord {
        run_id,
        timer_id: "t".into(),
        fire_at,
        epoch: 0,
    };
    assert_eq!(w.dump(run_id).await.timers, [timer]);
    w.advance(SECOND - MICRO);
    let early = Fired {
        next_due: Some(fire_at),
        ..Fired::default()
    };
    assert_eq!(w.fire_due().await, early);
    assert_eq!(w.waiting(run_id).await.facts, []);
}

async fn a_timer_fires_at_its_instant_and_only_once(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", SECOND).await;
    w.advance(SECOND);
    let expected = Fired {
        timers: 1,
        ready_runs: vec![run_id],
        ..Fired::default()
    };
    assert_eq!(w.fire_due().await, expected);
    let fact = Fact {
        arrival: 1,
        event: fired("t"),
        attempts: vec![],
        last_attempt: None,
        arrived_at: w.instant(),
    };
    assert_eq!(w.waiting(run_id).await.facts, [fact]);
    assert_eq!(w.run(run_id).await.ready_at, w.now());
    w.advance(SECOND);
    assert_eq!(w.fire_due().await, Fired::default());
    assert_eq!(w.waiting(run_id).await.facts.len(), 1);
}

async fn a_timer_of_no_length_fires_at_once(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", Duration::ZERO).await;
    assert_eq!(w.fire_due().await.timers, 1);
}

async fn a_cancelled_timer_never_fires(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", SECOND).await;
    let mut turn = w.turn(run_id).await;
    turn.cancelled_timers = vec!["t".into(), "never set".into()];
    w.committed(turn).await;
    w.advance(SECOND);
    assert_eq!(w.fire_due().await, Fired::default());
    assert_eq!(w.waiting(run_id).await.facts, []);
}

async fn a_turn_that_fires_a_timer_takes_it_from_the_store(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", SECOND).await;
    w.advance(SECOND - MICRO);
    let mut turn = w.turn(run_id).await;
    turn.fired_timers = vec!["t".into()];
    turn.events.push(fired("t"));
    let not_due = Rejection::TimerNotDue {
        timer_id: "t".into(),
    };
    assert_eq!(w.rejected(turn.clone()).await, not_due);
    w.advance(MICRO);
    w.committed(turn).await;
    assert_eq!(w.fire_due().await, Fired::default());
    assert_eq!(w.waiting(run_id).await.facts, []);
}

async fn a_timer_id_can_be_used_again_once_it_fired(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", SECOND).await;
    w.advance(SECOND);
    w.fire_due().await;
    w.set_timer(run_id, "t", SECOND).await;
    assert_eq!(w.fire_due().await.timers, 0);
    w.advance(SECOND);
    assert_eq!(w.fire_due().await.timers, 1);
}

async fn two_runs_may_use_one_timer_id(w: &World) {
    let mut runs = vec![w.start().await, w.start().await];
    for run_id in &runs {
        w.set_timer(*run_id, "t", SECOND).await;
    }
    w.advance(SECOND);
    let due = w.fire_due().await;
    runs.sort_unstable();
    assert_eq!((due.timers, due.ready_runs), (2, runs));
}

async fn timers_fire_in_the_order_of_their_instants_then_ids(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.timers = [
        ("z", 1),
        ("b", 2),
        ("B", 2),
        ("a10", 2),
        ("a9", 2),
        ("é", 2),
    ]
    .map(|(timer_id, secs)| NewTimer {
        timer_id: timer_id.into(),
        after: Duration::from_secs(secs),
    })
    .to_vec();
    w.committed(turn).await;
    w.advance(Duration::from_secs(3));
    assert_eq!(w.fire_due().await.timers, 6);
    let expected = ["z", "B", "a10", "a9", "b", "é"].map(fired);
    assert_eq!(
        w.waiting_events(run_id).await,
        expected,
        "ids by their bytes"
    );
}

async fn set_many(w: &World, run_id: Uuid, count: usize) -> Vec<WorkflowEvent> {
    let ids: Vec<String> = (0..count).map(|i| format!("t{i:04}")).collect();
    let mut turn = w.turn(run_id).await;
    turn.timers = ids
        .iter()
        .map(|timer_id| NewTimer {
            timer_id: timer_id.clone(),
            after: SECOND,
        })
        .collect();
    w.committed(turn).await;
    ids.iter().map(|id| fired(id)).collect()
}

async fn a_thousand_timers_due_at_one_instant_fire_in_bounded_batches(w: &World) {
    let run_id = w.start().await;
    let all = set_many(w, run_id, 1000).await;
    let due_at = after(w.instant(), SECOND);
    w.advance(SECOND * 2);
    for batch in 1..=10 {
        let due = fire(w, 100).await;
        assert_eq!((due.timers, due.ready_runs), (100, vec![run_id]));
        let rest = (batch < 10).then_some(due_at);
        assert_eq!(due.next_due, rest, "what is left is due at once");
    }
    assert_eq!(fire(w, 100).await, Fired::default());
    assert_eq!(w.waiting_events(run_id).await, all);
}

async fn a_heap_of_due_timers_holds_up_neither_tasks_nor_deadlines(w: &World) {
    let run_id = w.start().await;
    set_many(w, run_id, 100).await;
    let mut delayed = w.task("a");
    delayed.delay = Some(SECOND);
    w.start_with_tasks(vec![delayed]).await;
    let mut start = w.new_start();
    start.run_timeout = Some(SECOND);
    w.start_one(start).await;
    w.advance(SECOND);
    let due = fire(w, 10).await;
    assert_eq!(
        (due.timers, due.tasks_ready, due.runs_timed_out.len()),
        (10, 1, 1)
    );
}

async fn timers_fired_by_eight_callers_at_once_fire_once_each(w: &World) {
    let mut runs = Vec::new();
    for _ in 0..100 {
        let run_id = w.start().await;
        w.set_timer(run_id, "t", SECOND).await;
        runs.push(run_id);
    }
    w.advance(SECOND);
    let now = w.now();
    let callers = (0..8)
        .map(|caller| {
            let store = w.store.clone();
            async move {
                let mut timers = 0;
                for _ in 0..10 {
                    let due = FireDue {
                        max: 7,
                        first_shard: caller,
                        jitter: 0.5,
                        now,
                    };
                    timers += store.fire_due(due).await.expect("fire_due").timers;
                }
                timers
            }
        })
        .collect();
    let by_callers: usize = at_once(callers).await.into_iter().sum();
    let rest = w.fire_due().await.timers;
    assert_eq!(by_callers + rest, 100);
    for run_id in runs {
        assert_eq!(w.waiting_events(run_id).await, [fired("t")]);
    }
}

async fn the_timers_of_an_ended_run_are_gone(w: &World) {
    let (completed, terminated) = (w.start().await, w.start().await);
    for run_id in [completed, terminated] {
        w.set_timer(run_id, "t", SECOND).await;
    }
    w.complete(completed).await;
    w.terminate(terminated, "stop").await;
    w.advance(SECOND);
    assert_eq!(w.fire_due().await, Fired::default());
    assert_eq!(w.dump(completed).await.timers, []);
    assert_eq!(w.dump(terminated).await.timers, []);
}

async fn continuing_as_new_drops_the_old_timers(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", SECOND).await;
    let turn = World::continuing(w.turn(run_id).await, vec![]);
    w.committed(turn).await;
    w.advance(SECOND);
    assert_eq!(w.fire_due().await, Fired::default());
    assert_eq!(w.waiting(run_id).await.facts, []);
}

async fn a_timer_that_fires_while_a_completing_turn_is_prepared_is_not_lost(w: &World) {
    let run_id = w.start().await;
    w.set_timer(run_id, "t", SECOND).await;
    w.advance(SECOND);
    let unaware = World::completing(w.turn(run_id).await);
    w.fire_due().await;
    assert_eq!(
        w.rejected(unaware).await,
        Rejection::UnseenFacts { arrivals: 1 }
    );
    assert_eq!(w.waiting_events(run_id).await, [fired("t")]);
}

async fn ready_runs_are_told_once_each_in_order(w: &World) {
    let mut runs = Vec::new();
    for _ in 0..5 {
        let run_id = w.start().await;
        set_many(w, run_id, 3).await;
        runs.push(run_id);
    }
    w.advance(SECOND);
    let due = w.fire_due().await;
    runs.sort_unstable();
    assert_eq!((due.timers, due.ready_runs), (15, runs));
}

async fn a_timer_of_a_hundred_years_is_kept_exactly(w: &World) {
    let run_id = w.start().await;
    let century = Duration::from_millis(DURATION_MS_MAX);
    w.set_timer(run_id, "t", century).await;
    let fire_at = after(w.instant(), century);
    assert_eq!(w.fire_due().await.next_due, Some(fire_at));
    w.advance(century - MICRO);
    assert_eq!(w.fire_due().await.timers, 0);
    w.advance(MICRO);
    assert_eq!(w.fire_due().await.timers, 1);
}

async fn the_next_due_instant_is_the_smallest_of_all_kinds(w: &World) {
    let start = w.instant();
    let at = |secs| Some(after(start, Duration::from_secs(secs)));
    assert_eq!(w.fire_due().await.next_due, None);
    let mut deadline = w.new_start();
    deadline.run_timeout = Some(Duration::from_secs(400));
    w.start_one(deadline).await;
    assert_eq!(w.fire_due().await.next_due, at(400), "a run's deadline");
    w.start_with_tasks(vec![w.task("a")]).await;
    assert_eq!(w.fire_due().await.next_due, at(300), "a task's clock");
    let run_id = w.start().await;
    w.set_timer(run_id, "t", Duration::from_secs(200)).await;
    assert_eq!(w.fire_due().await.next_due, at(200), "a timer");
    let mut delayed = w.task("a");
    delayed.delay = Some(Duration::from_secs(100));
    w.start_with_tasks(vec![delayed]).await;
    assert_eq!(w.fire_due().await.next_due, at(100), "a delayed task");
}

fn with_timeouts(w: &World, run: Option<u64>, execution: Option<u64>) -> StartRun {
    let mut start = w.new_start();
    start.run_timeout = run.map(Duration::from_secs);
    start.execution_timeout = execution.map(Duration::from_secs);
    start
}

fn run_timeout() -> Failure {
    Failure::new(error_types::RUN_TIMEOUT, "the time for this run ran out").non_retryable()
}

fn execution_timeout() -> Failure {
    Failure::new(
        error_types::EXECUTION_TIMEOUT,
        "the time for the whole execution ran out",
    )
    .non_retryable()
}

async fn a_run_past_its_run_timeout_fails(w: &World) {
    let run_id = w.start_one(with_timeouts(w, Some(10), Some(20))).await;
    w.queue(run_id, vec![w.task("a")]).await;
    w.advance(SECOND * 10 - MICRO);
    assert_eq!(w.fire_due().await.runs_timed_out.len(), 0);
    w.advance(MICRO);
    let expected = Fired {
        runs_timed_out: vec![run_id],
        ..Fired::default()
    };
    assert_eq!(w.fire_due().await, expected);
    let all = w.dump(run_id).await;
    assert_eq!(all.run.status, WorkflowStatus::Failed);
    assert_eq!(all.run.error, Some(run_timeout()));
    assert_eq!((all.run.completed_at, all.run.ready_at), (w.now(), None));
    assert_eq!(all.tasks, []);
    let last = all.events.last().expect("the terminal event");
    let error = run_timeout().into();
    assert_eq!(last.event, WorkflowEvent::WorkflowFailed { error });
    assert_eq!(last.sequence_num, all.run.sequence);
}

async fn a_run_past_its_execution_timeout_fails_with_that_even_if_both_passed(w: &World) {
    let only = w.start_one(with_timeouts(w, None, Some(10))).await;
    let both = w.start_one(with_timeouts(w, Some(5), Some(10))).await;
    w.advance(SECOND * 10);
    assert_eq!(w.fire_due().await.runs_timed_out.len(), 2);
    for run_id in [only, both] {
        let run = w.run(run_id).await;
        assert_eq!(run.error, Some(execution_timeout()));
    }
}

async fn continuing_as_new_renews_the_run_timeout_and_not_the_execution_timeout(w: &World) {
    let began = w.instant();
    let run_id = w.start_one(with_timeouts(w, Some(10), Some(15))).await;
    w.advance(SECOND * 8);
    let turn = World::continuing(w.turn(run_id).await, vec![]);
    w.committed(turn).await;
    let run = w.run(run_id).await;
    assert_eq!(run.run_deadline, Some(after(began, SECOND * 18)));
    assert_eq!(run.execution_deadline, Some(after(began, SECOND * 15)));
    w.advance(SECOND * 4);
    let due = w.fire_due().await;
    assert_eq!(
        (due.runs_timed_out.len(), due.next_due),
        (0, run.execution_deadline),
        "the first iteration's deadline is no more"
    );
    w.advance(SECOND * 3);
    assert_eq!(w.fire_due().await.runs_timed_out.len(), 1);
    assert_eq!(w.run(run_id).await.error, Some(execution_timeout()));
}

async fn an_ended_run_has_no_deadline(w: &World) {
    let run_id = w.start_one(with_timeouts(w, Some(10), Some(20))).await;
    w.complete(run_id).await;
    let before = w.dump(run_id).await;
    w.advance(SECOND * 30);
    assert_eq!(w.fire_due().await, Fired::default());
    assert_eq!(w.dump(run_id).await, before);
}

async fn a_run_that_timed_out_keeps_its_waiting_signals_in_the_history(w: &World) {
    let run_id = w.start_one(with_timeouts(w, Some(10), None)).await;
    w.signal(run_id, "a").await;
    w.signal(run_id, "b").await;
    let waiting = w.waiting_events(run_id).await;
    w.advance(SECOND * 10);
    w.fire_due().await;
    let history = w.history(run_id).await;
    let kept: Vec<WorkflowEvent> = waiting.into_iter().map(as_unread).collect();
    assert_eq!(history[..2], kept);
    assert_eq!(history.len(), 3);
}

async fn deadlines_go_before_timers(w: &World) {
    let run_id = w.start_one(with_timeouts(w, Some(10), None)).await;
    w.set_timer(run_id, "t", SECOND).await;
    w.advance(SECOND * 10);
    let due = w.fire_due().await;
    assert_eq!((due.runs_timed_out.len(), due.timers), (1, 0));
}

async fn deadlines_are_handled_in_bounded_batches_earliest_first(w: &World) {
    // A run and its shard neighbours: only runs of one shard have an order.
    let shards = w.store.shards();
    let mut runs: Vec<(u64, Uuid)> = Vec::new();
    while runs.len() < 6 {
        let secs = 10 - runs.len() as u64;
        let start = with_timeouts(w, Some(secs), None);
        if shards.of_run(start.run_id) == 0 {
            runs.push((secs, w.start_one(start).await));
        }
    }
    w.advance(SECOND * 10);
    runs.sort_unstable();
    for pair in runs.chunks(2) {
        assert_eq!(fire(w, 2).await.runs_timed_out.len(), 2);
        for (_, run_id) in pair {
            assert_eq!(w.run(*run_id).await.status, WorkflowStatus::Failed);
        }
    }
}
