//! Updates: requests to a run that get one answer.

use std::time::Duration;

use durable_core::{Failure, WorkflowEvent, error_types};
use everruns_durable::persistence::model::{
    Fact, Rejection, SendOutcome, SendRejection, SendUpdate, UpdateAnswer, UpdateRecord,
    UpdateState, WorkflowStatus,
};
use uuid::Uuid;

use crate::World;
use crate::world::json;

claims! { "updates":
    an_update_waits_as_a_fact_and_is_pending,
    an_update_sent_twice_is_one_update,
    one_update_id_in_two_runs_is_two_updates,
    a_turn_answers_an_update,
    a_turn_fails_an_update,
    the_first_answer_to_an_update_stays,
    an_answer_to_an_unknown_update_is_passed_over,
    open_updates_fail_when_the_run_ends,
    open_updates_fail_when_the_run_is_terminated,
    an_update_stays_open_over_continue_as_new,
    an_ended_run_refuses_updates_but_knows_its_duplicates,
    an_update_that_arrives_while_a_completing_turn_is_prepared_is_not_lost,
    signals_and_updates_share_one_line_of_arrivals,
    a_refused_turn_answers_no_update,
}

async fn stored(w: &World, run_id: Uuid, update_id: &str) -> UpdateRecord {
    let update = w.store.get_update(run_id, update_id).await;
    update.expect("get_update").expect("the update exists")
}

fn ended_first() -> UpdateState {
    UpdateState::Failed(
        Failure::new(error_types::UPDATE_FAILED, "the run ended first").non_retryable(),
    )
}

async fn an_update_waits_as_a_fact_and_is_pending(w: &World) {
    let run_id = w.start().await;
    let update = w.new_update("u1");
    let sent = w.update(run_id, update.clone()).await;
    assert_eq!(sent, SendOutcome::Accepted { arrival: 1 });
    let fact = Fact {
        arrival: 1,
        event: WorkflowEvent::UpdateAccepted {
            update_id: "u1".into(),
            name: update.name.clone(),
            input: update.input.clone(),
        },
        attempts: vec![],
        last_attempt: None,
        arrived_at: w.instant(),
    };
    assert_eq!(w.waiting(run_id).await.facts, [fact]);
    let record = UpdateRecord {
        run_id,
        update_id: "u1".into(),
        name: update.name,
        input: update.input,
        arrival: 1,
        state: UpdateState::Pending,
        created_at: w.instant(),
        completed_at: None,
    };
    assert_eq!(stored(w, run_id, "u1").await, record);
    let unknown = w.store.get_update(run_id, "u2").await;
    assert_eq!(unknown.expect("get_update"), None);
}

async fn an_update_sent_twice_is_one_update(w: &World) {
    let run_id = w.start().await;
    let twice = [w.new_update("u"), w.new_update("u")].map(|update| SendUpdate { run_id, update });
    let sent = w.store.send_updates(twice.to_vec(), w.now()).await;
    assert_eq!(
        sent.expect("sent"),
        [
            SendOutcome::Accepted { arrival: 1 },
            SendOutcome::Duplicate { arrival: 1 }
        ]
    );
    let turn = w.turn(run_id).await;
    w.committed(turn).await;
    let again = w.update(run_id, w.new_update("u")).await;
    assert_eq!(again, SendOutcome::Duplicate { arrival: 1 });
    assert_eq!(w.waiting(run_id).await.facts, []);
}

async fn one_update_id_in_two_runs_is_two_updates(w: &World) {
    for run_id in [w.start().await, w.start().await] {
        let sent = w.update(run_id, w.new_update("u")).await;
        assert_eq!(sent, SendOutcome::Accepted { arrival: 1 });
    }
}

async fn answer(w: &World, run_id: Uuid, update_id: &str, result: Result<&str, Failure>) {
    let mut turn = w.turn(run_id).await;
    turn.updates.push(UpdateAnswer {
        update_id: update_id.into(),
        result: result.map(json),
    });
    w.committed(turn).await;
}

async fn a_turn_answers_an_update(w: &World) {
    let run_id = w.start().await;
    w.update(run_id, w.new_update("u")).await;
    let pending = stored(w, run_id, "u").await;
    w.advance(Duration::from_secs(2));
    answer(w, run_id, "u", Ok("\"renamed\"")).await;
    let answered = UpdateRecord {
        state: UpdateState::Completed(json("\"renamed\"")),
        completed_at: w.now(),
        ..pending
    };
    assert_eq!(stored(w, run_id, "u").await, answered);
}

async fn a_turn_fails_an_update(w: &World) {
    let run_id = w.start().await;
    w.update(run_id, w.new_update("u")).await;
    let failure = Failure::new("Taken", "that name is taken")
        .non_retryable()
        .with_details(json("[9007199254740993]"));
    answer(w, run_id, "u", Err(failure.clone())).await;
    let update = stored(w, run_id, "u").await;
    assert_eq!(update.state, UpdateState::Failed(failure));
    assert_eq!(update.completed_at, w.now());
}

