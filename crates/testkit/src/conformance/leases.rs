//! Leases: extending, giving back, taking back, and workers that come back from the dead.

use std::time::Duration;

use durable_core::{ExhaustedPolicy, Failure, WorkflowEvent};
use everruns_durable::persistence::limits::DELIVERIES_MAX;
use everruns_durable::persistence::model::{
    FinishOutcome, FinishedTask, LeaseExtension, LeaseState, ReapLeases, ReapedTask, Rejection,
    TaskEnd, TaskLease, TaskStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{ACTIVITY, LEASE, json};

claims! { "leases":
    an_extension_counts_from_now,
    a_heartbeat_is_recorded_and_a_bare_extension_keeps_it,
    an_expired_lease_that_was_not_taken_back_can_be_extended,
    an_expired_lease_that_was_not_taken_back_can_still_finish,
    extensions_of_one_call_are_independent,
    a_released_task_is_as_it_was_before_the_claim,
    releases_burn_neither_attempts_nor_deliveries,
    a_lease_is_taken_back_at_its_end_and_not_before,
    a_lease_extended_meanwhile_is_not_taken_back,
    a_reaped_task_keeps_its_deliveries_and_gets_its_attempt_back,
    leases_are_taken_back_in_the_order_of_their_end,
    no_more_than_max_leases_are_taken_back,
    a_task_that_kills_its_workers_is_one_dead_letter_and_one_fact,
    a_parked_task_that_kills_its_workers_waits_for_a_decision,
    a_failure_in_between_starts_the_count_of_deliveries_anew,
    a_zombie_can_do_nothing_with_a_reaped_lease,
    a_zombie_can_do_nothing_after_another_worker_claimed,
    a_zombie_of_an_earlier_attempt_can_do_nothing,
    a_lease_counts_only_with_task_attempt_and_token_all_right,
    a_cancelled_activity_takes_the_lease_with_it,
}

impl World {
    /// Checks that nothing at all can be done with a lease, and that trying changes nothing.
    pub(super) async fn lease_is_void(&self, lease: &TaskLease) {
        let before = self.everything().await;
        let completed = everruns_durable::persistence::model::TaskOutcome::Completed {
            result: json("\"zombie\""),
        };
        assert_eq!(
            self.report(lease, completed).await,
            FinishOutcome::LeaseLost
        );
        assert_eq!(self.give_up(lease).await, FinishOutcome::LeaseLost);
        assert_eq!(self.fail(lease).await, FinishOutcome::LeaseLost);
        let heartbeat = Some(json("\"zombie\""));
        assert_eq!(self.extend(lease, heartbeat).await, LeaseState::Lost);
        assert!(!self.release(lease).await);
        assert!(!self.park(lease, LEASE).await);
        let run = self.run(lease.run_id).await;
        if !run.status.is_terminal() {
            let mut turn = self.turn(lease.run_id).await;
            turn.finished_tasks = vec![FinishedTask {
                lease: lease.clone(),
                end: TaskEnd::Completed,
            }];
            let task_id = lease.task_id;
            assert_eq!(self.rejected(turn).await, Rejection::LeaseLost { task_id });
        }
        assert_eq!(self.everything().await, before);
    }
}

async fn an_extension_counts_from_now(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    let mut expected = w.dump(run_id).await.tasks.remove(0);
    w.advance(Duration::from_secs(3));
    let expires_at = after(w.instant(), LEASE);
    assert_eq!(
        w.extend(&lease, None).await,
        LeaseState::Extended { expires_at }
    );
    expected.lease_expires_at = Some(expires_at);
    assert_eq!(w.dump(run_id).await.tasks, [expected]);
}

async fn a_heartbeat_is_recorded_and_a_bare_extension_keeps_it(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    w.advance(Duration::from_secs(1));
    w.extend(&lease, Some(json("[ 1 ]"))).await;
    let beat_at = w.now();
    for _ in 0..2 {
        let task = w.dump(run_id).await.tasks.remove(0);
        assert_eq!(task.heartbeat_at, beat_at);
        assert_eq!(task.heartbeat_details, json("[ 1 ]"));
        w.advance(Duration::from_secs(1));
        w.extend(&lease, None).await;
    }
    w.extend(&lease, Some(json("2"))).await;
    let task = w.dump(run_id).await.tasks.remove(0);
    assert_eq!(task.heartbeat_at, w.now());
    assert_eq!(task.heartbeat_details, json("2"));
}

async fn an_expired_lease_that_was_not_taken_back_can_be_extended(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    w.advance(LEASE * 3);
    let expires_at = after(w.instant(), LEASE);
    assert_eq!(
        w.extend(&lease, None).await,
        LeaseState::Extended { expires_at }
    );
    assert_eq!(w.reap().await, []);
}

async fn an_expired_lease_that_was_not_taken_back_can_still_finish(w: &World) {
    let tasks = ["a", "b"].map(|name| w.parallel_task(name));
    let run_id = w.start_with_tasks(tasks.to_vec()).await;
    let claimed = w.claim(2).await;
    w.advance(LEASE * 3);
    w.succeed(&claimed[0].lease).await;
    let mut turn = w.turn(run_id).await;
    turn.finished_tasks = vec![FinishedTask {
        lease: claimed[1].lease.clone(),
        end: TaskEnd::Completed,
    }];
    w.committed(turn).await;
    assert_eq!(w.reap().await, []);
}

async fn extensions_of_one_call_are_independent(w: &World) {
    let tasks = ["a", "b", "c"].map(|name| w.parallel_task(name));
    w.start_with_tasks(tasks.to_vec()).await;
    let claimed = w.claim(3).await;
    w.succeed(&claimed[1].lease).await;
    let extensions = claimed.iter().zip(1..).map(|(task, minutes)| {
        let extend = Duration::from_secs(60 * minutes);
        LeaseExtension {
            lease: task.lease.clone(),
            extend,
            heartbeat: None,
        }
    });
    let states = w.store.extend_leases(extensions.collect(), w.now()).await;
    let until = |seconds| LeaseState::Extended {
        expires_at: after(w.instant(), Duration::from_secs(seconds)),
    };
    assert_eq!(
        states.expect("extends"),
        [until(60), LeaseState::Lost, until(180)]
    );
}

async fn a_released_task_is_as_it_was_before_the_claim(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let mut expected = w.dump(run_id).await.tasks.remove(0);
    let lease = w.claim_one().await.lease;
    w.advance(Duration::from_secs(1));
    assert!(w.release(&lease).await);
    expected.visible_at = w.instant();
    assert_eq!(w.dump(run_id).await.tasks, [expected]);
    w.lease_is_void(&lease).await;
    let again = w.claim_one().await;
    assert_eq!((again.lease.attempt, again.deliveries), (1, 1));
}

async fn releases_burn_neither_attempts_nor_deliveries(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    for _ in 0..DELIVERIES_MAX * 2 {
        let task = w.claim_one().await;
        assert_eq!((task.lease.attempt, task.deliveries), (1, 1));
        assert!(w.release(&task.lease).await);
    }
    assert_eq!(w.letters().await, []);
}

async fn a_lease_is_taken_back_at_its_end_and_not_before(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    w.advance(LEASE - Duration::from_micros(1));
    assert_eq!(w.reap().await, []);
    w.advance(Duration::from_micros(1));
    let reaped = ReapedTask {
        run_id,
        task_id: lease.task_id,
        activity_type: ACTIVITY.into(),
        dead: false,
    };
    assert_eq!(w.reap().await, [reaped]);
    assert_eq!(w.reap().await, [], "once");
}

async fn a_lease_extended_meanwhile_is_not_taken_back(w: &World) {
    let tasks = ["extended", "expired"].map(|name| w.parallel_task(name));
    w.start_with_tasks(tasks.to_vec()).await;
    let claimed = w.claim(2).await;
    w.advance(LEASE - Duration::from_secs(1));
    w.extend(&claimed[0].lease, None).await;
    w.advance(Duration::from_secs(1));
    let reaped: Vec<Uuid> = w.reap().await.iter().map(|task| task.task_id).collect();
    assert_eq!(reaped, [claimed[1].lease.task_id]);
    w.succeed(&claimed[0].lease).await;
}

async fn a_reaped_task_keeps_its_deliveries_and_gets_its_attempt_back(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let mut expected = w.dump(run_id).await.tasks.remove(0);
    let lease = w.claim_one().await.lease;
    w.extend(&lease, Some(json("7"))).await;
    w.advance(LEASE);
    w.reap().await;
    expected.visible_at = w.instant();
    expected.deliveries = 1;
    expected.heartbeat_details = json("7");
    assert_eq!(w.dump(run_id).await.tasks, [expected]);
    let again = w.claim_one().await;
    assert_eq!((again.lease.attempt, again.deliveries), (1, 2));
    assert_eq!(again.heartbeat_details, json("7"));
    assert_eq!(w.run(run_id).await.arrivals, 0, "the run is told nothing");
}

async fn leases_are_taken_back_in_the_order_of_their_end(w: &World) {
    let tasks = ["a", "b", "c"].map(|name| w.parallel_task(name));
    let ids: Vec<Uuid> = tasks.iter().map(|task| task.task_id).collect();
    w.start_with_tasks(tasks.to_vec()).await;
    let claimed = w.claim(3).await;
    w.advance(Duration::from_secs(1));
    w.extend(&claimed[0].lease, None).await;
    w.advance(LEASE);
    let reaped: Vec<Uuid> = w.reap().await.iter().map(|task| task.task_id).collect();
    assert_eq!(reaped, [ids[1], ids[2], ids[0]]);
}

async fn no_more_than_max_leases_are_taken_back(w: &World) {
    for _ in 0..6 {
        w.start_with_tasks(vec![w.task("a")]).await;
    }
    assert_eq!(w.claim(6).await.len(), 6);
    w.advance(LEASE);
    for expected in [4, 2, 0] {
        let reap = ReapLeases {
            max: 4,
            first_shard: 1,
            now: w.now(),
        };
        let reaped = w.store.reap_leases(reap).await.expect("reaps");
        assert_eq!(reaped.len(), expected);
    }
}

/// Lets worker after worker die with the one task; what the last reaping answered.
async fn kill_workers(w: &World, workers: u32) -> Vec<ReapedTask> {
    let mut reaped = Vec::new();
    for worker in 1..=workers {
        let task = w.claim_one().await;
        assert_eq!((task.lease.attempt, task.deliveries), (1, worker));
        w.advance(LEASE);
        reaped = w.reap().await;
        assert_eq!(reaped.len(), 1);
        assert_eq!(reaped[0].dead, worker == DELIVERIES_MAX, "worker {worker}");
    }
    reaped
}

fn deliveries_exhausted() -> Failure {
    let message = format!("handed out {DELIVERIES_MAX} times without an answer");
    Failure::new("DeliveriesExhausted", message).non_retryable()
}

async fn a_task_that_kills_its_workers_is_one_dead_letter_and_one_fact(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a"), w.task("b")]).await;
    kill_workers(w, DELIVERIES_MAX).await;
    let facts = w.waiting(run_id).await.facts;
    assert_eq!(facts.len(), 1);
    assert_eq!(
        facts[0].event,
        WorkflowEvent::ActivityFailed {
            activity_id: "a".into(),
            error: deliveries_exhausted(),
            will_retry: false,
        }
    );
    let letters = w.letters().await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].last_error, deliveries_exhausted());
    assert_eq!(letters[0].error_history.len(), 1);
    assert_eq!(w.claim_one().await.activity_id, "b", "the line moves on");
    w.advance(LEASE * 2);
    w.reap().await;
    assert_eq!(w.letters().await, letters, "no second letter");
}

