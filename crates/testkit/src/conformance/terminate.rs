//! Ending runs from outside.

use std::pin::Pin;
use std::time::Duration;

use durable_core::{Failure, WorkflowEvent, error_types};
use everruns_durable::persistence::model::{
    FinishOutcome, OwnerRequest, Rejection, RunRecord, TaskOutcome, TerminateOutcome, TerminateRun,
    TurnOutcome, WorkflowStatus,
};

use crate::World;
use crate::world::{LEASE, WORKER, as_unread, at_once, json, one};

claims! { "terminate":
    a_terminated_run_is_failed_with_the_reason,
    a_run_terminated_before_its_first_turn_has_begun_and_ended,
    acknowledged_signals_are_in_the_history_before_the_end,
    the_tasks_timers_and_facts_of_a_terminated_run_are_gone,
    the_result_of_a_terminated_runs_task_is_refused,
    terminating_twice_says_how_the_run_had_ended,
    terminations_in_one_call_are_answered_in_order,
    a_turn_prepared_before_the_termination_is_refused,
    a_terminated_run_is_never_claimed_again,
    termination_against_completion_has_one_winner_and_one_end,
    sixteen_terminations_at_once_end_a_run_once,
}

fn terminated(reason: &str) -> Failure {
    Failure::new(error_types::WORKFLOW_TERMINATED, reason).non_retryable()
}

async fn a_terminated_run_is_failed_with_the_reason(w: &World) {
    let run_id = w.start().await;
    let mut turn = w.turn(run_id).await;
    turn.owner = Some(OwnerRequest {
        worker_id: WORKER.into(),
        lease: LEASE,
    });
    w.committed(turn).await;
    let before = w.run(run_id).await;
    assert!(before.owner.is_some());
    w.advance(Duration::from_secs(1));
    let outcome = w.terminate(run_id, "out of budget").await;
    assert_eq!(outcome, TerminateOutcome::Terminated);
    let error = terminated("out of budget");
    let expected = RunRecord {
        status: WorkflowStatus::Failed,
        error: Some(error.clone()),
        sequence: 2,
        owner: None,
        ready_at: None,
        updated_at: w.instant(),
        completed_at: w.now(),
        ..before
    };
    let all = w.dump(run_id).await;
    assert_eq!(all.run, expected, "the last turn among it is kept");
    let last = all.events.last().expect("the terminal event");
    assert_eq!((last.sequence_num, Some(last.created_at)), (2, w.now()));
    let error = error.into();
    assert_eq!(last.event, WorkflowEvent::WorkflowFailed { error });
}

async fn a_run_terminated_before_its_first_turn_has_begun_and_ended(w: &World) {
    let run_id = w.start().await;
    w.advance(Duration::from_secs(1));
    w.terminate(run_id, "stop").await;
    let run = w.run(run_id).await;
    assert_eq!((run.started_at, run.completed_at), (w.now(), w.now()));
    assert_eq!((run.sequence, run.last_turn), (1, None));
}

async fn acknowledged_signals_are_in_the_history_before_the_end(w: &World) {
    let run_id = w.start().await;
    let turn = w.turn(run_id).await;
    w.committed(turn).await;
    w.signal(run_id, "a").await;
    w.update(run_id, w.new_update("u")).await;
    w.signal(run_id, "b").await;
    let mut waiting = w.waiting_events(run_id).await;
    waiting.remove(1);
    let kept: Vec<WorkflowEvent> = waiting.into_iter().map(as_unread).collect();
    w.advance(Duration::from_secs(1));
    w.terminate(run_id, "stop").await;
    let all = w.dump(run_id).await;
    let events: Vec<WorkflowEvent> = all.events.into_iter().map(|e| e.event).collect();
    assert_eq!(events[1..3], kept, "signals, by arrival, as unread");
    assert!(events[3].is_terminal());
    assert_eq!((events.len(), all.run.sequence), (4, 4));
    assert_eq!((all.facts, all.run.consumed), (vec![], 3));
    assert!(all.signals.iter().all(|s| s.processed_at == w.now()));
}

async fn the_tasks_timers_and_facts_of_a_terminated_run_are_gone(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a"), w.task("b")]).await;
    w.set_timer(run_id, "t", Duration::from_secs(60)).await;
    let claimed = w.claim_one().await;
    w.succeed(&claimed.lease).await;
    let before = w.dump(run_id).await;
    assert_eq!(
        (before.tasks.len(), before.timers.len(), before.facts.len()),
        (1, 1, 1)
    );
    w.terminate(run_id, "stop").await;
    let all = w.dump(run_id).await;
    assert_eq!((all.tasks, all.timers, all.facts), (vec![], vec![], vec![]));
    assert_eq!(w.claim(10).await, []);
}

