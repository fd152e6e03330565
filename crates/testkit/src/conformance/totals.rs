//! Totals of what ended: how many, how, how long.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::{Failure, Timestamp};
use everruns_durable::persistence::model::{
    FinishedTask, RollupKind, RollupOutcome, RollupRecord, RunDump, TaskEnd, TaskOutcome,
    WorkflowStatus,
};

use crate::World;
use crate::world::{ACTIVITY, WORKFLOW};

claims! { "totals":
    totals_count_by_hour_type_outcome_and_power_of_two,
    totals_equal_a_recomputation_from_the_runs,
    totals_count_every_end_of_an_activity_once,
    totals_hold_the_wait_for_the_first_attempt,
    totals_are_read_from_an_hour_on,
}

async fn rollups(w: &World, from: Timestamp) -> Vec<RollupRecord> {
    w.store.rollups(from).await.expect("rollups")
}

fn hour_of(instant: Timestamp) -> Timestamp {
    let seconds = instant.as_second();
    Timestamp::from_second(seconds - seconds.rem_euclid(3600)).expect("an hour")
}

async fn totals_count_by_hour_type_outcome_and_power_of_two(w: &World) {
    for micros in [
        0, 999, 1_000, 1_999, 2_000, 3_999, 4_000, 1_023_999, 1_024_000,
    ] {
        w.start_with_tasks(vec![w.parallel_task("a")]).await;
        let claimed = w.claim_one().await;
        w.advance(Duration::from_micros(micros));
        w.succeed(&claimed.lease).await;
    }
    let hour = hour_of(w.instant());
    let expected: Vec<RollupRecord> = [
        (0, 2, 0),
        (1, 2, 2),
        (2, 2, 5),
        (3, 1, 4),
        (10, 1, 1023),
        (11, 1, 1024),
    ]
    .map(|(duration_exp, count, total_ms)| RollupRecord {
        hour,
        kind: RollupKind::Activity,
        name: ACTIVITY.into(),
        outcome: RollupOutcome::Completed,
        duration_exp,
        count,
        total_ms,
        wait_ms: 0,
    })
    .to_vec();
    assert_eq!(rollups(w, Timestamp::UNIX_EPOCH).await, expected);
    assert_eq!(w.everything().await.rollups, expected);
}

fn exponent(millis: i64) -> i16 {
    i16::try_from(64 - millis.leading_zeros()).expect("at most 64")
}

async fn totals_equal_a_recomputation_from_the_runs(w: &World) {
    for i in 0..30_u32 {
        let mut start = w.new_start();
        if i % 2 == 0 {
            start.workflow_type = "other".into();
        }
        let run_id = w.start_one(start).await;
        w.advance(Duration::from_millis(u64::from(i * i * 500)));
        match i % 4 {
            0 => w.complete(run_id).await,
            1 => w.fail_run(run_id).await,
            2 => w.cancel_run(run_id).await,
            _ => drop(w.terminate(run_id, "stop").await),
        }
    }
    let mut totals: BTreeMap<_, (i64, i64)> = BTreeMap::new();
    for RunDump { run, .. } in w.everything().await.runs {
        let ended = run.completed_at.expect("all have ended");
        let millis = (ended.as_microsecond() - run.created_at.as_microsecond()) / 1000;
        let outcome = match run.status {
            WorkflowStatus::Completed => RollupOutcome::Completed,
            WorkflowStatus::Failed => RollupOutcome::Failed,
            _ => RollupOutcome::Cancelled,
        };
        let key = (hour_of(ended), run.workflow_type, outcome, exponent(millis));
        let total = totals.entry(key).or_default();
        *total = (total.0 + 1, total.1 + millis);
    }
    assert!(totals.keys().any(|key| key.0 != hour_of(w.instant())));
    let expected: Vec<RollupRecord> = totals
        .into_iter()
        .map(|(key, (count, total_ms))| RollupRecord {
            hour: key.0,
            kind: RollupKind::Workflow,
            name: key.1,
            outcome: key.2,
            duration_exp: key.3,
            count,
            total_ms,
            wait_ms: 0,
        })
        .collect();
    assert_eq!(rollups(w, Timestamp::UNIX_EPOCH).await, expected);
}