async fn a_parked_task_that_kills_its_workers_waits_for_a_decision(w: &World) {
    let mut task = w.task("a");
    task.options.on_exhausted = ExhaustedPolicy::Park;
    let run_id = w.start_with_tasks(vec![task]).await;
    kill_workers(w, DELIVERIES_MAX).await;
    assert_eq!(w.standing(run_id, TaskStatus::Dead).await, ["a"]);
    assert_eq!(w.run(run_id).await.arrivals, 0);
    let letters = w.letters().await;
    assert_eq!(letters.len(), 1);
    assert!(letters[0].parked);
}

async fn a_failure_in_between_starts_the_count_of_deliveries_anew(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    kill_workers(w, DELIVERIES_MAX - 1).await;
    let task = w.claim_one().await;
    w.fail(&task.lease).await;
    w.advance(Duration::from_secs(1));
    w.fire_due().await;
    for delivery in 1..DELIVERIES_MAX {
        assert_eq!(w.claim_one().await.deliveries, delivery);
        w.advance(LEASE);
        assert!(!w.reap().await[0].dead);
    }
    assert_eq!(w.dump(run_id).await.tasks.len(), 1);
}

async fn a_zombie_can_do_nothing_with_a_reaped_lease(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let zombie = w.claim_one().await.lease;
    w.advance(LEASE);
    w.reap().await;
    w.lease_is_void(&zombie).await;
}

