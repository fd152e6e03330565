//! What operators decide about dead letters.

use durable_core::WorkflowEvent;
use everruns_durable::persistence::model::{
    DeadLetter, DeadLetterDecision, DeadLetterState, DecisionOutcome, Fact, FinishOutcome, Next,
    TaskStatus, TurnCommit, after,
};
use uuid::Uuid;

use super::dead_letters::{DISCARD, REQUEUE, SECOND, boom, dead, decide, failed, parked, parking};
use crate::World;
use crate::world::{at_once, json};

claims! { "decisions":
    requeueing_begins_attempts_and_deliveries_anew,
    requeueing_gives_the_whole_time_anew,
    a_requeued_task_keeps_its_place_in_the_line,
    a_task_that_died_in_line_is_requeued_in_line,
    a_task_that_dies_again_still_has_one_letter,
    completing_by_hand_is_a_result_to_the_run,
    discarding_is_a_failure_to_the_run,
    a_decision_is_made_once,
    sixteen_decisions_at_once_have_one_winner,
    a_decision_about_an_unknown_letter_is_not_found,
    a_letter_whose_run_saw_the_failure_needs_a_reset,
    a_letter_of_a_run_that_failed_needs_a_reset,
    a_letter_of_a_run_that_completed_or_was_cancelled_is_too_late,
    a_parked_letter_of_a_run_that_ended_is_too_late,
    a_letter_that_is_not_parked_can_always_be_discarded,
    a_decision_that_arrives_while_a_completing_turn_is_prepared_is_not_lost,
    a_reset_leaves_letters_that_nobody_waits_for,
    a_reset_puts_the_letters_of_what_is_tried_again_back,
    only_a_reset_puts_letters_back,
    decisions_count_in_no_totals,
}

fn complete() -> DeadLetterDecision {
    DeadLetterDecision::Complete {
        result: json("\"by hand\""),
    }
}

async fn letter(w: &World, id: Uuid) -> DeadLetter {
    let letters = w.everything().await.dead_letters;
    letters
        .into_iter()
        .find(|letter| letter.id == id)
        .expect("the letter exists")
}

async fn requeueing_begins_attempts_and_deliveries_anew(w: &World) {
    let (run_id, id, first) = parked(w).await;
    let before = w.queued(run_id, "a").await.expect("parked");
    w.advance(SECOND);
    assert_eq!(decide(w, run_id, id, REQUEUE).await, DecisionOutcome::Done);
    let mut expected = before;
    expected.status = TaskStatus::Pending;
    expected.attempt = 0;
    expected.deliveries = 0;
    expected.visible_at = w.instant();
    expected.requeue_count = 1;
    assert_eq!(w.queued(run_id, "a").await, Some(expected));
    let letter = letter(w, id).await;
    assert_eq!(letter.state, DeadLetterState::Requeued);
    assert_eq!((letter.requeued_at, letter.requeue_count), (w.now(), 1));
    let again = w.claim_one().await;
    assert_eq!((again.lease.attempt, again.deliveries), (1, 1));
    assert_eq!(again.attempts, [failed(1, &first)]);
    w.succeed(&again.lease).await;
    assert_eq!(w.waiting(run_id).await.facts.len(), 1);
}

async fn requeueing_gives_the_whole_time_anew(w: &World) {
    let mut task = parking(w, "a");
    task.options.schedule_to_close_timeout = Some(SECOND * 30);
    let id = task.task_id;
    let run_id = w.start_with_tasks(vec![task]).await;
    let claimed = w.claim_one().await;
    w.fail(&claimed.lease).await;
    w.advance(SECOND * 100);
    assert_eq!(w.fire_due().await.tasks_timed_out, 0);
    decide(w, run_id, id, REQUEUE).await;
    let deadline = after(w.instant(), SECOND * 30);
    let task = w.queued(run_id, "a").await.expect("queued");
    assert_eq!(task.close_deadline, Some(deadline));
    assert_eq!(w.fire_due().await.next_due, Some(deadline));
}

