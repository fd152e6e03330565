//! Tasks over the wire: pushed by a session, claimed by calls.

use durable_proto::v1;
use everruns_durable::client::{RunHandle, Untyped};
use everruns_durable::core::{ActivityOptions, Payload};
use everruns_durable::persistence::model::Page;
use everruns_durable::persistence::model::{TaskFilter, TaskStatus, WorkerFilter};
use tonic::Code;
use v1::server_message::Message as FromServer;
use v1::task_done::End;
use v1::worker_message::Message as FromWorker;

use crate::place::Place;
use crate::workman::{Workman, hello};

/// A run that asks for one activity and ends with its result.
async fn start_one(place: &Place) -> RunHandle<Untyped> {
    let input = Payload::from_value("in").expect("JSON");
    let client = place.client();
    let start = client.enqueue_named("greet", input, Some(ActivityOptions::default()));
    start.await.expect("started")
}

fn greeter(worker_id: &str) -> v1::Hello {
    v1::Hello {
        activity_types: vec!["greet".to_owned()],
        ..hello(worker_id)
    }
}

fn text(payload: &Payload) -> String {
    payload.to_value().expect("a text")
}

#[tokio::test]
async fn session_is_pushed_tasks_and_its_results_are_the_runs() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = Workman::connect(&mut caller, greeter("w")).await.unwrap();
    let run = start_one(&place).await;
    let task = workman.task().await;
    assert_eq!(
        (&*task.activity_type, &task.input[..]),
        ("greet", &b"\"in\""[..])
    );
    assert_eq!(task.lease.as_ref().unwrap().attempt, 1);
    let outcome = workman.finish(&task, End::Result("\"out\"".into())).await;
    assert_eq!(outcome, v1::Outcome::Recorded);
    assert_eq!(text(&run.result().await.unwrap()), "out");
    let again = workman.finish(&task, End::Result("\"twice\"".into())).await;
    assert_eq!(again, v1::Outcome::LeaseLost, "a result counts once");
}

#[tokio::test]
async fn no_more_tasks_are_pushed_than_there_are_slots() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let narrow = v1::Hello {
        task_slots: 1,
        ..greeter("w")
    };
    let mut workman = Workman::connect(&mut caller, narrow).await.unwrap();
    let (one, other) = (start_one(&place).await, start_one(&place).await);
    let first = workman.task().await;
    // What comes next is the answer to this: a second task would have come before.
    let outcome = workman.finish(&first, End::Result("1".into())).await;
    assert_eq!(outcome, v1::Outcome::Recorded);
    let second = workman.task().await;
    workman.finish(&second, End::Result("2".into())).await;
    assert!(one.result().await.is_ok() && other.result().await.is_ok());
}

#[tokio::test]
async fn failure_is_retried_by_the_policy_and_the_next_attempt_sees_the_last_heartbeat() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = Workman::connect(&mut caller, greeter("w")).await.unwrap();
    let mut options = ActivityOptions::default();
    options.retry_policy.initial_interval = std::time::Duration::from_millis(1);
    let client = place.client();
    let run = client.enqueue_named("greet", Payload::null(), Some(options));
    let run = run.await.unwrap();
    let task = workman.task().await;
    let beat = v1::TaskHeartbeat {
        lease: task.lease.clone(),
        details: Some("{\"at\":7}".into()),
    };
    workman.say(FromWorker::Heartbeat(beat)).await;
    // Heartbeats go in batches: the attempt ends when the store has this one.
    let filter = TaskFilter::default();
    loop {
        let tasks = place.store.list_tasks(filter.clone(), Page::default());
        if tasks
            .await
            .unwrap()
            .iter()
            .any(|task| task.heartbeat_at.is_some())
        {
            break;
        }
        tokio::task::yield_now().await;
    }
    let failure = v1::Failure {
        r#type: "Flaky".to_owned(),
        message: "not yet".to_owned(),
        ..v1::Failure::default()
    };
    let outcome = workman.finish(&task, End::Failure(failure)).await;
    assert_eq!(outcome, v1::Outcome::Retrying);
    let again = workman.task().await;
    assert_eq!(again.lease.as_ref().unwrap().attempt, 2);
    assert_eq!(&again.heartbeat_details[..], b"{\"at\":7}");
    assert_eq!(again.idempotency_key, task.idempotency_key);
    workman.finish(&again, End::Result("1".into())).await;
    assert!(run.result().await.is_ok());
}

