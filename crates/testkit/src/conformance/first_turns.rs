//! A run is started with its first turn: one commit, with what a start and a turn of their own would leave.

use std::time::Duration;

use durable_core::WorkflowEvent;
use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::model::{
    CountLimit, FinishedTask, OwnerRequest, Rejection, RunFilter, StartOutcome, StartRejection,
    StartRun, TaskEnd, TaskPlace, TurnCommit, WorkflowStatus,
};

use crate::World;
use crate::world::{LEASE, WORKER, json};

claims! { "first_turns":
    a_run_and_its_first_turn_are_one_commit,
    a_run_may_begin_and_end_in_one_commit,
    a_first_turn_leaves_what_a_start_and_a_turn_leave,
    a_first_turn_that_is_repeated_writes_nothing,
    a_first_turn_of_a_run_that_was_started_meanwhile_is_its_first_turn,
    a_first_turn_of_a_run_that_has_begun_is_a_conflict,
    a_first_turn_that_is_refused_leaves_the_run_started,
    a_first_turn_starts_no_deleted_run_and_no_other_one,
    only_a_plain_start_comes_with_a_turn,
}

/// The first turn of a run that it starts, which queues these activities.
fn first_turn(w: &World, start: StartRun, activities: &[&str]) -> TurnCommit {
    let mut turn = w.turn_of_new(&start);
    turn.events = vec![WorkflowEvent::WorkflowStarted {
        input: start.input.clone(),
    }];
    turn.tasks = activities.iter().map(|name| w.task(name)).collect();
    turn.owner = Some(OwnerRequest {
        worker_id: WORKER.into(),
        lease: LEASE,
    });
    turn.start = Some(Box::new(start));
    turn
}

async fn a_run_and_its_first_turn_are_one_commit(w: &World) {
    let mut start = w.new_start();
    start.memo = json("[1]");
    start.attributes.insert("tier".into(), "gold".into());
    start.execution_timeout = Some(Duration::from_secs(60));
    let run_id = start.run_id;
    let mut turn = first_turn(w, start, &["a", "b"]);
    turn.tasks[0].lease = true;
    let committed = w.committed(turn.clone()).await;
    assert_eq!((committed.sequence, committed.repeated), (1, false));
    let place = &committed.tasks[0].place;
    assert!(matches!(place, TaskPlace::Leased { .. }), "{place:?}");
    assert_eq!(
        committed.tasks[1].place,
        TaskPlace::Waiting,
        "behind the first"
    );
    let run = w.run(run_id).await;
    assert_eq!(run.status, WorkflowStatus::Running);
    assert_eq!((run.sequence, run.last_turn), (1, Some(turn.turn_id)));
    assert_eq!((run.memo.clone(), run.ready_at), (json("[1]"), None));
    assert_eq!(
        run.owner.map(|owner| owner.worker_id).as_deref(),
        Some(WORKER)
    );
    assert!(run.execution_deadline.is_some() && run.started_at.is_some());
    let gold = RunFilter {
        attributes: [("tier".into(), "gold".into())].into(),
        ..RunFilter::default()
    };
    let count = w.store.count_runs(gold, CountLimit::Capped).await;
    assert_eq!(count.expect("count_runs").count, 1);
    // The line is the run's: what stands in it is counted.
    let TaskPlace::Leased { lease, .. } = committed.tasks[0].place.clone() else {
        unreachable!("seen above");
    };
    let mut next = w.turn(run_id).await;
    next.finished_tasks = vec![FinishedTask {
        lease,
        end: TaskEnd::Completed,
    }];
    assert!(w.committed(next).await.line_moved);
}

async fn a_run_may_begin_and_end_in_one_commit(w: &World) {
    let start = w.new_start();
    let run_id = start.run_id;
    w.committed(World::completing(first_turn(w, start, &[])))
        .await;
    let run = w.run(run_id).await;
    assert_eq!(run.status, WorkflowStatus::Completed);
    assert_eq!((run.sequence, run.result), (2, json("\"done\"")));
    assert!(run.completed_at.is_some());
}