async fn a_requeued_task_keeps_its_place_in_the_line(w: &World) {
    let first = parking(w, "a");
    let id = first.task_id;
    let run_id = w.start_with_tasks(vec![first, w.task("b")]).await;
    let claimed = w.claim_one().await;
    w.fail(&claimed.lease).await;
    w.queue(run_id, vec![w.task("c")]).await;
    decide(w, run_id, id, REQUEUE).await;
    for activity_id in ["a", "b", "c"] {
        let claimed = w.claim(10).await;
        assert_eq!(claimed.len(), 1, "one at a time");
        assert_eq!(claimed[0].activity_id, activity_id);
        w.succeed(&claimed[0].lease).await;
    }
}

async fn a_task_that_died_in_line_is_requeued_in_line(w: &World) {
    let mut second = parking(w, "b");
    second.options.schedule_to_close_timeout = Some(SECOND * 5);
    let id = second.task_id;
    let run_id = w.start_with_tasks(vec![w.task("a"), second]).await;
    let first = w.claim_one().await;
    w.advance(SECOND * 5);
    assert_eq!(w.fire_due().await.tasks_timed_out, 1);
    assert_eq!(decide(w, run_id, id, REQUEUE).await, DecisionOutcome::Done);
    let task = w.queued(run_id, "b").await.expect("queued");
    assert_eq!(task.status, TaskStatus::InLine);
    w.succeed(&first.lease).await;
    assert_eq!(w.claim_one().await.activity_id, "b");
}

async fn a_task_that_dies_again_still_has_one_letter(w: &World) {
    let (run_id, id, first) = parked(w).await;
    w.advance(SECOND);
    decide(w, run_id, id, REQUEUE).await;
    let requeued_at = w.now();
    let second = w.claim_one().await;
    w.advance(SECOND);
    assert_eq!(w.fail(&second.lease).await, FinishOutcome::Parked);
    let letters = w.letters().await;
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!(letter.state, DeadLetterState::Dead);
    assert_eq!((letter.requeue_count, letter.requeued_at), (1, requeued_at));
    assert_eq!((Some(letter.dead_at), letter.parked), (w.now(), true));
    let both = [failed(1, &first), failed(1, &second)];
    assert_eq!(letter.error_history, both);
    assert_eq!(decide(w, run_id, id, REQUEUE).await, DecisionOutcome::Done);
    assert_eq!(w.letters().await[0].requeue_count, 2);
}

async fn completing_by_hand_is_a_result_to_the_run(w: &World) {
    let first = parking(w, "a");
    let id = first.task_id;
    let run_id = w.start_with_tasks(vec![first, w.task("b")]).await;
    let claimed = w.claim_one().await;
    w.fail(&claimed.lease).await;
    w.advance(SECOND);
    let outcome = decide(w, run_id, id, complete()).await;
    assert_eq!(outcome, DecisionOutcome::Done);
    let fact = Fact {
        arrival: 1,
        event: WorkflowEvent::ActivityCompleted {
            activity_id: "a".into(),
            result: json("\"by hand\""),
        },
        attempts: vec![failed(1, &claimed)],
        last_attempt: None,
        arrived_at: w.instant(),
    };
    let turn = w.waiting(run_id).await;
    assert_eq!((turn.facts, turn.run.ready_at), (vec![fact], w.now()));
    assert_eq!(w.queued(run_id, "a").await, None);
    assert_eq!(letter(w, id).await.state, DeadLetterState::Completed);
    assert_eq!(w.claim_one().await.activity_id, "b", "the line moves up");
}

async fn discarding_is_a_failure_to_the_run(w: &World) {
    let first = parking(w, "a");
    let id = first.task_id;
    let run_id = w.start_with_tasks(vec![first, w.task("b")]).await;
    let claimed = w.claim_one().await;
    w.fail(&claimed.lease).await;
    assert_eq!(decide(w, run_id, id, DISCARD).await, DecisionOutcome::Done);
    let fact = w.waiting(run_id).await.facts.remove(0);
    let event = WorkflowEvent::ActivityFailed {
        activity_id: "a".into(),
        error: boom(),
        will_retry: false,
    };
    assert_eq!(fact.event, event);
    assert_eq!(fact.attempts, [failed(1, &claimed)]);
    assert_eq!(w.queued(run_id, "a").await, None);
    assert_eq!(letter(w, id).await.state, DeadLetterState::Discarded);
    assert_eq!(w.claim_one().await.activity_id, "b", "the line moves up");
}