#[tokio::test]
async fn cancelled_activity_is_told_to_stop() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = Workman::connect(&mut caller, greeter("w")).await.unwrap();
    let run = start_one(&place).await;
    let task = workman.task().await;
    run.terminate("enough").await.unwrap();
    let FromServer::CancelTask(cancel) = workman.hear().await.unwrap() else {
        panic!("not told");
    };
    assert_eq!(cancel.lease, task.lease);
    let outcome = workman
        .finish(&task, End::Cancelled("stopped".to_owned()))
        .await;
    assert_eq!(outcome, v1::Outcome::LeaseLost);
}

#[tokio::test]
async fn activity_that_is_cancelled_by_nobody_has_failed() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = Workman::connect(&mut caller, greeter("w")).await.unwrap();
    let run = start_one(&place).await;
    let task = workman.task().await;
    let outcome = workman
        .finish(&task, End::Cancelled("of my own accord".to_owned()))
        .await;
    assert_eq!(outcome, v1::Outcome::Recorded);
    let error = run.result().await.expect_err("the run waits for no more");
    let failure = error.failure().expect("it failed");
    assert!(failure.is("Cancelled"), "{failure:?}");
}

#[tokio::test]
async fn worker_that_leaves_gives_its_tasks_back_at_once_and_no_attempt_is_lost() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut leaver = Workman::connect(&mut caller, greeter("leaver"))
        .await
        .unwrap();
    let run = start_one(&place).await;
    let task = leaver.task().await;
    leaver.say(FromWorker::Goodbye(v1::Goodbye {})).await;
    leaver.leave().await;
    let tasks = place
        .store
        .list_tasks(TaskFilter::default(), Page::default())
        .await
        .unwrap();
    assert_eq!(
        tasks[0].status,
        TaskStatus::Pending,
        "not by waiting for its lease to run out"
    );
    let mut heir = Workman::connect(&mut caller, greeter("heir"))
        .await
        .unwrap();
    let again = heir.task().await;
    let (first, second) = (task.lease.unwrap(), again.lease.clone().unwrap());
    assert_eq!(
        (first.task_id, first.attempt),
        (second.task_id, second.attempt)
    );
    heir.finish(&again, End::Result("1".into())).await;
    assert!(run.result().await.is_ok());
}

#[tokio::test]
async fn broken_session_may_be_taken_up_again_with_what_it_held() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut first = Workman::connect(&mut caller, greeter("w")).await.unwrap();
    let run = start_one(&place).await;
    let task = first.task().await;
    // Dropped as a lost connection is: without a word.
    drop((first, caller));
    let mut caller = place.caller(None).await;
    let back = v1::Hello {
        holding: vec![task.lease.clone().unwrap()],
        task_slots: 1,
        ..greeter("w")
    };
    let mut second = Workman::connect(&mut caller, back).await.unwrap();
    let outcome = second.finish(&task, End::Result("\"late\"".into())).await;
    assert_eq!(outcome, v1::Outcome::Recorded);
    assert_eq!(text(&run.result().await.unwrap()), "late");
}

#[tokio::test]
async fn worker_that_never_comes_back_loses_its_tasks_to_others() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut dead = Workman::connect(&mut caller, greeter("dead"))
        .await
        .unwrap();
    let run = start_one(&place).await;
    let task = dead.task().await;
    drop((dead, caller));
    let mut caller = place.caller(None).await;
    let mut heir = Workman::connect(&mut caller, greeter("heir"))
        .await
        .unwrap();
    let again = heir.task().await;
    assert_eq!(
        again.lease.as_ref().unwrap().attempt,
        1,
        "the attempt was given back"
    );
    assert_ne!(again.lease, task.lease);
    let stale = heir.finish(&task, End::Result("\"stale\"".into())).await;
    assert_eq!(stale, v1::Outcome::LeaseLost, "the old fence is dead");
    heir.finish(&again, End::Result("\"good\"".into())).await;
    assert_eq!(text(&run.result().await.unwrap()), "good");
}

#[tokio::test]
async fn draining_server_sends_its_workers_elsewhere_and_still_takes_their_results() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = Workman::connect(&mut caller, greeter("w")).await.unwrap();
    let run = start_one(&place).await;
    let task = workman.task().await;
    place.app.draining().cancel();
    assert!(matches!(
        workman.hear().await,
        Ok(FromServer::GoElsewhere(_))
    ));
    let refused = Workman::connect(&mut caller, greeter("other")).await;
    assert_eq!(refused.err().unwrap().code(), Code::Unavailable);
    let stopping = tokio::spawn(place.engine.shutdown());
    let outcome = workman.finish(&task, End::Result("1".into())).await;
    assert_eq!(outcome, v1::Outcome::Recorded);
    workman.leave().await;
    stopping.await.unwrap().unwrap();
    let record = place.store.get_run(run.id()).await.unwrap().unwrap();
    assert_eq!(
        record.arrivals, 1,
        "the result is in the run's inbox or beyond it"
    );
}

