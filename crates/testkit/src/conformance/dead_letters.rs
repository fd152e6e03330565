//! Dead letters: one for each activity that failed for good; lists and purges.

use std::time::Duration;

use durable_core::{AttemptRecord, ExhaustedPolicy, Failure, RetryPolicy, WorkflowEvent};
use everruns_durable::persistence::model::{
    ClaimedTask, DeadLetter, DeadLetterDecision, DeadLetterState, DecisionOutcome, DlqFilter,
    FinishOutcome, FinishedTask, NewTask, Page, TaskEnd, TaskOutcome, TaskStatus, after,
};
use uuid::Uuid;

use crate::World;
use crate::world::{ACTIVITY, WORKER, json};

claims! { "dead_letters":
    the_final_failure_leaves_one_whole_letter,
    a_failure_that_is_not_retryable_leaves_a_letter_at_once,
    no_letter_while_attempts_are_left_and_none_for_a_success,
    a_task_failed_by_a_turn_leaves_a_letter_that_is_not_parked,
    a_letter_keeps_every_attempt,
    a_parked_task_keeps_its_place_and_the_run_hears_nothing,
    letters_are_listed_newest_death_first_by_every_filter,
    continuing_after_a_letter_visits_every_one_that_stays,
    purging_leaves_the_letters_a_run_waits_for,
    purging_is_bounded_and_takes_the_newest_first,
}

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn boom() -> Failure {
    Failure::new("Boom", "it broke")
}

fn last_chance(w: &World, activity_id: &str) -> NewTask {
    let mut task = w.task(activity_id);
    task.options.retry_policy = RetryPolicy::never();
    task
}

pub(super) fn parking(w: &World, activity_id: &str) -> NewTask {
    let mut task = last_chance(w, activity_id);
    task.options.on_exhausted = ExhaustedPolicy::Park;
    task
}

pub(super) fn failed(attempt: u32, claimed: &ClaimedTask) -> AttemptRecord {
    AttemptRecord {
        attempt,
        worker_id: WORKER.into(),
        started_at: Some(claimed.started_at),
        failure: boom(),
        omitted_before: 0,
    }
}

/// A run whose one task failed for good; the letter's id is the task's.
pub(super) async fn dead(w: &World) -> (Uuid, Uuid) {
    let task = last_chance(w, "a");
    let task_id = task.task_id;
    let run_id = w.start_with_tasks(vec![task]).await;
    let claimed = w.claim_one().await;
    let outcome = w.fail(&claimed.lease).await;
    assert!(matches!(outcome, FinishOutcome::Recorded { .. }));
    (run_id, task_id)
}

/// A run that waits for its letter to be decided.
pub(super) async fn parked(w: &World) -> (Uuid, Uuid, ClaimedTask) {
    let task = parking(w, "a");
    let task_id = task.task_id;
    let run_id = w.start_with_tasks(vec![task]).await;
    let claimed = w.claim_one().await;
    assert_eq!(w.fail(&claimed.lease).await, FinishOutcome::Parked);
    (run_id, task_id, claimed)
}

pub(super) async fn decide(
    w: &World,
    run_id: Uuid,
    id: Uuid,
    what: DeadLetterDecision,
) -> DecisionOutcome {
    w.store
        .decide_dead_letter(run_id, id, what, w.now())
        .await
        .expect("decide_dead_letter")
}

pub(super) const REQUEUE: DeadLetterDecision = DeadLetterDecision::Requeue;
pub(super) const DISCARD: DeadLetterDecision = DeadLetterDecision::Discard;

async fn the_final_failure_leaves_one_whole_letter(w: &World) {
    let mut task = last_chance(w, "a");
    task.input = json("[9007199254740993]");
    task.options.priority = 3;
    let run_id = w.start_with_tasks(vec![task.clone()]).await;
    let claimed = w.claim_one().await;
    w.advance(SECOND);
    let outcome = w.fail(&claimed.lease).await;
    assert_eq!(
        outcome,
        FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false
        }
    );
    let expected = DeadLetter {
        id: task.task_id,
        run_id,
        activity_id: "a".into(),
        activity_type: ACTIVITY.into(),
        input: task.input,
        options: task.options,
        epoch: 0,
        attempts: 1,
        last_error: boom(),
        error_history: vec![failed(1, &claimed)],
        parked: false,
        state: DeadLetterState::Dead,
        dead_at: w.instant(),
        requeued_at: None,
        requeue_count: 0,
    };
    assert_eq!(w.letters().await, [expected]);
    assert_eq!(w.queued(run_id, "a").await, None);
    let waiting = w.waiting(run_id).await.facts.remove(0);
    let event = WorkflowEvent::ActivityFailed {
        activity_id: "a".into(),
        error: boom(),
        will_retry: false,
    };
    assert_eq!((waiting.event, waiting.attempts), (event, vec![]));
}