async fn totals_count_every_end_of_an_activity_once(w: &World) {
    let counted = async |outcome| -> i64 {
        let totals = rollups(w, Timestamp::UNIX_EPOCH).await;
        let of = totals
            .iter()
            .filter(|total| total.kind == RollupKind::Activity && total.outcome == outcome);
        of.map(|total| total.count).sum()
    };
    let claimed = async || {
        let run_id = w.start_with_tasks(vec![w.parallel_task("a")]).await;
        (run_id, w.claim_one().await)
    };
    let (_, task) = claimed().await;
    w.fail(&task.lease).await;
    assert_eq!(counted(RollupOutcome::Failed).await, 0, "it is retried");
    let (_, task) = claimed().await;
    let failure = Failure::new("Boom", "").non_retryable();
    w.report(&task.lease, TaskOutcome::Failed { failure }).await;
    assert_eq!(counted(RollupOutcome::Failed).await, 1);
    let (_, task) = claimed().await;
    let reason = "given up".into();
    w.report(&task.lease, TaskOutcome::Cancelled { reason })
        .await;
    assert_eq!(counted(RollupOutcome::Cancelled).await, 1);
    for (end, outcome, count) in [
        (TaskEnd::Completed, RollupOutcome::Completed, 1),
        (TaskEnd::Cancelled, RollupOutcome::Cancelled, 2),
        (
            TaskEnd::Failed(Failure::new("Boom", "")),
            RollupOutcome::Failed,
            2,
        ),
    ] {
        let (run_id, task) = claimed().await;
        let mut turn = w.turn(run_id).await;
        let lease = task.lease;
        turn.finished_tasks = vec![FinishedTask { lease, end }];
        w.committed(turn).await;
        assert_eq!(counted(outcome).await, count);
    }
    let (run_id, _) = claimed().await;
    let mut turn = w.turn(run_id).await;
    turn.cancelled_activities = vec!["a".into()];
    w.committed(turn).await;
    assert_eq!(
        counted(RollupOutcome::Cancelled).await,
        2,
        "given up unrun: no total"
    );
    w.start_with_tasks(vec![w.parallel_task("late")]).await;
    w.advance(Duration::from_secs(300));
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
    assert_eq!(counted(RollupOutcome::Failed).await, 3, "a timeout");
}

async fn totals_hold_the_wait_for_the_first_attempt(w: &World) {
    let waited = async |outcome| -> Vec<i64> {
        let totals = rollups(w, Timestamp::UNIX_EPOCH).await;
        let of = totals.iter().filter(|total| total.outcome == outcome);
        of.map(|total| total.wait_ms).collect()
    };
    w.start_with_tasks(vec![w.parallel_task("a")]).await;
    w.advance(Duration::from_micros(70_999));
    let first = w.claim_one().await;
    w.advance(Duration::from_millis(5));
    w.fail(&first.lease).await;
    w.advance(Duration::from_secs(20));
    assert_eq!(w.fire_due().await.tasks_ready, 1, "another attempt");
    let second = w.claim_one().await;
    w.succeed(&second.lease).await;
    let wait = waited(RollupOutcome::Completed).await;
    assert_eq!(wait, [70], "from the schedule to the first attempt");

    w.start_with_tasks(vec![w.parallel_task("b")]).await;
    w.advance(Duration::from_millis(7));
    let other = w.claim_one().await;
    w.succeed(&other.lease).await;
    let wait = waited(RollupOutcome::Completed).await;
    assert_eq!(wait, [77], "waits of one row add up");

    w.start_with_tasks(vec![w.parallel_task("late")]).await;
    w.advance(Duration::from_secs(300));
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
    let wait = waited(RollupOutcome::Failed).await;
    assert_eq!(wait, [300_000], "it never began");
}

async fn totals_are_read_from_an_hour_on(w: &World) {
    let mut hours = Vec::new();
    for _ in 0..3 {
        let run_id = w.start().await;
        w.complete(run_id).await;
        hours.push(hour_of(w.instant()));
        w.advance(Duration::from_secs(3600));
    }
    for (skipped, from) in hours.iter().enumerate() {
        let read: Vec<Timestamp> = rollups(w, *from).await.iter().map(|r| r.hour).collect();
        assert_eq!(read, hours[skipped..]);
    }
    let later = rollups(w, w.instant()).await;
    assert_eq!(later, []);
    let names: Vec<String> = rollups(w, hours[0])
        .await
        .into_iter()
        .map(|r| r.name)
        .collect();
    assert_eq!(names, [WORKFLOW; 3]);
}
