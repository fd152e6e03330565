//! Claiming tasks: which, in which order, and what a claim counts.

use std::time::Duration;

use durable_core::Payload;
use everruns_durable::persistence::model::{
    ClaimTasks, ClaimedTask, NewTask, TaskLease, TaskStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{ACTIVITY, LEASE, WORKER, json, trace};

claims! { "tasks":
    a_claimed_task_is_handed_out_whole,
    a_claim_is_stored_with_its_lease,
    a_claim_counts_an_attempt_and_a_delivery,
    a_claimed_task_is_not_claimed_again,
    higher_priority_comes_first,
    of_equal_priority_the_longest_visible_comes_first,
    of_equal_priority_and_time_the_smaller_id_comes_first,
    order_holds_across_runs_of_a_shard,
    tasks_of_two_runs_may_share_an_id,
    no_more_than_max_are_claimed,
    only_the_types_asked_for_are_claimed,
    every_shard_is_looked_at_wherever_one_begins,
    one_claim_has_one_token,
    a_delayed_task_is_visible_only_when_its_time_has_come,
    a_task_made_visible_counts_as_visible_from_then_on,
    what_is_not_pending_is_not_claimed,
    tasks_of_an_ended_run_are_not_claimed,
}

async fn a_claimed_task_is_handed_out_whole(w: &World) {
    let mut new = w.task("a");
    new.input = json(r#"[ 9007199254740993, "\u0000" ]"#);
    new.options.priority = 3;
    new.trace = Some(trace());
    let run_id = w.start_with_tasks(vec![new.clone()]).await;
    let scheduled_at = w.instant();
    w.advance(Duration::from_secs(2));
    let claim = w.new_claim(1);
    let token = claim.token;
    let claimed = w.store.claim_tasks(claim).await.expect("claims");
    assert_eq!(
        claimed,
        [ClaimedTask {
            lease: TaskLease {
                run_id,
                task_id: new.task_id,
                attempt: 1,
                token,
            },
            lease_expires_at: after(w.instant(), LEASE),
            activity_id: "a".into(),
            activity_type: ACTIVITY.into(),
            input: new.input,
            options: new.options,
            deliveries: 1,
            scheduled_at,
            started_at: w.instant(),
            heartbeat_details: Payload::ABSENT,
            attempts: vec![],
            trace: new.trace,
        }]
    );
}

async fn a_claim_is_stored_with_its_lease(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let mut expected = w.dump(run_id).await.tasks.remove(0);
    w.advance(Duration::from_secs(2));
    let claimed = w.claim_one().await;
    expected.status = TaskStatus::Claimed;
    expected.attempt = 1;
    expected.deliveries = 1;
    expected.claimed_by = Some(WORKER.into());
    expected.claimed_at = w.now();
    expected.token = Some(claimed.lease.token);
    expected.lease_expires_at = Some(after(w.instant(), LEASE));
    assert_eq!(w.dump(run_id).await.tasks, [expected]);
}

async fn a_claim_counts_an_attempt_and_a_delivery(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let first = w.claim_one().await;
    assert_eq!((first.lease.attempt, first.deliveries), (1, 1));
    w.fail(&first.lease).await;
    w.advance(Duration::from_secs(1));
    w.fire_due().await;
    let second = w.claim_one().await;
    assert_eq!((second.lease.attempt, second.deliveries), (2, 1));
}

async fn a_claimed_task_is_not_claimed_again(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    w.claim_one().await;
    assert_eq!(w.claim(10).await, []);
    w.advance(LEASE * 2);
    assert_eq!(w.claim(10).await, [], "only the reaper takes leases back");
}

/// The ids of tasks, in the order in which one claim of all hands them out.
async fn claim_order(w: &World) -> Vec<Uuid> {
    let claimed = w.claim(100).await;
    claimed.iter().map(|task| task.lease.task_id).collect()
}

/// A task beside the line, with a priority.
fn with_priority(w: &World, name: &str, priority: i32) -> NewTask {
    let mut task = w.parallel_task(name);
    task.options.priority = priority;
    task
}

async fn higher_priority_comes_first(w: &World) {
    let priorities = [0, -5, 7, i32::MAX, i32::MIN, 7];
    let tasks: Vec<_> = (0..)
        .zip(priorities)
        .map(|(i, priority)| with_priority(w, &format!("task-{i}"), priority))
        .collect();
    let expected: Vec<Uuid> = [3, 2, 5, 0, 1, 4].map(|i: usize| tasks[i].task_id).into();
    w.start_with_tasks(tasks).await;
    assert_eq!(claim_order(w).await, expected);
}

async fn of_equal_priority_the_longest_visible_comes_first(w: &World) {
    // The later one has the smaller id, so that only the time can put it behind.
    let later = w.parallel_task("later");
    let earlier = w.parallel_task("earlier");
    let urgent = with_priority(w, "urgent", 1);
    let expected = [urgent.task_id, earlier.task_id, later.task_id];
    let run_id = w.start_with_tasks(vec![earlier]).await;
    w.advance(Duration::from_micros(1));
    w.queue(run_id, vec![later]).await;
    w.advance(Duration::from_micros(1));
    w.queue(run_id, vec![urgent]).await;
    assert_eq!(claim_order(w).await, expected);
}

async fn of_equal_priority_and_time_the_smaller_id_comes_first(w: &World) {
    let small = w.parallel_task("small");
    let large = w.parallel_task("large");
    let expected = [small.task_id, large.task_id];
    w.start_with_tasks(vec![large, small]).await;
    assert_eq!(claim_order(w).await, expected);
}

async fn order_holds_across_runs_of_a_shard(w: &World) {
    let runs = w.start_in_one_shard(3).await;
    let mut expected = Vec::new();
    for (run_id, priority) in runs.into_iter().zip([1, 3, 2]) {
        let task = with_priority(w, "a", priority);
        expected.push((priority, task.task_id));
        w.queue(run_id, vec![task]).await;
    }
    expected.sort_by_key(|(priority, _)| -priority);
    let expected: Vec<Uuid> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(claim_order(w).await, expected);
}

async fn tasks_of_two_runs_may_share_an_id(w: &World) {
    let task = w.task("a");
    let runs = w.start_in_one_shard(2).await;
    for run_id in &runs {
        w.queue(*run_id, vec![task.clone()]).await;
    }
    let claimed = w.claim(10).await;
    let found: Vec<Uuid> = claimed.iter().map(|task| task.lease.run_id).collect();
    assert_eq!(found, runs, "by the id of the run");
    let foreign = TaskLease {
        run_id: runs[1],
        token: w.id(),
        ..claimed[0].lease.clone()
    };
    w.lease_is_void(&foreign).await;
    w.succeed(&claimed[0].lease).await;
    assert_eq!(w.dump(runs[1]).await.tasks.len(), 1, "the other one stays");
}

async fn no_more_than_max_are_claimed(w: &World) {
    for _ in 0..5 {
        let tasks = ["a", "b"].map(|name| w.parallel_task(name));
        w.start_with_tasks(tasks.to_vec()).await;
    }
    for (max, claimed, left) in [(1, 1, 9), (3, 3, 6), (4, 4, 2), (5, 2, 0)] {
        assert_eq!(w.claim(max).await.len(), claimed);
        let pending = w.everything().await.runs;
        let pending = pending.iter().flat_map(|run| &run.tasks);
        let pending = pending.filter(|task| task.status == TaskStatus::Pending);
        assert_eq!(pending.count(), left);
    }
}

async fn only_the_types_asked_for_are_claimed(w: &World) {
    let types = ["mail", "pay", "print"];
    let tasks = types.map(|name| NewTask {
        activity_type: name.into(),
        ..w.parallel_task(name)
    });
    w.start_with_tasks(tasks.to_vec()).await;
    let claim_types = |types: &[&str]| ClaimTasks {
        activity_types: types.iter().map(|&t| t.to_owned()).collect(),
        ..w.new_claim(10)
    };
    let claim = |types| w.store.claim_tasks(claim_types(types));
    assert_eq!(claim(&[]).await.expect("claims"), []);
    assert_eq!(claim(&["unknown", "PAY"]).await.expect("claims"), []);
    let claimed = claim(&["pay", "unknown", "mail"]).await.expect("claims");
    let mut names: Vec<_> = claimed.iter().map(|t| t.activity_type.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["mail", "pay"]);
}

async fn every_shard_is_looked_at_wherever_one_begins(w: &World) {
    for first_shard in [0, 1, 3, 9] {
        for _ in 0..12 {
            w.start_with_tasks(vec![w.task("a")]).await;
        }
        let claim = ClaimTasks {
            first_shard,
            ..w.new_claim(100)
        };
        let claimed = w.store.claim_tasks(claim).await.expect("claims");
        assert_eq!(claimed.len(), 12, "beginning with shard {first_shard}");
    }
}

async fn one_claim_has_one_token(w: &World) {
    let tasks = ["a", "b"].map(|name| w.parallel_task(name));
    w.start_with_tasks(tasks.to_vec()).await;
    let claim = w.new_claim(2);
    let token = claim.token;
    let claimed = w.store.claim_tasks(claim).await.expect("claims");
    assert_eq!(claimed.len(), 2);
    assert!(claimed.iter().all(|task| task.lease.token == token));
}

async fn a_delayed_task_is_visible_only_when_its_time_has_come(w: &World) {
    let mut task = w.task("a");
    task.delay = Some(Duration::from_secs(10));
    let run_id = w.start_with_tasks(vec![task]).await;
    assert_eq!(w.standing(run_id, TaskStatus::Delayed).await, ["a"]);
    w.advance(Duration::from_micros(9_999_999));
    assert_eq!(w.fire_due().await.tasks_ready, 0);
    assert_eq!(w.claim(10).await, []);
    w.advance(Duration::from_micros(1));
    assert_eq!(w.claim(10).await, [], "claims look at no clock");
    assert_eq!(w.fire_due().await.tasks_ready, 1);
    w.claim_one().await;
}

async fn a_task_made_visible_counts_as_visible_from_then_on(w: &World) {
    let mut delayed = w.parallel_task("delayed");
    delayed.delay = Some(Duration::from_secs(1));
    let run_id = w.start_with_tasks(vec![delayed]).await;
    w.advance(Duration::from_secs(3));
    w.queue(run_id, vec![w.parallel_task("queued meanwhile")])
        .await;
    w.advance(Duration::from_secs(2));
    w.fire_due().await;
    let stored = w.dump(run_id).await.tasks.remove(0);
    assert_eq!(stored.status, TaskStatus::Pending);
    assert_eq!(stored.visible_at, w.instant());
    let claimed = w.claim(10).await;
    assert_eq!(claimed[0].activity_id, "queued meanwhile");
}

async fn what_is_not_pending_is_not_claimed(w: &World) {
    let mut tasks = vec![w.task("head"), w.task("in line")];
    let mut delayed = w.parallel_task("delayed");
    delayed.delay = Some(Duration::from_secs(1));
    tasks.push(delayed);
    tasks[0].options.on_exhausted = durable_core::ExhaustedPolicy::Park;
    let run_id = w.start_with_tasks(tasks).await;
    let head = w.claim_one().await;
    assert_eq!(w.claim(10).await, []);
    w.give_up(&head.lease).await;
    assert_eq!(w.claim(10).await, []);
    let standing: Vec<_> = w
        .dump(run_id)
        .await
        .tasks
        .iter()
        .map(|t| t.status)
        .collect();
    let expected = [TaskStatus::Dead, TaskStatus::InLine, TaskStatus::Delayed];
    assert_eq!(standing, expected);
}

async fn tasks_of_an_ended_run_are_not_claimed(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    w.cancel_run(run_id).await;
    assert_eq!(w.claim(10).await, []);
}
