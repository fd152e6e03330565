//! Updates, as their senders see them.

use everruns_durable::Client;
use everruns_durable::core::{Failure, error_types};
use everruns_durable::prelude::*;
use serde_json::Value;

use super::{Arena, Effects, claims};

claims! { "updates":
    an_update_is_answered,
    a_refused_update_is_an_error_with_its_failure,
    an_update_sent_twice_under_one_id_is_one,
    an_open_update_polls_as_none_until_it_is_answered,
    an_answer_reaches_a_client_of_its_own,
    an_update_left_open_fails_when_its_run_ends,
    a_run_that_is_over_or_unknown_takes_no_update,
    an_update_that_a_reset_forgets_fails,
    update_with_start_reaches_a_new_run_and_one_that_exists,
}

/// An account: updates change it, `close` ends it with the balance.
#[derive(Default)]
struct Account {
    balance: i64,
    /// Updates that wait for the signal `answer`.
    held: Vec<String>,
    closed: bool,
}

impl Workflow for Account {
    const TYPE: &'static str = "account";
    type Input = i64;
    type Output = i64;

    fn new(balance: i64) -> Self {
        Self {
            balance,
            ..Self::default()
        }
    }

    fn on_start(&mut self) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_activity_completed(&mut self, _id: &str, _result: Value) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_activity_failed(&mut self, _id: &str, _error: &ActivityError) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_timer_fired(&mut self, _id: &str) -> Vec<WorkflowAction> {
        vec![]
    }

    fn on_signal(&mut self, signal: &WorkflowSignal) -> Vec<WorkflowAction> {
        match signal.signal_type.as_str() {
            "close" => {
                self.closed = true;
                vec![]
            }
            "answer" => {
                let held = std::mem::take(&mut self.held);
                held.into_iter().map(|id| self.answer(id)).collect()
            }
            _ => vec![],
        }
    }

    fn on_update(&mut self, update_id: &str, name: &str, input: Value) -> Vec<WorkflowAction> {
        let update_id = update_id.to_owned();
        match (name, input.as_i64()) {
            ("deposit", Some(amount)) if amount > 0 => {
                self.balance += amount;
                vec![self.answer(update_id)]
            }
            ("deposit_later", Some(amount)) => {
                self.balance += amount;
                self.held.push(update_id);
                vec![]
            }
            _ => vec![WorkflowAction::FailUpdate {
                update_id,
                error: Failure::new(error_types::UPDATE_FAILED, "must be positive"),
            }],
        }
    }

    fn is_completed(&self) -> bool {
        self.closed
    }

    fn result(&self) -> Option<Result<i64, WorkflowError>> {
        Some(Ok(self.balance))
    }
}

impl Account {
    fn answer(&self, update_id: String) -> WorkflowAction {
        WorkflowAction::CompleteUpdate {
            update_id,
            result: Payload::from_value(&self.balance).expect("a number is JSON"),
        }
    }
}

async fn bank(arena: &Arena) -> Engine {
    let builder = arena.engine(&Effects::new()).workflow::<Account>();
    builder.start().await.expect("starts")
}

async fn an_update_is_answered(arena: &Arena) {
    let engine = bank(arena).await;
    let run = engine.client().start::<Account>(100).await.expect("starts");
    for (amount, balance) in [(10, 110), (5, 115)] {
        let answer = run.update("deposit", &amount).await_result::<i64>().await;
        assert_eq!(answer.expect("answered"), balance);
    }
    run.signal("close", &()).await.expect("taken");
    assert_eq!(run.result().await.expect("completes"), 115);
    engine.shutdown().await.expect("stops");
}

async fn a_refused_update_is_an_error_with_its_failure(arena: &Arena) {
    let engine = bank(arena).await;
    let run = engine.client().start::<Account>(1).await.expect("starts");
    let update = run.update("deposit", &-5).send().await.expect("sent");
    let error = update.result::<i64>().await.expect_err("refused");
    assert!(error.is_update_failed(), "{error}");
    assert_eq!(error.run_id(), Some(run.id()));
    let failure = error.failure().expect("has one");
    assert_eq!(failure.message, "must be positive");
    let error = update.poll::<i64>().await.expect_err("refused");
    assert!(error.is_update_failed(), "{error}");
    run.terminate("done").await.expect("ends");
    engine.shutdown().await.expect("stops");
}

async fn an_update_sent_twice_under_one_id_is_one(arena: &Arena) {
    let engine = bank(arena).await;
    let client = engine.client();
    let run = client.start::<Account>(0).await.expect("starts");
    let deposit = || client.update(run.id(), "deposit", &7).id("deposit-1");
    assert_eq!(deposit().await_result::<i64>().await.expect("answered"), 7);
    assert_eq!(deposit().await_result::<i64>().await.expect("answered"), 7);
    run.signal("close", &()).await.expect("taken");
    assert_eq!(run.result().await.expect("completes"), 7);
    // Also when the run is over: it is the same update, and has its answer.
    assert_eq!(deposit().await_result::<i64>().await.expect("answered"), 7);
    engine.shutdown().await.expect("stops");
}

