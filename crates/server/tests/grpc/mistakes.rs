//! One bad item: what it is refused for, and that nobody else is harmed by it.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use durable_proto::v1;
use durable_server::grpc::REQUEST_BYTES_MAX;
use everruns_durable::Client;
use everruns_durable::client::{RunHandle, Untyped};
use everruns_durable::core::{Failure, Payload, error_types};
use everruns_durable::hosting::{Activation, HostError, Step, WorkflowHost};
use everruns_durable::persistence::model::{HostedType, Page, RunFilter, WorkerFilter};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, IntoStreamingRequest as _, Request, Status};
use tonic_prost::ProstCodec;
use uuid::Uuid;
use v1::action::Action;
use v1::server_message::Message as FromServer;
use v1::task_done::End;
use v1::worker_message::Message as FromWorker;

use crate::place::{Caller, Place};
use crate::workman::{Workman, hello, step, workflow_type};

async fn start_one(place: &Place) -> RunHandle<Untyped> {
    let start = place.client().enqueue_named("greet", Payload::null(), None);
    start.await.expect("started")
}

fn greeter(worker_id: &str) -> v1::Hello {
    v1::Hello {
        activity_types: vec!["greet".to_owned()],
        ..hello(worker_id)
    }
}

/// The failure of a run's activity, which is not tried again.
async fn invalid_output(run: &RunHandle<Untyped>) -> Failure {
    let error = run.result().await.expect_err("it failed");
    let failure = error.failure().expect("a failure").clone();
    assert!(failure.is(error_types::INVALID_OUTPUT), "{failure:?}");
    failure
}

#[tokio::test]
async fn answer_that_cannot_be_read_fails_its_own_task_and_the_session_goes_on() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = Workman::connect(&mut caller, greeter("w")).await.unwrap();
    let declined = v1::Failure {
        r#type: "CardDeclined".to_owned(),
        details: "{\"rate\":NaN}".into(),
        ..v1::Failure::default()
    };
    for end in [
        Some(End::Result("NaN".into())),
        Some(End::Failure(declined)),
        None,
    ] {
        let run = start_one(&place).await;
        let task = workman.task().await;
        let is_failure = matches!(end, Some(End::Failure(_)));
        let done = v1::TaskDone {
            lease: task.lease.clone(),
            end,
        };
        workman.say(FromWorker::TaskDone(done)).await;
        let FromServer::TaskSettled(settled) = workman.hear().await.unwrap() else {
            panic!("it is settled");
        };
        assert_eq!(settled.outcome(), v1::Outcome::Recorded, "and not retried");
        assert_eq!(settled.lease, task.lease);
        let cause = invalid_output(&run).await.cause;
        let kept = cause.is_some_and(|cause| cause.is("CardDeclined"));
        assert_eq!(kept, is_failure, "what it said is not lost");
    }
    let run = start_one(&place).await;
    let task = workman.task().await;
    workman.finish(&task, End::Result("1".into())).await;
    assert!(run.result().await.is_ok(), "in the same session");
}

#[tokio::test]
async fn heartbeat_that_cannot_be_read_fails_its_task_which_is_told_to_stop() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let mut workman = Workman::connect(&mut caller, greeter("w")).await.unwrap();
    let run = start_one(&place).await;
    let task = workman.task().await;
    let beat = v1::TaskHeartbeat {
        lease: task.lease.clone(),
        details: Some("Infinity".into()),
    };
    workman.say(FromWorker::Heartbeat(beat)).await;
    let FromServer::CancelTask(stop) = workman.hear().await.unwrap() else {
        panic!("there is no use in going on");
    };
    assert_eq!(stop.lease, task.lease);
    assert!(stop.reason.contains("heartbeat.details"), "{}", stop.reason);
    assert!(matches!(
        workman.hear().await,
        Ok(FromServer::TaskSettled(_))
    ));
    invalid_output(&run).await;
    let late = workman.finish(&task, End::Result("1".into())).await;
    assert_eq!(late, v1::Outcome::LeaseLost);
}

async fn claimed(caller: &mut Caller, count: usize) -> Vec<v1::Task> {
    let claim = v1::ClaimDurableTasksRequest {
        worker_id: "poller".to_owned(),
        activity_types: vec!["greet".to_owned()],
        max_tasks: 10,
        lease_ms: 60_000,
    };
    let mut tasks = Vec::new();
    while tasks.len() < count {
        let claimed = caller.claim_durable_tasks(claim.clone()).await.unwrap();
        tasks.extend(claimed.into_inner().tasks);
        tokio::task::yield_now().await;
    }
    tasks
}

