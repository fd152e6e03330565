//! The run's line: sequential tasks of one run are never leased at the same time, and leave in the order they were queued.

use std::time::Duration;

use durable_core::ExhaustedPolicy;
use everruns_durable::persistence::model::{
    ClaimTasks, DeadLetterDecision, DecisionOutcome, FinishOutcome, FinishedTask, NewTask, TaskEnd,
    TaskLease, TaskOutcome, TaskPlace, TaskStatus, after,
};

use crate::World;
use crate::world::{LEASE, json};

claims! { "ordering":
    sequential_tasks_are_handed_out_one_by_one_in_the_order_queued,
    no_other_worker_gets_the_next_while_the_head_is_leased,
    the_line_runs_across_turns,
    two_runs_do_not_wait_for_each_other,
    parallel_tasks_do_not_wait,
    parallel_tasks_do_not_hold_the_line,
    a_failure_beside_the_line_does_not_move_it,
    priority_does_not_overtake_the_line,
    a_retry_delay_holds_the_line,
    a_delayed_head_holds_the_line,
    a_delay_runs_while_its_task_is_in_line,
    a_parked_dead_letter_holds_the_line,
    a_requeued_head_is_still_the_head,
    a_released_head_is_still_the_head,
    a_reaped_head_is_still_the_head,
    a_failed_head_releases_the_next,
    a_cancelled_attempt_releases_the_next,
    cancel_of_the_head_releases_the_next,
    cancel_further_back_releases_nobody,
    a_head_finished_by_a_turn_releases_the_next,
    a_head_that_times_out_releases_the_next,
    whoever_moves_the_line_is_told,
    hand_over_respects_the_line,
    a_turn_that_finishes_the_head_may_lease_its_successor,
    a_reset_empties_the_line,
}

/// Queues three sequential tasks, `a`, `b` and `c`.
fn line(w: &World) -> Vec<NewTask> {
    ["a", "b", "c"].map(|name| w.task(name)).to_vec()
}

/// Claims the one task that may be claimed and checks which it is.
async fn claim_next(w: &World, expected: &str) -> TaskLease {
    let claimed = w.claim(10).await;
    let names: Vec<_> = claimed.iter().map(|t| t.activity_id.as_str()).collect();
    assert_eq!(names, [expected], "exactly the head of the line");
    claimed[0].lease.clone()
}

async fn sequential_tasks_are_handed_out_one_by_one_in_the_order_queued(w: &World) {
    let run_id = w.start_with_tasks(line(w)).await;
    assert_eq!(w.standing(run_id, TaskStatus::Pending).await, ["a"]);
    assert_eq!(w.standing(run_id, TaskStatus::InLine).await, ["b", "c"]);
    for expected in ["a", "b", "c"] {
        w.advance(Duration::from_secs(1));
        let lease = claim_next(w, expected).await;
        w.succeed(&lease).await;
        let tasks = w.dump(run_id).await.tasks;
        if let Some(next) = tasks.first() {
            assert_eq!(next.status, TaskStatus::Pending);
            assert_eq!(next.visible_at, w.instant(), "visible since it is the head");
        }
    }
}

async fn no_other_worker_gets_the_next_while_the_head_is_leased(w: &World) {
    w.start_with_tasks(line(w)).await;
    claim_next(w, "a").await;
    for first_shard in 0..4 {
        let other = ClaimTasks {
            worker_id: format!("worker-{first_shard}"),
            first_shard,
            ..w.new_claim(10)
        };
        assert_eq!(w.store.claim_tasks(other).await.expect("claims"), []);
    }
    w.fire_due().await;
    assert_eq!(w.claim(10).await, []);
}

async fn the_line_runs_across_turns(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    w.queue(run_id, vec![w.task("b")]).await;
    let a = claim_next(w, "a").await;
    w.queue(run_id, vec![w.task("c")]).await;
    assert_eq!(w.standing(run_id, TaskStatus::InLine).await, ["b", "c"]);
    w.succeed(&a).await;
    let b = claim_next(w, "b").await;
    w.succeed(&b).await;
    claim_next(w, "c").await;
}