async fn a_first_turn_leaves_what_a_start_and_a_turn_leave(w: &World) {
    let (one, other) = (w.new_start(), w.new_start());
    let mut apart = first_turn(w, other.clone(), &["a"]);
    w.committed(first_turn(w, one.clone(), &["a"])).await;
    apart.start = None;
    w.start_one(other.clone()).await;
    w.committed(apart).await;
    let mut dump = w.everything().await;
    dump.runs.sort_by_key(|run| run.run.id != one.run_id);
    let [one, other] = &mut dump.runs[..] else {
        panic!("two runs, not {}", dump.runs.len());
    };
    other.run.id = one.run.id;
    other.run.last_turn = one.run.last_turn;
    for (task, like) in other.tasks.iter_mut().zip(&one.tasks) {
        (task.id, task.run_id) = (like.id, like.run_id);
    }
    for (task, like) in other.derived.tasks.iter_mut().zip(&one.derived.tasks) {
        task.id = like.id;
    }
    assert_eq!(one, other);
}

async fn a_first_turn_that_is_repeated_writes_nothing(w: &World) {
    let turn = first_turn(w, w.new_start(), &["a"]);
    let first = w.committed(turn.clone()).await;
    let before = w.everything().await;
    w.advance(Duration::from_secs(1));
    let second = w.committed(turn).await;
    assert_eq!((second.repeated, second.tasks), (true, first.tasks));
    assert_eq!(w.everything().await, before);
}

async fn a_first_turn_of_a_run_that_was_started_meanwhile_is_its_first_turn(w: &World) {
    let start = w.new_start();
    let run_id = w.start_one(start.clone()).await;
    w.committed(first_turn(w, start, &["a"])).await;
    assert_eq!(w.run(run_id).await.sequence, 1);
}

async fn a_first_turn_of_a_run_that_has_begun_is_a_conflict(w: &World) {
    let start = w.new_start();
    w.committed(first_turn(w, start.clone(), &["a"])).await;
    let before = w.everything().await;
    let other = first_turn(w, start.clone(), &["a"]);
    assert_eq!(w.rejected(other).await, Rejection::Sequence { found: 1 });
    let run_id = start.run_id;
    assert_eq!(w.try_start(start).await, StartOutcome::Existing { run_id });
    assert_eq!(w.everything().await, before);
}

async fn a_first_turn_that_is_refused_leaves_the_run_started(w: &World) {
    let start = w.new_start();
    let run_id = start.run_id;
    let mut turn = first_turn(w, start, &[]);
    turn.fired_timers = vec!["t".into()];
    let why = w.rejected(turn).await;
    assert!(matches!(why, Rejection::TimerNotDue { .. }), "{why}");
    let run = w.run(run_id).await;
    assert_eq!((run.status, run.sequence), (WorkflowStatus::Pending, 0));
    assert!(run.ready_at.is_some(), "its turn is due");
}

async fn a_first_turn_starts_no_deleted_run_and_no_other_one(w: &World) {
    let start = w.new_start();
    let run_id = w.start_one(start.clone()).await;
    let mut other = start.clone();
    other.input = json("\"other\"");
    let conflict = Rejection::NotStarted(StartRejection::KeyConflict { run_id });
    assert_eq!(w.rejected(first_turn(w, other, &[])).await, conflict);
    w.complete(run_id).await;
    assert_eq!(w.purge().await, 1);
    let deleted = Rejection::NotStarted(StartRejection::Deleted { run_id });
    assert_eq!(w.rejected(first_turn(w, start, &[])).await, deleted);
    assert_eq!(w.everything().await.runs, []);
}

async fn only_a_plain_start_comes_with_a_turn(w: &World) {
    let breakers: [fn(&World, &mut TurnCommit, &mut StartRun); 7] = [
        |_, _, start| start.idempotency_key = Some("key".into()),
        |_, _, start| start.business_id = Some("order-1".into()),
        |w, _, start| start.signals = vec![w.new_signal("hello")],
        |w, _, start| start.updates = vec![w.new_update("change")],
        |w, _, start| start.run_id = w.id(),
        |_, turn, _| turn.expected_sequence = 1,
        |_, turn, _| turn.facts_through = 1,
    ];
    for breaker in breakers {
        let mut start = w.new_start();
        let mut turn = first_turn(w, start.clone(), &[]);
        breaker(w, &mut turn, &mut start);
        turn.start = Some(Box::new(start));
        let answer = w.store.commit_turns(vec![turn], w.now()).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    }
    assert_eq!(w.everything().await.runs, []);
}