#[tokio::test]
async fn item_of_a_call_that_cannot_be_read_is_its_own_trouble() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let runs = [start_one(&place).await, start_one(&place).await];
    let tasks = claimed(&mut caller, 2).await;
    let run_of = |task: &v1::Task| {
        let id = task.lease.as_ref().unwrap().run_id.clone();
        let run = runs.iter().find(|run| run.id().to_string() == id);
        run.expect("its run")
    };
    let beats = ["NaN", "1"].into_iter().zip(&tasks);
    let beats = beats.map(|(details, task)| v1::TaskHeartbeat {
        lease: task.lease.clone(),
        details: Some(details.into()),
    });
    let request = v1::HeartbeatDurableTaskRequest {
        tasks: beats.collect(),
        lease_ms: 0,
    };
    let held = caller.heartbeat_durable_task(request).await.unwrap();
    assert_eq!(held.into_inner().held, [false, true]);
    invalid_output(run_of(&tasks[0])).await;

    let third = start_one(&place).await;
    let more = claimed(&mut caller, 1).await;
    let ended = [(&more[0], "{"), (&tasks[1], "1")];
    let ended = ended.map(|(task, result)| v1::CompletedTask {
        lease: task.lease.clone(),
        result: result.into(),
    });
    let request = v1::CompleteDurableTaskRequest {
        tasks: ended.to_vec(),
    };
    let answer = caller.complete_durable_task(request).await.unwrap();
    let outcomes: Vec<_> = answer
        .into_inner()
        .outcomes
        .iter()
        .map(v1::TaskOutcome::outcome)
        .collect();
    assert_eq!(outcomes, [v1::Outcome::Recorded; 2]);
    invalid_output(&third).await;
    assert!(run_of(&tasks[1]).result().await.is_ok());
}

#[tokio::test]
async fn one_bad_start_starts_none_of_the_call() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let good = v1::NewWorkflow {
        workflow_type: "trip".to_owned(),
        ..v1::NewWorkflow::default()
    };
    let program = durable_program::PROGRAM_TYPE.to_owned();
    for (bad, named) in [
        (
            v1::NewWorkflow {
                workflow_type: program,
                input: "{\"steps\":[{\"do\":\"x\"}]}".into(),
                ..good.clone()
            },
            ".input: ",
        ),
        (
            v1::NewWorkflow {
                workflow_id: "a\0b".to_owned(),
                ..good.clone()
            },
            "workflow id holds a NUL",
        ),
        (
            v1::NewWorkflow {
                run_timeout_ms: Some(0),
                ..good.clone()
            },
            ".run_timeout_ms: ",
        ),
        (
            v1::NewWorkflow {
                execution_timeout_ms: Some(0),
                ..good.clone()
            },
            ".execution_timeout_ms: ",
        ),
        (
            v1::NewWorkflow {
                execution_timeout_ms: Some(u64::MAX),
                ..good.clone()
            },
            "workflow timeout is",
        ),
    ] {
        let request = v1::CreateDurableWorkflowRequest {
            workflows: vec![good.clone(), bad],
        };
        let refused = caller.create_durable_workflow(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        let message = refused.message();
        let is_named = message.starts_with("workflows[1]") && message.contains(named);
        assert!(is_named, "{refused}");
    }
    let runs = place.store.list_runs(RunFilter::default(), Page::default());
    assert_eq!(runs.await.unwrap().runs.len(), 0);
}

/// A host that nobody asks.
struct Nobody;

#[async_trait]
impl WorkflowHost for Nobody {
    async fn turn(&self, _: Activation) -> Result<Vec<Step>, HostError> {
        Err(HostError::Gone("nobody".to_owned()))
    }

    fn forget(&self, _: Uuid) {}
}