async fn two_runs_do_not_wait_for_each_other(w: &World) {
    for _ in 0..2 {
        w.start_with_tasks(line(w)).await;
    }
    let claimed = w.claim(10).await;
    let names: Vec<_> = claimed.iter().map(|t| t.activity_id.as_str()).collect();
    assert_eq!(names, ["a", "a"]);
}

async fn parallel_tasks_do_not_wait(w: &World) {
    let tasks = ["a", "b", "c"].map(|name| w.parallel_task(name));
    w.start_with_tasks(tasks.to_vec()).await;
    assert_eq!(w.claim(10).await.len(), 3);
}

async fn parallel_tasks_do_not_hold_the_line(w: &World) {
    let tasks = vec![
        w.parallel_task("beside"),
        w.task("a"),
        w.parallel_task("behind"),
        w.task("b"),
    ];
    let run_id = w.start_with_tasks(tasks).await;
    assert_eq!(
        w.standing(run_id, TaskStatus::Pending).await,
        ["beside", "a", "behind"]
    );
    assert_eq!(w.standing(run_id, TaskStatus::InLine).await, ["b"]);
}

async fn a_failure_beside_the_line_does_not_move_it(w: &World) {
    let beside = w.parallel_task("beside");
    let run_id = w
        .start_with_tasks(vec![w.task("a"), beside, w.task("b")])
        .await;
    let claimed = w.claim(10).await;
    let beside = claimed.iter().find(|task| task.activity_id == "beside");
    w.give_up(&beside.expect("claimed").lease).await;
    w.queue(run_id, vec![w.task("c")]).await;
    assert_eq!(w.claim(10).await, [], "a is not finished");
    assert_eq!(w.standing(run_id, TaskStatus::InLine).await, ["b", "c"]);
    let run_id = w
        .start_with_tasks(vec![w.task("a"), w.parallel_task("beside")])
        .await;
    let claimed = w.claim(10).await;
    let beside = claimed.iter().find(|task| task.activity_id == "beside");
    w.give_up(&beside.expect("claimed").lease).await;
    w.queue(run_id, vec![w.task("b")]).await;
    assert_eq!(w.standing(run_id, TaskStatus::InLine).await, ["b"]);
}

async fn priority_does_not_overtake_the_line(w: &World) {
    let mut tasks = line(w);
    tasks[2].options.priority = 100;
    w.start_with_tasks(tasks).await;
    let a = claim_next(w, "a").await;
    w.succeed(&a).await;
    claim_next(w, "b").await;
}

async fn a_retry_delay_holds_the_line(w: &World) {
    let run_id = w.start_with_tasks(line(w)).await;
    let a = claim_next(w, "a").await;
    w.fail(&a).await;
    assert_eq!(w.claim(10).await, [], "the next does not slip past");
    assert_eq!(w.standing(run_id, TaskStatus::Delayed).await, ["a"]);
    w.advance(Duration::from_secs(1));
    w.fire_due().await;
    let a = claim_next(w, "a").await;
    w.succeed(&a).await;
    claim_next(w, "b").await;
}

async fn a_delayed_head_holds_the_line(w: &World) {
    let mut tasks = line(w);
    tasks[0].delay = Some(Duration::from_secs(10));
    w.start_with_tasks(tasks).await;
    w.advance(Duration::from_secs(9));
    w.fire_due().await;
    assert_eq!(w.claim(10).await, []);
    w.advance(Duration::from_secs(1));
    w.fire_due().await;
    claim_next(w, "a").await;
}

async fn a_delay_runs_while_its_task_is_in_line(w: &World) {
    let mut tasks = line(w);
    tasks[1].delay = Some(Duration::from_secs(10));
    tasks[2].delay = Some(Duration::from_secs(10));
    let queued_at = w.instant();
    let run_id = w.start_with_tasks(tasks).await;
    let a = claim_next(w, "a").await;
    w.advance(Duration::from_secs(4));
    w.succeed(&a).await;
    let b = w.dump(run_id).await.tasks.remove(0);
    assert_eq!(b.status, TaskStatus::Delayed, "its time has not come");
    assert_eq!(b.visible_at, after(queued_at, Duration::from_secs(10)));
    w.advance(Duration::from_secs(6));
    w.fire_due().await;
    let b = claim_next(w, "b").await;
    w.succeed(&b).await;
    claim_next(w, "c").await;
}