async fn a_decision_is_made_once(w: &World) {
    for (decision, state) in [
        (REQUEUE, DeadLetterState::Requeued),
        (complete(), DeadLetterState::Completed),
        (DISCARD, DeadLetterState::Discarded),
    ] {
        let (run_id, id, _) = parked(w).await;
        let outcome = decide(w, run_id, id, decision).await;
        assert_eq!(outcome, DecisionOutcome::Done);
        let before = w.everything().await;
        for again in [REQUEUE, complete(), DISCARD] {
            let outcome = decide(w, run_id, id, again).await;
            assert_eq!(outcome, DecisionOutcome::AlreadyDecided(state));
        }
        assert_eq!(w.everything().await, before);
        w.terminate(run_id, "done").await;
    }
}

async fn sixteen_decisions_at_once_have_one_winner(w: &World) {
    let (run_id, id, _) = parked(w).await;
    let now = w.now();
    let jobs = (0..16)
        .map(|i| {
            let store = w.store.clone();
            let decision = [REQUEUE, complete(), DISCARD, REQUEUE][i % 4].clone();
            async move {
                let decided = store.decide_dead_letter(run_id, id, decision, now).await;
                decided.expect("decide_dead_letter")
            }
        })
        .collect();
    let outcomes = at_once(jobs).await;
    let state = letter(w, id).await.state;
    assert_ne!(state, DeadLetterState::Dead);
    let done = outcomes.iter().filter(|o| **o == DecisionOutcome::Done);
    assert_eq!(done.count(), 1);
    let too_late = DecisionOutcome::AlreadyDecided(state);
    assert_eq!(outcomes.iter().filter(|o| **o == too_late).count(), 15);
    let queued = w.queued(run_id, "a").await.is_some();
    assert_eq!(
        (queued, w.waiting(run_id).await.facts.len()),
        match state {
            DeadLetterState::Requeued => (true, 0),
            _ => (false, 1),
        }
    );
}

async fn a_decision_about_an_unknown_letter_is_not_found(w: &World) {
    let run_id = w.start().await;
    for decision in [REQUEUE, complete(), DISCARD] {
        let outcome = decide(w, run_id, w.id(), decision).await;
        assert_eq!(outcome, DecisionOutcome::NotFound);
    }
}

async fn a_letter_whose_run_saw_the_failure_needs_a_reset(w: &World) {
    let (run_id, id) = dead(w).await;
    let before = w.everything().await;
    for decision in [REQUEUE, complete()] {
        let outcome = decide(w, run_id, id, decision).await;
        assert_eq!(outcome, DecisionOutcome::NeedsReset { run_id });
    }
    assert_eq!(w.everything().await, before);
}

async fn a_letter_of_a_run_that_failed_needs_a_reset(w: &World) {
    let (run_id, id) = dead(w).await;
    let turn = World::failing(w.turn(run_id).await, boom());
    w.committed(turn).await;
    for decision in [REQUEUE, complete()] {
        let outcome = decide(w, run_id, id, decision).await;
        assert_eq!(outcome, DecisionOutcome::NeedsReset { run_id });
    }
    assert_eq!(letter(w, id).await.state, DeadLetterState::Dead);
}

async fn a_letter_of_a_run_that_completed_or_was_cancelled_is_too_late(w: &World) {
    let (completed, letter_1) = dead(w).await;
    w.complete(completed).await;
    let (cancelled, letter_2) = dead(w).await;
    let turn = World::cancelling(w.turn(cancelled).await);
    w.committed(turn).await;
    for (run_id, id) in [(completed, letter_1), (cancelled, letter_2)] {
        for decision in [REQUEUE, complete()] {
            let outcome = decide(w, run_id, id, decision).await;
            assert_eq!(outcome, DecisionOutcome::RunFinished);
        }
    }
    assert_eq!(w.letters().await.len(), 2, "letters outlive the run's end");
}

async fn a_parked_letter_of_a_run_that_ended_is_too_late(w: &World) {
    let (run_id, id, _) = parked(w).await;
    w.terminate(run_id, "stop").await;
    assert_eq!(w.queued(run_id, "a").await, None);
    let before = w.everything().await;
    for decision in [REQUEUE, complete(), DISCARD] {
        let outcome = decide(w, run_id, id, decision).await;
        assert_eq!(outcome, DecisionOutcome::RunFinished);
    }
    assert_eq!(w.everything().await, before);
}