#[tokio::test]
async fn workers_are_registered_while_they_are_connected() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let known = async || {
        let workers = place
            .store
            .list_workers(WorkerFilter::default())
            .await
            .unwrap();
        let mut workers = workers.into_iter().filter(|worker| worker.id == "w");
        workers
            .next()
            .map(|worker| (worker.activity_types, worker.max_concurrency))
    };
    let workman = Workman::connect(&mut caller, greeter("w")).await.unwrap();
    while known().await.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(known().await, Some((vec!["greet".to_owned()], 4)));
    workman.leave().await;
    while known().await.is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_claim_keep_answer_and_release_tasks() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let runs = [
        start_one(&place).await,
        start_one(&place).await,
        start_one(&place).await,
    ];
    let claim = v1::ClaimDurableTasksRequest {
        worker_id: "poller".to_owned(),
        activity_types: vec!["greet".to_owned()],
        max_tasks: 10,
        lease_ms: 60_000,
    };
    let mut tasks = Vec::new();
    while tasks.len() < 3 {
        let claimed = caller.claim_durable_tasks(claim.clone()).await.unwrap();
        tasks.extend(claimed.into_inner().tasks);
        tokio::task::yield_now().await;
    }
    let lease = |index: usize| tasks[index].lease.clone();
    let beats = (0..3).map(|index| v1::TaskHeartbeat {
        lease: lease(index),
        details: None,
    });
    let mut beats: Vec<_> = beats.collect();
    beats[2].lease.as_mut().unwrap().attempt = 9;
    let beaten = caller.heartbeat_durable_task(v1::HeartbeatDurableTaskRequest {
        tasks: beats,
        lease_ms: 0,
    });
    assert_eq!(beaten.await.unwrap().into_inner().held, [true, true, false]);
    let completed = v1::CompletedTask {
        lease: lease(0),
        result: "\"done\"".into(),
    };
    let outcomes = |answer: v1::TaskOutcomes| -> Vec<v1::Outcome> {
        let outcomes = answer.outcomes.iter();
        outcomes.map(v1::TaskOutcome::outcome).collect()
    };
    let request = v1::CompleteDurableTaskRequest {
        tasks: vec![completed.clone(), completed],
    };
    let answer = caller.complete_durable_task(request).await.unwrap();
    let once = [v1::Outcome::Recorded, v1::Outcome::LeaseLost];
    assert_eq!(outcomes(answer.into_inner()), once, "one outcome an item");
    let failed = v1::FailedTask {
        lease: lease(1),
        failure: Some(v1::Failure {
            r#type: "Final".to_owned(),
            non_retryable: true,
            ..v1::Failure::default()
        }),
    };
    let request = v1::FailDurableTaskRequest {
        tasks: vec![failed],
    };
    let answer = caller.fail_durable_task(request).await.unwrap();
    assert_eq!(outcomes(answer.into_inner()), [v1::Outcome::Recorded]);
    let request = v1::ReleaseDurableTaskRequest {
        leases: vec![lease(2).unwrap()],
    };
    let answer = caller.release_durable_task(request.clone()).await.unwrap();
    assert_eq!(outcomes(answer.into_inner()), [v1::Outcome::Released]);
    let answer = caller.release_durable_task(request).await.unwrap();
    assert_eq!(outcomes(answer.into_inner()), [v1::Outcome::LeaseLost]);
    let ids: Vec<String> = runs.iter().map(|run| run.id().to_string()).collect();
    let failed_at = tasks[1].lease.as_ref().unwrap().run_id.clone();
    let failed = runs
        .iter()
        .find(|run| run.id().to_string() == failed_at)
        .unwrap();
    assert!(
        failed
            .result()
            .await
            .unwrap_err()
            .failure()
            .unwrap()
            .is("Final")
    );
    let request = v1::GetDurableWorkflowStatusRequest { run_ids: ids };
    let statuses = caller
        .get_durable_workflow_status(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(statuses.workflows.len(), 3);
}

#[tokio::test]
async fn subscriber_is_told_when_tasks_of_its_types_wait() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let request = v1::SubscribeTaskNotificationsRequest {
        activity_types: vec!["greet".to_owned()],
    };
    let news = caller.subscribe_task_notifications(request).await.unwrap();
    let mut news = news.into_inner();
    let first = news.message().await.unwrap().unwrap();
    assert!(first.activity_types.is_empty(), "look at everything first");
    start_one(&place).await;
    loop {
        let told = news.message().await.unwrap().unwrap();
        if told.activity_types == ["greet"] {
            break;
        }
    }
    place.app.draining().cancel();
    while news.message().await.unwrap().is_some() {}
}