async fn a_zombie_can_do_nothing_after_another_worker_claimed(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let zombie = w.claim_one().await.lease;
    w.advance(LEASE);
    w.reap().await;
    let living = w.claim_one().await.lease;
    assert_eq!(zombie.attempt, living.attempt, "only the token differs");
    w.lease_is_void(&zombie).await;
    w.succeed(&living).await;
    w.lease_is_void(&zombie).await;
}

async fn a_zombie_of_an_earlier_attempt_can_do_nothing(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    // Both claims use one token, so that only the attempt tells them apart.
    let claim = w.new_claim(1);
    let first = w.store.claim_tasks(claim.clone()).await.expect("claims");
    let zombie = first[0].lease.clone();
    w.fail(&zombie).await;
    w.lease_is_void(&zombie).await;
    w.advance(Duration::from_secs(1));
    w.fire_due().await;
    let second = w.store.claim_tasks(claim).await.expect("claims");
    assert_eq!(second[0].lease.attempt, 2);
    w.lease_is_void(&zombie).await;
    w.succeed(&second[0].lease).await;
}

async fn a_lease_counts_only_with_task_attempt_and_token_all_right(w: &World) {
    let tasks = ["a", "b"].map(|name| w.parallel_task(name));
    let run_id = w.start_with_tasks(tasks.to_vec()).await;
    let other_run = w.start().await;
    let claimed = w.claim(1).await;
    let other = w.claim(1).await;
    let lease = claimed[0].lease.clone();
    let wrong = [
        TaskLease {
            run_id: other_run,
            ..lease.clone()
        },
        TaskLease {
            task_id: other[0].lease.task_id,
            ..lease.clone()
        },
        TaskLease {
            attempt: 0,
            ..lease.clone()
        },
        TaskLease {
            attempt: 2,
            ..lease.clone()
        },
        TaskLease {
            token: other[0].lease.token,
            ..lease.clone()
        },
    ];
    for wrong in wrong {
        w.lease_is_void(&wrong).await;
    }
    assert_eq!(lease.run_id, run_id);
    w.succeed(&lease).await;
}

async fn a_cancelled_activity_takes_the_lease_with_it(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    let mut turn = w.turn(run_id).await;
    turn.cancelled_activities = vec!["a".into()];
    w.committed(turn).await;
    w.lease_is_void(&lease).await;
}