async fn a_letter_that_is_not_parked_can_always_be_discarded(w: &World) {
    let (running, letter_1) = dead(w).await;
    let (completed, letter_2) = dead(w).await;
    w.complete(completed).await;
    for (run_id, id) in [(running, letter_1), (completed, letter_2)] {
        let before = w.dump(run_id).await;
        assert_eq!(decide(w, run_id, id, DISCARD).await, DecisionOutcome::Done);
        assert_eq!(letter(w, id).await.state, DeadLetterState::Discarded);
        assert_eq!(w.dump(run_id).await, before, "the run hears nothing");
    }
}

async fn a_decision_that_arrives_while_a_completing_turn_is_prepared_is_not_lost(w: &World) {
    let (run_id, id, _) = parked(w).await;
    let unaware = World::completing(w.turn(run_id).await);
    decide(w, run_id, id, complete()).await;
    w.rejected(unaware).await;
    assert_eq!(w.waiting(run_id).await.facts.len(), 1);
}

async fn resetting(w: &World, run_id: Uuid) -> TurnCommit {
    let mut turn = w.turn(run_id).await;
    turn.events = vec![WorkflowEvent::WorkflowReset {
        to_sequence: 1,
        epoch: 1,
        reason: "try again".into(),
    }];
    turn.next = Next::Reset { to_sequence: 1 };
    turn
}

async fn a_reset_leaves_letters_that_nobody_waits_for(w: &World) {
    let (run_id, id, _) = parked(w).await;
    w.committed(resetting(w, run_id).await).await;
    assert_eq!(w.queued(run_id, "a").await, None);
    let before = w.everything().await;
    for decision in [REQUEUE, complete(), DISCARD] {
        let outcome = decide(w, run_id, id, decision).await;
        assert_eq!(outcome, DecisionOutcome::NotAwaited);
    }
    assert_eq!(w.everything().await, before);
    w.terminate(run_id, "stop").await;
    let outcome = decide(w, run_id, id, REQUEUE).await;
    assert_eq!(outcome, DecisionOutcome::RunFinished);
}

async fn only_a_reset_puts_letters_back(w: &World) {
    let (run_id, id, _) = parked(w).await;
    let before = w.everything().await;
    let mut turn = w.turn(run_id).await;
    turn.requeued_letters = vec![id];
    let refused = w.store.commit_turns(vec![turn], w.now()).await;
    assert!(refused.expect_err("refused").is_refusal());
    assert_eq!(w.everything().await, before);
}

async fn a_reset_puts_the_letters_of_what_is_tried_again_back(w: &World) {
    let (run_id, seen) = dead(w).await;
    let (other, waiting, _) = parked(w).await;
    let (decided_run, decided, _) = parked(w).await;
    decide(w, decided_run, decided, DISCARD).await;
    w.advance(SECOND);
    for (run_id, id) in [(run_id, seen), (other, waiting)] {
        let unknown = w.id();
        let mut turn = resetting(w, run_id).await;
        turn.requeued_letters = vec![id, unknown];
        w.rejected(TurnCommit {
            expected_sequence: turn.expected_sequence + 1,
            ..turn.clone()
        })
        .await;
        assert_eq!(letter(w, id).await.state, DeadLetterState::Dead);
        w.committed(turn.clone()).await;
        w.committed(turn).await;
        let letter = letter(w, id).await;
        assert_eq!(letter.state, DeadLetterState::Requeued);
        assert_eq!((letter.requeued_at, letter.requeue_count), (w.now(), 1));
        let outcome = decide(w, run_id, id, REQUEUE).await;
        let state = DeadLetterState::Requeued;
        assert_eq!(outcome, DecisionOutcome::AlreadyDecided(state));
    }
    let before = letter(w, decided).await;
    let mut turn = resetting(w, decided_run).await;
    turn.requeued_letters = vec![decided];
    w.committed(turn).await;
    assert_eq!(letter(w, decided).await, before, "somebody had decided");
}

async fn decisions_count_in_no_totals(w: &World) {
    let (run_id, id, _) = parked(w).await;
    let totals = w.everything().await.rollups;
    assert_eq!(totals.len(), 1, "it counted when it was parked");
    decide(w, run_id, id, complete()).await;
    assert_eq!(w.everything().await.rollups, totals);
}