async fn a_parked_dead_letter_holds_the_line(w: &World) {
    let mut tasks = line(w);
    tasks[0].options.on_exhausted = ExhaustedPolicy::Park;
    let run_id = w.start_with_tasks(tasks).await;
    let a = claim_next(w, "a").await;
    assert_eq!(w.give_up(&a).await, FinishOutcome::Parked);
    w.advance(Duration::from_secs(600));
    w.fire_due().await;
    assert_eq!(w.claim(10).await, []);
    assert_eq!(w.standing(run_id, TaskStatus::InLine).await, ["b", "c"]);

    let decided = w
        .store
        .decide_dead_letter(run_id, a.task_id, DeadLetterDecision::Discard, w.now())
        .await;
    assert_eq!(decided.expect("decides"), DecisionOutcome::Done);
    claim_next(w, "b").await;
}

async fn a_requeued_head_is_still_the_head(w: &World) {
    let mut tasks = line(w);
    tasks[0].options.on_exhausted = ExhaustedPolicy::Park;
    let run_id = w.start_with_tasks(tasks).await;
    let a = claim_next(w, "a").await;
    w.give_up(&a).await;
    let decided = w
        .store
        .decide_dead_letter(run_id, a.task_id, DeadLetterDecision::Requeue, w.now())
        .await;
    assert_eq!(decided.expect("decides"), DecisionOutcome::Done);
    let a = claim_next(w, "a").await;
    w.succeed(&a).await;
    claim_next(w, "b").await;
}

async fn a_released_head_is_still_the_head(w: &World) {
    w.start_with_tasks(line(w)).await;
    let a = claim_next(w, "a").await;
    assert!(w.release(&a).await);
    claim_next(w, "a").await;
}

async fn a_reaped_head_is_still_the_head(w: &World) {
    w.start_with_tasks(line(w)).await;
    claim_next(w, "a").await;
    w.advance(LEASE);
    assert_eq!(w.reap().await.len(), 1);
    claim_next(w, "a").await;
}

async fn a_failed_head_releases_the_next(w: &World) {
    w.start_with_tasks(line(w)).await;
    let a = claim_next(w, "a").await;
    w.give_up(&a).await;
    claim_next(w, "b").await;
}

async fn a_cancelled_attempt_releases_the_next(w: &World) {
    w.start_with_tasks(line(w)).await;
    let a = claim_next(w, "a").await;
    let reason = "asked to".to_owned();
    w.report(&a, TaskOutcome::Cancelled { reason }).await;
    claim_next(w, "b").await;
}

async fn cancel_of_the_head_releases_the_next(w: &World) {
    let run_id = w.start_with_tasks(line(w)).await;
    claim_next(w, "a").await;
    let mut turn = w.turn(run_id).await;
    turn.cancelled_activities = vec!["a".into()];
    w.committed(turn).await;
    claim_next(w, "b").await;
}

async fn cancel_further_back_releases_nobody(w: &World) {
    let run_id = w.start_with_tasks(line(w)).await;
    let a = claim_next(w, "a").await;
    let mut turn = w.turn(run_id).await;
    turn.cancelled_activities = vec!["b".into()];
    w.committed(turn).await;
    assert_eq!(w.claim(10).await, []);
    w.succeed(&a).await;
    claim_next(w, "c").await;
}

async fn a_head_finished_by_a_turn_releases_the_next(w: &World) {
    let run_id = w.start_with_tasks(line(w)).await;
    let lease = claim_next(w, "a").await;
    let mut turn = w.turn(run_id).await;
    let end = TaskEnd::Completed;
    turn.finished_tasks = vec![FinishedTask { lease, end }];
    w.committed(turn).await;
    claim_next(w, "b").await;
}

