//! Which turns are accepted, and which rule speaks first.

use std::time::Duration;

use everruns_durable::persistence::model::{
    FinishedTask, Next, Rejection, TaskEnd, TaskLease, TaskPlace, TurnCommit, WorkflowStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{boom, json};

claims! { "rejections":
    a_turn_of_an_unknown_run_is_not_found,
    a_turn_of_an_ended_run_is_refused,
    a_turn_of_an_older_epoch_is_refused,
    a_turn_at_another_sequence_is_refused,
    a_turn_takes_only_facts_that_have_arrived_and_are_not_taken,
    a_turn_cannot_end_the_run_over_an_unseen_fact,
    a_turn_that_goes_on_may_leave_facts_for_the_next,
    lost_lease_cannot_commit,
    a_turn_cannot_finish_a_task_of_another_run,
    a_task_cannot_be_finished_twice_by_one_turn,
    a_timer_cannot_be_fired_before_its_time_nor_twice,
    ids_in_use_are_refused,
    ids_that_the_same_turn_frees_may_be_used_again,
    the_first_rule_broken_is_the_answer,
    the_end_of_the_run_is_answered_before_its_epoch_and_sequence,
}

fn finished(lease: &TaskLease) -> FinishedTask {
    FinishedTask {
        lease: lease.clone(),
        end: TaskEnd::Completed,
    }
}

async fn a_turn_of_an_unknown_run_is_not_found(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.run_id = w.id();
    assert_eq!(w.rejected(turn).await, Rejection::NotFound);
}

async fn a_turn_of_an_ended_run_is_refused(w: &World) {
    for status in [
        WorkflowStatus::Completed,
        WorkflowStatus::Failed,
        WorkflowStatus::Cancelled,
    ] {
        let run_id = w.last_run_of("order-1", status).await;
        let before = w.dump(run_id).await;
        let turn = w.turn(run_id).await;
        assert_eq!(w.rejected(turn).await, Rejection::RunFinished { status });
        let ending = World::completing(w.turn(run_id).await);
        assert_eq!(w.rejected(ending).await, Rejection::RunFinished { status });
        assert_eq!(w.dump(run_id).await, before, "the first end wins");
    }
}

async fn a_turn_of_an_older_epoch_is_refused(w: &World) {
    let run_id = w.start_with_tasks(vec![]).await;
    let mut turn = w.turn(run_id).await;
    w.reset(run_id, 1).await;
    assert_eq!(
        w.rejected(turn.clone()).await,
        Rejection::Epoch { found: 1 }
    );
    turn.expected_sequence = w.run(run_id).await.sequence;
    assert_eq!(w.rejected(turn).await, Rejection::Epoch { found: 1 });
}

async fn a_turn_at_another_sequence_is_refused(w: &World) {
    let run_id = w.start().await;
    let late = w.turn(run_id).await;
    let mut early = w.turn(run_id).await;
    w.queue(run_id, vec![]).await;
    early.expected_sequence = 2;
    assert_eq!(w.rejected(late).await, Rejection::Sequence { found: 1 });
    assert_eq!(w.rejected(early).await, Rejection::Sequence { found: 1 });
}

async fn a_turn_takes_only_facts_that_have_arrived_and_are_not_taken(w: &World) {
    let run_id = w.start().await;
    for _ in 0..3 {
        w.signal(run_id, "hello").await;
    }
    let mut turn = w.turn(run_id).await;
    turn.facts_through = 2;
    w.committed(turn).await;
    let facts = Rejection::Facts {
        consumed: 2,
        arrivals: 3,
    };
    for facts_through in [1, 4] {
        let mut turn = w.turn(run_id).await;
        turn.facts_through = facts_through;
        assert_eq!(w.rejected(turn).await, facts, "{facts_through}");
    }
    for facts_through in [2, 3] {
        let mut turn = w.turn(run_id).await;
        turn.facts_through = facts_through;
        w.committed(turn).await;
    }
}

async fn a_turn_cannot_end_the_run_over_an_unseen_fact(w: &World) {
    let ends = [
        Next::Complete { result: json("1") },
        Next::Fail { error: boom() },
        Next::Cancel {
            reason: "asked to".into(),
        },
    ];
    for next in ends {
        let run_id = w.start().await;
        w.signal(run_id, "seen").await;
        let turn = World::ending(w.turn(run_id).await, next.clone());
        w.signal(run_id, "unseen").await;
        let before = w.dump(run_id).await;
        let unseen = Rejection::UnseenFacts { arrivals: 2 };
        assert_eq!(w.rejected(turn).await, unseen, "{next:?}");
        assert_eq!(w.dump(run_id).await, before);

        let again = World::ending(w.turn(run_id).await, next);
        w.committed(again).await;
    }
}

async fn a_turn_that_goes_on_may_leave_facts_for_the_next(w: &World) {
    let run_id = w.start().await;
    let turn = w.turn(run_id).await;
    w.advance(Duration::from_secs(1));
    w.signal(run_id, "unseen").await;
    let committed = w.committed(turn).await;
    assert_eq!(committed.arrivals, 1);
    let run = w.waiting(run_id).await;
    assert_eq!(run.facts.len(), 1);
    assert_eq!(run.run.ready_at, w.now(), "another turn is due");
}

async fn lost_lease_cannot_commit(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let unclaimed = TaskLease {
        run_id,
        task_id: w.dump(run_id).await.tasks[0].id,
        attempt: 0,
        token: w.id(),
    };
    let lease = w.claim_one().await.lease;
    let lost = [
        unclaimed,
        TaskLease {
            token: w.id(),
            ..lease.clone()
        },
        TaskLease {
            attempt: lease.attempt + 1,
            ..lease.clone()
        },
        TaskLease {
            task_id: w.id(),
            ..lease.clone()
        },
    ];
    let before = w.everything().await;
    for lost in lost {
        let mut turn = w.turn(run_id).await;
        turn.finished_tasks = vec![finished(&lost)];
        let task_id = lost.task_id;
        assert_eq!(w.rejected(turn).await, Rejection::LeaseLost { task_id });
    }
    assert_eq!(w.everything().await, before);
    let mut turn = w.turn(run_id).await;
    turn.finished_tasks = vec![finished(&lease)];
    w.committed(turn).await;
}

async fn a_turn_cannot_finish_a_task_of_another_run(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    for run_id in w.start_in_one_shard(4).await {
        let mut turn = w.turn(run_id).await;
        turn.finished_tasks = vec![finished(&lease)];
        let task_id = lease.task_id;
        assert_eq!(w.rejected(turn).await, Rejection::LeaseLost { task_id });
    }
    w.succeed(&lease).await;
}

async fn a_task_cannot_be_finished_twice_by_one_turn(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let lease = w.claim_one().await.lease;
    let task_id = lease.task_id;
    let mut turn = w.turn(run_id).await;
    turn.finished_tasks = vec![finished(&lease), finished(&lease)];
    assert_eq!(w.rejected(turn).await, Rejection::LeaseLost { task_id });
}

async fn a_timer_cannot_be_fired_before_its_time_nor_twice(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.timers = vec![World::timer("t", Duration::from_secs(10))];
    w.committed(turn).await;
    let not_due = |timer_id: &str| Rejection::TimerNotDue {
        timer_id: timer_id.into(),
    };

    w.advance(Duration::from_micros(9_999_999));
    let mut turn = w.turn(run_id).await;
    turn.fired_timers = vec!["t".into()];
    assert_eq!(w.rejected(turn.clone()).await, not_due("t"));

    w.advance(Duration::from_micros(1));
    turn.fired_timers = vec!["unknown".into()];
    assert_eq!(w.rejected(turn.clone()).await, not_due("unknown"));
    turn.fired_timers = vec!["t".into(), "t".into()];
    assert_eq!(w.rejected(turn.clone()).await, not_due("t"));
    turn.fired_timers = vec!["t".into()];
    w.committed(turn).await;
    let mut turn = w.turn(run_id).await;
    turn.fired_timers = vec!["t".into()];
    assert_eq!(w.rejected(turn).await, not_due("t"));
}

fn in_use(what: &'static str, id: &impl ToString) -> Rejection {
    let id = id.to_string();
    Rejection::IdInUse { what, id }
}

/// How a turn is rejected, and what mends it.
type Fault = (Rejection, fn(&mut TurnCommit));

async fn ids_in_use_are_refused(w: &World) {
    let task = w.task("a");
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![task.clone()];
    turn.timers = vec![World::timer("t", Duration::from_secs(1))];
    w.committed(turn).await;

    let mut same_task = w.turn(run_id).await;
    same_task.tasks = vec![w.task("b")];
    same_task.tasks[0].task_id = task.task_id;
    assert_eq!(w.rejected(same_task).await, in_use("task", &task.task_id));
    let mut same_activity = w.turn(run_id).await;
    same_activity.tasks = vec![w.task("b"), w.task("a")];
    assert_eq!(w.rejected(same_activity).await, in_use("activity", &"a"));
    let mut same_timer = w.turn(run_id).await;
    same_timer.timers = vec![World::timer("t", Duration::from_secs(5))];
    assert_eq!(w.rejected(same_timer).await, in_use("timer", &"t"));

    // Ids are unique within their run only.
    let other = w.start().await;
    let mut elsewhere = w.turn(other).await;
    elsewhere.tasks = vec![task];
    elsewhere.timers = vec![World::timer("t", Duration::from_secs(5))];
    w.committed(elsewhere).await;
}

async fn ids_that_the_same_turn_frees_may_be_used_again(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.tasks = vec![w.parallel_task("done"), w.parallel_task("cancelled")];
    turn.tasks[0].lease = true;
    turn.timers = vec![
        World::timer("fired", Duration::ZERO),
        World::timer("cancelled", Duration::from_secs(60)),
    ];
    let committed = w.committed(turn).await;
    let TaskPlace::Leased { lease, .. } = &committed.tasks[0].place else {
        panic!("a lease was asked for: {committed:?}");
    };

    let mut turn = w.turn(run_id).await;
    turn.finished_tasks = vec![finished(lease)];
    turn.cancelled_activities = vec!["cancelled".into()];
    turn.fired_timers = vec!["fired".into()];
    turn.cancelled_timers = vec!["cancelled".into()];
    turn.tasks = vec![w.parallel_task("done"), w.parallel_task("cancelled")];
    turn.timers = vec![
        World::timer("fired", Duration::from_secs(1)),
        World::timer("cancelled", Duration::from_secs(2)),
    ];
    let new: Vec<Uuid> = turn.tasks.iter().map(|task| task.task_id).collect();
    w.committed(turn).await;
    let dump = w.dump(run_id).await;
    let stored: Vec<Uuid> = dump.tasks.iter().map(|task| task.id).collect();
    assert_eq!(stored, new);
    let fire_at: Vec<_> = dump.timers.iter().map(|t| t.fire_at).collect();
    let expected = [2, 1].map(|s| after(w.instant(), Duration::from_secs(s)));
    assert_eq!(fire_at, expected);
}

/// Checks the rejections of a turn while its faults are mended one by one, the graver first.
async fn mend_one_by_one(w: &World, mut turn: TurnCommit, faults: Vec<Fault>) {
    for (rejection, mend) in faults {
        turn.turn_id = w.id();
        assert_eq!(w.rejected(turn.clone()).await, rejection);
        mend(&mut turn);
    }
    w.committed(turn).await;
}

async fn the_first_rule_broken_is_the_answer(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    let queued = w.task("a");
    turn.tasks = vec![queued.clone()];
    turn.timers = vec![World::timer("t", Duration::from_secs(60))];
    w.committed(turn).await;
    w.signal(run_id, "hello").await;
    let lost = TaskLease {
        run_id,
        task_id: w.id(),
        attempt: 1,
        token: w.id(),
    };

    let mut turn = w.turn(run_id).await;
    turn.expected_epoch = 5;
    turn.expected_sequence = 7;
    turn.facts_through = 9;
    turn.finished_tasks = vec![finished(&lost)];
    turn.fired_timers = vec!["t".into()];
    turn.tasks = vec![w.task("new"), w.task("a")];
    turn.tasks[0].task_id = queued.task_id;
    turn.timers = vec![World::timer("t", Duration::from_secs(1))];
    let grave: Vec<Fault> = vec![
        (Rejection::Epoch { found: 0 }, |t| t.expected_epoch = 0),
        (Rejection::Sequence { found: 1 }, |t| {
            t.expected_sequence = 1;
        }),
        (
            Rejection::Facts {
                consumed: 0,
                arrivals: 1,
            },
            |t| t.facts_through = 0,
        ),
    ];
    let of_leases: Vec<Fault> = vec![
        (
            Rejection::LeaseLost {
                task_id: lost.task_id,
            },
            |t| t.finished_tasks.clear(),
        ),
        (
            Rejection::TimerNotDue {
                timer_id: "t".into(),
            },
            |t| t.fired_timers.clear(),
        ),
    ];
    let of_ids: Vec<Fault> = vec![
        (in_use("task", &queued.task_id), |t| drop(t.tasks.remove(0))),
        (in_use("activity", &"a"), |t| t.tasks.clear()),
        (in_use("timer", &"t"), |t| t.timers.clear()),
    ];
    let going_on = [grave.clone(), of_leases.clone(), of_ids].concat();
    mend_one_by_one(w, turn.clone(), going_on).await;

    // The same with an end: a fact it has not taken comes before the lease. The commit above has added an event.
    turn.tasks.clear();
    turn.timers.clear();
    turn.expected_epoch = 0;
    turn.expected_sequence = 2;
    turn.facts_through = 0;
    let unseen: Vec<Fault> = vec![(Rejection::UnseenFacts { arrivals: 1 }, |t| {
        t.facts_through = 1;
    })];
    let ending = [unseen, of_leases].concat();
    mend_one_by_one(w, World::completing(turn), ending).await;
}

async fn the_end_of_the_run_is_answered_before_its_epoch_and_sequence(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    w.complete(run_id).await;
    turn.expected_epoch = 3;
    turn.facts_through = 9;
    let status = WorkflowStatus::Completed;
    assert_eq!(w.rejected(turn).await, Rejection::RunFinished { status });
}