async fn an_open_update_polls_as_none_until_it_is_answered(arena: &Arena) {
    let engine = bank(arena).await;
    let client = engine.client();
    let run = client.start::<Account>(0).await.expect("starts");
    let update = run.update("deposit_later", &3).id("later").send();
    let update = update.await.expect("sent");
    assert_eq!(update.poll::<i64>().await.expect("open"), None);
    run.signal("answer", &()).await.expect("taken");
    assert_eq!(update.result::<i64>().await.expect("answered"), 3);
    let again = client.update_handle(run.id(), "later");
    assert_eq!(again.poll::<i64>().await.expect("answered"), Some(3));
    run.terminate("done").await.expect("ends");
    engine.shutdown().await.expect("stops");
}

async fn an_answer_reaches_a_client_of_its_own(arena: &Arena) {
    let engine = bank(arena).await;
    let run = engine.client().start::<Account>(0).await.expect("starts");
    let client = Client::on(arena.store.clone());
    let answer = client.update(run.id(), "deposit", &9).await_result::<i64>();
    assert_eq!(answer.await.expect("answered"), 9);
    run.terminate("done").await.expect("ends");
    engine.shutdown().await.expect("stops");
}

async fn an_update_left_open_fails_when_its_run_ends(arena: &Arena) {
    let engine = bank(arena).await;
    let run = engine.client().start::<Account>(0).await.expect("starts");
    let update = run.update("deposit_later", &3).send().await.expect("sent");
    run.signal("close", &()).await.expect("taken");
    let error = update.result::<i64>().await.expect_err("the run ended");
    assert!(error.is_update_failed(), "{error}");
    engine.shutdown().await.expect("stops");
}

async fn an_update_that_a_reset_forgets_fails(arena: &Arena) {
    let engine = bank(arena).await;
    let client = engine.client();
    let run = client.start::<Account>(0).await.expect("starts");
    let deposit = run.update("deposit", &1).await_result::<i64>();
    assert_eq!(deposit.await.expect("answered"), 1);
    let open = run.update("deposit_later", &3).send().await.expect("sent");
    // The next answer shows that the run has taken the open one, too.
    let deposit = run.update("deposit", &1).await_result::<i64>();
    assert_eq!(deposit.await.expect("answered"), 5);
    client.reset_to(run.id(), 1).await.expect("goes back");
    let error = open.result::<i64>().await.expect_err("forgotten");
    assert!(error.is_update_failed(), "{error}");
    run.signal("close", &()).await.expect("taken");
    assert_eq!(run.result().await.expect("completes"), 0);
    engine.shutdown().await.expect("stops");
}

async fn a_run_that_is_over_or_unknown_takes_no_update(arena: &Arena) {
    let engine = bank(arena).await;
    let client = engine.client();
    let run = client.start::<Account>(0).await.expect("starts");
    run.signal("close", &()).await.expect("taken");
    run.result().await.expect("completes");
    let error = run.update("deposit", &1).send().await.expect_err("refused");
    assert!(error.is_run_finished(), "{error}");
    let nobody = uuid::Uuid::from_u128(1);
    let sent = client.update(nobody, "deposit", &1).send().await;
    assert!(sent.expect_err("refused").is_not_found());
    let never_sent = client.update_handle(run.id(), "never sent");
    let error = never_sent.result::<i64>().await.expect_err("not there");
    assert!(error.is_not_found(), "{error}");
    engine.shutdown().await.expect("stops");
}

async fn update_with_start_reaches_a_new_run_and_one_that_exists(arena: &Arena) {
    let engine = bank(arena).await;
    let client = engine.client();
    let start = || client.start::<Account>(100).workflow_id("account-1");
    let (first, update) = start().update("deposit", &1).await.expect("starts");
    assert_eq!(update.result::<i64>().await.expect("answered"), 101);
    let (second, update) = start()
        .update("deposit", &2)
        .id("two")
        .await
        .expect("reaches");
    assert_eq!(second.id(), first.id());
    assert_eq!((update.id(), update.run_id()), ("two", first.id()));
    assert_eq!(update.result::<i64>().await.expect("answered"), 103);
    let balance = start().update("deposit", &3).await_result::<i64>().await;
    assert_eq!(balance.expect("answered"), 106);
    first.terminate("done").await.expect("ends");
    engine.shutdown().await.expect("stops");
}