async fn the_first_answer_to_an_update_stays(w: &World) {
    let run_id = w.start().await;
    w.update(run_id, w.new_update("u")).await;
    answer(w, run_id, "u", Ok("1")).await;
    let first = stored(w, run_id, "u").await;
    w.advance(Duration::from_secs(2));
    answer(w, run_id, "u", Ok("2")).await;
    w.complete(run_id).await;
    assert_eq!(stored(w, run_id, "u").await, first);
}

async fn an_answer_to_an_unknown_update_is_passed_over(w: &World) {
    let run_id = w.start().await;
    answer(w, run_id, "nobody asked", Ok("1")).await;
    assert_eq!(w.dump(run_id).await.updates, []);
}

async fn open_updates_fail_when_the_run_ends(w: &World) {
    let run_id = w.start().await;
    w.update(run_id, w.new_update("answered")).await;
    w.update(run_id, w.new_update("open")).await;
    w.advance(Duration::from_secs(1));
    let mut turn = World::completing(w.turn(run_id).await);
    turn.updates.push(UpdateAnswer {
        update_id: "answered".into(),
        result: Ok(json("1")),
    });
    w.committed(turn).await;
    let answered = stored(w, run_id, "answered").await;
    assert_eq!(answered.state, UpdateState::Completed(json("1")));
    let open = stored(w, run_id, "open").await;
    assert_eq!((open.state, open.completed_at), (ended_first(), w.now()));
}

async fn open_updates_fail_when_the_run_is_terminated(w: &World) {
    let run_id = w.start().await;
    w.update(run_id, w.new_update("open")).await;
    w.advance(Duration::from_secs(1));
    w.terminate(run_id, "stop").await;
    let open = stored(w, run_id, "open").await;
    assert_eq!((open.state, open.completed_at), (ended_first(), w.now()));
}

async fn an_update_stays_open_over_continue_as_new(w: &World) {
    let run_id = w.start().await;
    w.update(run_id, w.new_update("u")).await;
    let turn = World::continuing(w.turn(run_id).await, vec![]);
    w.committed(turn).await;
    assert_eq!(stored(w, run_id, "u").await.state, UpdateState::Pending);
    answer(w, run_id, "u", Ok("1")).await;
    let state = stored(w, run_id, "u").await.state;
    assert_eq!(state, UpdateState::Completed(json("1")));
}

async fn an_ended_run_refuses_updates_but_knows_its_duplicates(w: &World) {
    let run_id = w.start().await;
    w.update(run_id, w.new_update("early")).await;
    w.complete(run_id).await;
    let late = w.update(run_id, w.new_update("late")).await;
    let status = WorkflowStatus::Completed;
    assert_eq!(
        late,
        SendOutcome::Rejected(SendRejection::RunFinished { status })
    );
    let again = w.update(run_id, w.new_update("early")).await;
    assert_eq!(again, SendOutcome::Duplicate { arrival: 1 });
    let nowhere = w.update(w.id(), w.new_update("u")).await;
    assert_eq!(nowhere, SendOutcome::Rejected(SendRejection::NotFound));
    assert_eq!(w.dump(run_id).await.updates.len(), 1);
}

async fn an_update_that_arrives_while_a_completing_turn_is_prepared_is_not_lost(w: &World) {
    let run_id = w.start().await;
    let unaware = World::completing(w.turn(run_id).await);
    w.update(run_id, w.new_update("u")).await;
    assert_eq!(
        w.rejected(unaware).await,
        Rejection::UnseenFacts { arrivals: 1 }
    );
    assert_eq!(stored(w, run_id, "u").await.state, UpdateState::Pending);
    assert_eq!(w.waiting(run_id).await.facts.len(), 1);
}

async fn signals_and_updates_share_one_line_of_arrivals(w: &World) {
    let run_id = w.start().await;
    w.signal(run_id, "a").await;
    let sent = w.update(run_id, w.new_update("u")).await;
    assert_eq!(sent, SendOutcome::Accepted { arrival: 2 });
    let sent = w.signal(run_id, "b").await;
    assert_eq!(sent, SendOutcome::Accepted { arrival: 3 });
    let waiting = w.waiting_events(run_id).await;
    let kinds: Vec<_> = waiting.iter().map(WorkflowEvent::event_type).collect();
    assert_eq!(
        kinds,
        ["signal.received", "update.accepted", "signal.received"]
    );
}

async fn a_refused_turn_answers_no_update(w: &World) {
    let run_id = w.start().await;
    w.update(run_id, w.new_update("u")).await;
    let mut turn = w.turn(run_id).await;
    turn.expected_sequence = 7;
    turn.updates.push(UpdateAnswer {
        update_id: "u".into(),
        result: Ok(json("1")),
    });
    assert_eq!(w.rejected(turn).await, Rejection::Sequence { found: 0 });
    assert_eq!(stored(w, run_id, "u").await.state, UpdateState::Pending);
}