async fn a_failure_that_is_not_retryable_leaves_a_letter_at_once(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let claimed = w.claim_one().await;
    let failure = boom().non_retryable();
    let outcome = TaskOutcome::Failed {
        failure: failure.clone(),
    };
    assert_eq!(
        w.report(&claimed.lease, outcome).await,
        FinishOutcome::Recorded {
            arrival: 1,
            line_moved: false
        }
    );
    let letters = w.letters().await;
    assert_eq!((letters.len(), letters[0].attempts), (1, 1));
    assert_eq!(letters[0].last_error, failure);
}

async fn no_letter_while_attempts_are_left_and_none_for_a_success(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    for delay in [1, 2] {
        let claimed = w.claim_one().await;
        let visible_at = after(w.instant(), SECOND * delay);
        let outcome = w.fail(&claimed.lease).await;
        assert_eq!(outcome, FinishOutcome::Retrying { visible_at });
        assert_eq!(w.letters().await, []);
        w.advance(SECOND * delay);
        w.fire_due().await;
    }
    let claimed = w.claim_one().await;
    w.succeed(&claimed.lease).await;
    assert_eq!(w.letters().await, []);
}

async fn a_task_failed_by_a_turn_leaves_a_letter_that_is_not_parked(w: &World) {
    let run_id = w.start_with_tasks(vec![parking(w, "a")]).await;
    let claimed = w.claim_one().await;
    let mut turn = w.turn(run_id).await;
    turn.finished_tasks.push(FinishedTask {
        lease: claimed.lease.clone(),
        end: TaskEnd::Failed(boom()),
    });
    w.committed(turn).await;
    let letters = w.letters().await;
    assert_eq!((letters.len(), letters[0].parked), (1, false));
    assert_eq!(letters[0].error_history, [failed(1, &claimed)]);
    assert_eq!(w.queued(run_id, "a").await, None);
}

async fn a_letter_keeps_every_attempt(w: &World) {
    w.start_with_tasks(vec![w.task("a")]).await;
    let mut attempts = Vec::new();
    for attempt in 1..=3 {
        let claimed = w.claim_one().await;
        attempts.push(failed(attempt, &claimed));
        w.advance(SECOND);
        w.fail(&claimed.lease).await;
        w.advance(SECOND * 10);
        w.fire_due().await;
    }
    let letter = w.letters().await.remove(0);
    assert_eq!((letter.attempts, letter.error_history), (3, attempts));
}

async fn a_parked_task_keeps_its_place_and_the_run_hears_nothing(w: &World) {
    let first = parking(w, "a");
    let run_id = w.start_with_tasks(vec![first, w.task("b")]).await;
    let claimed = w.claim_one().await;
    assert_eq!(w.fail(&claimed.lease).await, FinishOutcome::Parked);
    assert_eq!(w.waiting(run_id).await.facts, []);
    assert_eq!(w.run(run_id).await.ready_at, None);
    let dead = w.queued(run_id, "a").await.expect("it stays");
    assert_eq!(dead.status, TaskStatus::Dead);
    assert_eq!((dead.claimed_by, dead.claimed_at), (None, None));
    assert_eq!((dead.token, dead.lease_expires_at), (None, None));
    assert_eq!(dead.attempts, [failed(1, &claimed)]);
    let letter = w.letters().await.remove(0);
    assert!(letter.parked);
    assert_eq!(letter.state, DeadLetterState::Dead);
    w.advance(SECOND * 3600);
    assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    assert_eq!(w.claim(10).await, [], "the line waits behind it");
}

async fn ids(w: &World, filter: DlqFilter, page: Page) -> Vec<Uuid> {
    let letters = w.store.list_dlq(filter, page).await.expect("list_dlq");
    letters.into_iter().map(|letter| letter.id).collect()
}