async fn the_result_of_a_terminated_runs_task_is_refused(w: &World) {
    let run_id = w.start_with_tasks(vec![w.task("a")]).await;
    let claimed = w.claim_one().await;
    w.terminate(run_id, "stop").await;
    let result = TaskOutcome::Completed { result: json("2") };
    assert_eq!(
        w.report(&claimed.lease, result).await,
        FinishOutcome::LeaseLost
    );
    assert_eq!(w.letters().await, []);
}

async fn terminating_twice_says_how_the_run_had_ended(w: &World) {
    let completed = w.start().await;
    w.complete(completed).await;
    let terminated = w.start().await;
    w.terminate(terminated, "stop").await;
    for (run_id, status) in [
        (completed, WorkflowStatus::Completed),
        (terminated, WorkflowStatus::Failed),
    ] {
        let before = w.dump(run_id).await;
        w.advance(Duration::from_secs(1));
        let again = w.terminate(run_id, "once more").await;
        assert_eq!(again, TerminateOutcome::AlreadyFinished(status));
        assert_eq!(w.dump(run_id).await, before);
    }
    let nobody = w.terminate(w.id(), "stop").await;
    assert_eq!(nobody, TerminateOutcome::NotFound);
}

async fn terminations_in_one_call_are_answered_in_order(w: &World) {
    let (a, b) = (w.start().await, w.start().await);
    let runs = [a, w.id(), b, a].map(|run_id| TerminateRun {
        run_id,
        reason: "stop".into(),
    });
    let outcomes = w.store.terminate_runs(runs.to_vec(), w.now()).await;
    assert_eq!(
        outcomes.expect("terminate_runs"),
        [
            TerminateOutcome::Terminated,
            TerminateOutcome::NotFound,
            TerminateOutcome::Terminated,
            TerminateOutcome::AlreadyFinished(WorkflowStatus::Failed),
        ]
    );
    assert_eq!(w.history(a).await.len(), 1);
}

async fn a_turn_prepared_before_the_termination_is_refused(w: &World) {
    let run_id = w.start().await;
    let turn = w.turn(run_id).await;
    w.terminate(run_id, "stop").await;
    let status = WorkflowStatus::Failed;
    assert_eq!(w.rejected(turn).await, Rejection::RunFinished { status });
}

async fn a_terminated_run_is_never_claimed_again(w: &World) {
    let run_id = w.start().await;
    w.signal(run_id, "a").await;
    w.terminate(run_id, "stop").await;
    assert_eq!(w.claim_turns(10).await, []);
}

async fn termination_against_completion_has_one_winner_and_one_end(w: &World) {
    for _ in 0..100 {
        let run_id = w.start().await;
        let turn = World::completing(w.turn(run_id).await);
        let now = w.now();
        let store = w.store.clone();
        let completer = async move {
            match one(store.commit_turns(vec![turn], now).await) {
                TurnOutcome::Committed(_) => true,
                TurnOutcome::Rejected(Rejection::RunFinished { .. }) => false,
                TurnOutcome::Rejected(why) => panic!("{why}"),
            }
        };
        let store = w.store.clone();
        let terminator = async move {
            let terminate = TerminateRun {
                run_id,
                reason: "stop".into(),
            };
            one(store.terminate_runs(vec![terminate], now).await) == TerminateOutcome::Terminated
        };
        let jobs: Vec<Pin<Box<dyn Future<Output = bool> + Send>>> =
            vec![Box::pin(completer), Box::pin(terminator)];
        let won = at_once(jobs).await;
        assert_ne!(won[0], won[1], "one winner");
        let ends = w.history(run_id).await;
        let ends = ends.iter().filter(|e| e.is_terminal()).count();
        assert_eq!(ends, 1);
        let completed = w.run(run_id).await.status == WorkflowStatus::Completed;
        assert_eq!(completed, won[0], "the status is the winner's");
    }
}

async fn sixteen_terminations_at_once_end_a_run_once(w: &World) {
    let run_id = w.start().await;
    let now = w.now();
    let jobs = (0..16)
        .map(|i| {
            let store = w.store.clone();
            async move {
                let terminate = TerminateRun {
                    run_id,
                    reason: format!("by {i}"),
                };
                one(store.terminate_runs(vec![terminate], now).await)
            }
        })
        .collect();
    let outcomes = at_once(jobs).await;
    let winners: Vec<usize> = (0..16)
        .filter(|i| outcomes[*i] == TerminateOutcome::Terminated)
        .collect();
    assert_eq!(winners.len(), 1);
    let error = terminated(&format!("by {}", winners[0]));
    assert_eq!(w.run(run_id).await.error, Some(error));
    assert_eq!(w.history(run_id).await.len(), 1);
}