async fn a_head_that_times_out_releases_the_next(w: &World) {
    let mut tasks = line(w);
    tasks[0].options.schedule_to_start_timeout = Duration::from_secs(5);
    let run_id = w.start_with_tasks(tasks).await;
    w.advance(Duration::from_secs(5));
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
    assert_eq!(w.standing(run_id, TaskStatus::Pending).await, ["b"]);
    claim_next(w, "b").await;
}

async fn whoever_moves_the_line_is_told(w: &World) {
    let run_id = w.start_with_tasks(line(w)).await;
    let beside = vec![w.parallel_task("beside")];
    w.queue(run_id, beside).await;
    let claimed = w.claim(10).await;
    let lease_of = |name: &str| {
        let task = claimed.iter().find(|task| task.activity_id == name);
        task.expect("claimed").lease.clone()
    };
    let result = durable_core::Payload::null();
    let completed = TaskOutcome::Completed { result };
    let told = |line_moved| move |outcome: FinishOutcome| matches!(outcome, FinishOutcome::Recorded { line_moved: told, .. } if told == line_moved);
    let outcome = w.report(&lease_of("beside"), completed.clone()).await;
    assert!(told(false)(outcome), "it was not in line");
    let outcome = w.report(&lease_of("a"), completed.clone()).await;
    assert!(told(true)(outcome), "b is the next");
    let lease = claim_next(w, "b").await;
    let mut turn = w.turn(run_id).await;
    let end = TaskEnd::Completed;
    turn.finished_tasks = vec![FinishedTask { lease, end }];
    turn.tasks = vec![w.task("d")];
    assert!(w.committed(turn.clone()).await.line_moved, "c is the next");
    assert!(!w.committed(turn).await.line_moved, "told once");
    let mut turn = w.turn(run_id).await;
    turn.cancelled_activities = vec!["c".into()];
    assert!(w.committed(turn).await.line_moved, "d is the next");
    let outcome = w.report(&claim_next(w, "d").await, completed).await;
    assert!(told(false)(outcome), "nobody was behind it");
}

async fn hand_over_respects_the_line(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.tasks = line(w);
    turn.tasks.push(w.parallel_task("beside"));
    for task in &mut turn.tasks {
        task.lease = true;
    }
    let places = w.committed(turn).await.tasks;
    let leased: Vec<bool> = places
        .iter()
        .map(|task| matches!(task.place, TaskPlace::Leased { .. }))
        .collect();
    assert_eq!(leased, [true, false, false, true]);
    assert_eq!(places[1].place, TaskPlace::Waiting);

    let mut later = w.turn(run_id).await;
    later.tasks = vec![w.task("d")];
    later.tasks[0].lease = true;
    assert_eq!(w.committed(later).await.tasks[0].place, TaskPlace::Waiting);
    assert_eq!(w.claim(10).await, []);
}

async fn a_turn_that_finishes_the_head_may_lease_its_successor(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let lease = claim_next(w, "a").await;
    let mut turn = w.turn(run_id).await;
    turn.finished_tasks = vec![FinishedTask {
        lease,
        end: TaskEnd::Completed,
    }];
    turn.tasks = vec![w.task("b")];
    turn.tasks[0].lease = true;
    turn.tasks[0].input = json("7");
    let place = w.committed(turn).await.tasks.remove(0).place;
    let TaskPlace::Leased { lease, .. } = place else {
        panic!("nothing is before it any more: {place:?}");
    };
    w.succeed(&lease).await;
}

async fn a_reset_empties_the_line(w: &World) {
    let run_id = w.start_with_tasks(line(w)).await;
    claim_next(w, "a").await;
    let mut turn = World::resetting(w.turn(run_id).await, 1);
    turn.tasks = vec![w.task("b")];
    let place = w.committed(turn).await.tasks.remove(0).place;
    assert_eq!(place, TaskPlace::Claimable, "the old line is gone");
    claim_next(w, "b").await;
}