#[tokio::test]
async fn types_that_no_store_takes_keep_nobody_elses_runs_from_being_claimed() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let hosting = place.client().hosting().expect("beside its engine");
    let hosted = |name: String, version: String| HostedType {
        workflow_type: name,
        version,
    };
    // More of the same build than one claim may name, and a build whose claims are refused before those of the others.
    let many = (0..10_000).map(|number| hosted(format!("t{number}"), String::new()));
    let many = hosting.attach_workflows(Arc::new(Nobody), many.collect(), "one".to_owned());
    let bad = BTreeSet::from([hosted("q".to_owned(), "v".repeat(1_000))]);
    let bad = hosting.attach_workflows(Arc::new(Nobody), bad, "an earlier one".to_owned());
    let host = v1::Hello {
        workflow_types: vec![workflow_type("trip")],
        ..hello("w")
    };
    let mut workman = Workman::connect(&mut caller, host).await.unwrap();
    // Started by a process that hosts nothing: it comes by a claim.
    let client = Client::on(Arc::clone(&place.store));
    let run = client.start_named("trip", Payload::null()).await.unwrap();
    let first = workman.activation().await;
    let end = Action::CompleteWorkflow(v1::CompleteWorkflow::default());
    workman.answer(&first, vec![step(vec![end])]).await;
    assert!(run.result().await.is_ok());
    drop((many, bad));
}

#[tokio::test]
async fn hello_that_no_store_keeps_is_refused() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let versioned = |version: String| v1::Hello {
        workflow_types: vec![v1::WorkflowType {
            workflow_type: "trip".to_owned(),
            version,
        }],
        ..hello("w")
    };
    for version in ["v".repeat(1_000), "\0".to_owned()] {
        let refused = Workman::connect(&mut caller, versioned(version)).await;
        let refused = refused.err().expect("refused");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(
            refused.message().contains("hello.workflow_types.version"),
            "{refused}"
        );
    }
}

async fn raw(place: &Place) -> Grpc<Channel> {
    let endpoint = Endpoint::from_shared(place.url.clone()).unwrap();
    let mut grpc = Grpc::new(endpoint.connect().await.unwrap());
    grpc.ready().await.unwrap();
    grpc
}

/// Sends one message where another is expected, by a call and by a session.
async fn sent<T: prost::Message + Clone + Default + 'static>(
    place: &Place,
    message: T,
) -> [Status; 2] {
    let path = "/durable.v1.Worker/CreateDurableWorkflow".parse().unwrap();
    let codec = ProstCodec::<T, v1::CreateDurableWorkflowResponse>::default();
    let call = raw(place)
        .await
        .unary(Request::new(message.clone()), path, codec)
        .await;
    let path = "/durable.v1.Worker/Session".parse().unwrap();
    let codec = ProstCodec::<T, v1::ServerMessage>::default();
    let messages = tokio_stream::once(message).into_streaming_request();
    let session = raw(place).await.streaming(messages, path, codec).await;
    let mut session = session.expect("it is open").into_inner();
    [
        call.expect_err("refused"),
        session.message().await.expect_err("refused"),
    ]
}

#[tokio::test]
async fn message_that_is_none_and_one_that_is_too_large_have_the_codes_of_the_contract() {
    let place = Place::open().await;
    // A number where a message should be.
    for refused in sent(&place, v1::Slots { task_slots: 7 }).await {
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    let large = v1::CompletedTask {
        result: vec![b'1'; REQUEST_BYTES_MAX].into(),
        ..v1::CompletedTask::default()
    };
    for refused in sent(&place, large).await {
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    }
}

#[tokio::test]
async fn name_of_a_worker_is_that_of_its_newest_session() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let slots = async || {
        let workers = place.store.list_workers(WorkerFilter::default());
        let workers = workers.await.unwrap().into_iter();
        let mut own = workers.filter(|worker| worker.id == "w");
        own.next().map(|worker| worker.max_concurrency)
    };
    let until = async |wanted: Option<u32>| {
        while slots().await != wanted {
            tokio::task::yield_now().await;
        }
    };
    let with_slots = |task_slots| v1::Hello {
        task_slots,
        ..greeter("w")
    };
    let first = Workman::connect(&mut caller, with_slots(1)).await.unwrap();
    until(Some(1)).await;
    let second = Workman::connect(&mut caller, with_slots(2)).await.unwrap();
    until(Some(2)).await;
    let third = Workman::connect(&mut caller, with_slots(3)).await.unwrap();
    until(Some(3)).await;
    third.leave().await;
    while let there = slots().await
        && there != Some(2)
    {
        assert_eq!(there, Some(3), "it is there all the time");
        tokio::task::yield_now().await;
    }
    first.leave().await;
    second.leave().await;
    until(None).await;
}