async fn letters_are_listed_newest_death_first_by_every_filter(w: &World) {
    let (_, oldest) = dead(w).await;
    w.advance(SECOND);
    let between = w.instant();
    let mut other = last_chance(w, "a");
    other.activity_type = "other".into();
    let other_id = other.task_id;
    let other_run = w.start_with_tasks(vec![other]).await;
    let mut claim = w.new_claim(1);
    claim.activity_types = vec!["other".into()];
    let claimed = w.store.claim_tasks(claim).await.expect("claim").remove(0);
    w.fail(&claimed.lease).await;
    let (run_3, newest) = dead(w).await;
    w.store
        .decide_dead_letter(run_3, newest, DISCARD, w.now())
        .await
        .expect("decided");

    let all = DlqFilter::default;
    let page = Page::default();
    let newest_first = [other_id, newest, oldest];
    assert_eq!(ids(w, all(), page).await, newest_first, "ties by id");
    let by_id = |id| DlqFilter {
        id: Some(id),
        ..all()
    };
    assert_eq!(
        ids(w, by_id(newest), page).await,
        [newest],
        "decided or not"
    );
    assert_eq!(ids(w, by_id(w.id()), page).await, Vec::<Uuid>::new());
    let by_id_of_another_run = DlqFilter {
        run_id: Some(other_run),
        ..by_id(oldest)
    };
    assert_eq!(ids(w, by_id_of_another_run, page).await, Vec::<Uuid>::new());
    let by_run = DlqFilter {
        run_id: Some(other_run),
        ..all()
    };
    assert_eq!(ids(w, by_run, page).await, [other_id]);
    let by_type = DlqFilter {
        activity_type: Some(ACTIVITY.into()),
        ..all()
    };
    assert_eq!(ids(w, by_type.clone(), page).await, [newest, oldest]);
    let by_state = DlqFilter {
        state: Some(DeadLetterState::Dead),
        ..all()
    };
    assert_eq!(ids(w, by_state, page).await, [other_id, oldest]);
    let before = DlqFilter {
        dead_before: Some(between),
        ..all()
    };
    assert_eq!(ids(w, before.clone(), page).await, [oldest]);
    let combined = DlqFilter {
        state: Some(DeadLetterState::Discarded),
        dead_before: Some(between),
        ..by_type
    };
    assert_eq!(ids(w, combined, page).await, Vec::<Uuid>::new());
    let second = Page {
        limit: 1,
        offset: 1,
    };
    assert_eq!(ids(w, all(), second).await, [newest]);
}

async fn continuing_after_a_letter_visits_every_one_that_stays(w: &World) {
    for at in 0..7 {
        dead(w).await;
        if at % 3 == 2 {
            w.advance(SECOND);
        }
    }
    let undecided = DlqFilter {
        state: Some(DeadLetterState::Dead),
        ..DlqFilter::default()
    };
    let expected = ids(w, undecided.clone(), Page::default()).await;
    assert_eq!(expected.len(), 7);
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let filter = DlqFilter {
            after,
            ..undecided.clone()
        };
        let page = w.store.list_dlq(filter, Page::first(2)).await;
        let page = page.expect("list_dlq");
        let Some(last) = page.last() else {
            break;
        };
        after = Some(last.rank());
        seen.extend(page.iter().map(|letter| letter.id));
        for letter in page {
            decide(w, letter.run_id, letter.id, DISCARD).await;
        }
    }
    assert_eq!(seen, expected, "decisions do not shift the pages");
}

async fn purging_leaves_the_letters_a_run_waits_for(w: &World) {
    let (_, seen) = dead(w).await;
    let (_, waited_for, _) = parked(w).await;
    let (requeued_run, requeued, _) = parked(w).await;
    let (ended, orphan, _) = parked(w).await;
    w.terminate(ended, "stop").await;
    decide(w, requeued_run, requeued, REQUEUE).await;
    let purged = w.store.purge_dlq(DlqFilter::default(), 100).await;
    assert_eq!(purged.expect("purge_dlq"), 3);
    assert_eq!(
        ids(w, DlqFilter::default(), Page::default()).await,
        [waited_for],
        "{seen}, {requeued} and {orphan} are gone"
    );
    let purged = w.store.purge_dlq(DlqFilter::default(), 100).await;
    assert_eq!(purged.expect("purge_dlq"), 0);
    assert!(w.queued(requeued_run, "a").await.is_some());
}

async fn purging_is_bounded_and_takes_the_newest_first(w: &World) {
    let mut letters = Vec::new();
    for _ in 0..4 {
        letters.push(dead(w).await.1);
        w.advance(SECOND);
    }
    let purge = |filter, max| w.store.purge_dlq(filter, max);
    assert_eq!(purge(DlqFilter::default(), 1).await.expect("purge"), 1);
    let all = DlqFilter::default();
    let left = ids(w, all, Page::default()).await;
    assert_eq!(left, [letters[2], letters[1], letters[0]]);
    let none = DlqFilter {
        activity_type: Some("other".into()),
        ..DlqFilter::default()
    };
    assert_eq!(purge(none, 10).await.expect("purge"), 0);
    assert_eq!(purge(DlqFilter::default(), 10).await.expect("purge"), 3);
}
