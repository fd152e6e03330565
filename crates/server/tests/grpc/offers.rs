//! Runs that are started through a server begin with their start, in the hands of an engine that is connected to it.

use std::sync::Arc;
use std::time::Duration;

use durable_proto::v1::StoreAnswer;
use durable_proto::v1::store_client::StoreClient;
use durable_server::auth::{Access, Role};
use durable_testkit::faults::{FaultRates, FaultyStore};
use everruns_durable::persistence::model::{AuditFilter, RunRecord};
use everruns_durable::persistence::{MemoryStore, WorkflowEventStore};
use everruns_durable::prelude::*;
use everruns_durable::remote::Connect;
use everruns_durable::{Client, Worker};
use tonic::transport::Endpoint;
use tonic::{Code, Request};
use uuid::Uuid;

use crate::place::{Place, token_of};

#[activity]
async fn weigh(parcel: String) -> ActivityResult<usize> {
    Ok(parcel.len())
}

#[workflow]
async fn parcel(ctx: WorkflowContext, name: String) -> WorkflowResult<usize> {
    ctx.activity::<weigh>(name).await
}

#[workflow]
async fn greet(_ctx: WorkflowContext, name: String) -> WorkflowResult<String> {
    Ok(format!("hello {name}"))
}

/// Whether start and first turn were one commit: then they have the same instant.
fn began_with_its_start(run: &RunRecord) -> bool {
    run.started_at == Some(run.created_at)
}

/// How often each method was called.
fn calls<const N: usize>(store: &FaultyStore, methods: [&str; N]) -> [u64; N] {
    let counts = store.faults();
    methods.map(|method| counts.get(method).map_or(0, |counts| counts.calls))
}

/// Starts runs until one begins with its start: the engine says what it hosts when it gets round to it.
async fn until_offered(client: &Client, place: &Place) -> Uuid {
    for _ in 0..1_000 {
        let run = client.start::<parcel>("cups".to_owned()).await;
        let run = run.expect("starts");
        assert_eq!(run.result().await.expect("a result"), 4);
        let seen = place.client().get(run.id()).await.expect("there");
        if began_with_its_start(&seen) {
            return run.id();
        }
    }
    panic!("no run begins with its start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_through_a_server_is_two_commits_and_no_claim() {
    let memory: Arc<dyn WorkflowEventStore> = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::new(memory, 0, FaultRates::NONE));
    let place = Place::over(Arc::clone(&store) as _, Access::open()).await;
    let worker = Worker::connect(&place.url).workflow::<parcel>();
    let worker = worker.activity(weigh).start().await.expect("connects");
    let client = Client::connect(&place.url).await.expect("connects");
    until_offered(&client, &place).await;
    let hot = ["start_runs", "commit_turns", "finish_tasks", "load_history"];
    let before = calls(&store, hot);
    let run = client.start::<parcel>("cups".to_owned()).await;
    run.expect("starts").result().await.expect("a result");
    let cost = calls(&store, hot).into_iter().zip(before);
    let cost: Vec<u64> = cost.map(|(after, before)| after - before).collect();
    assert_eq!(cost, [0, 2, 0, 0], "{hot:?}");
    worker.shutdown().await.expect("stops");
}

/// Whoever waits is told of the end by the commit itself, and does not come to look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_with_its_start_is_one_commit_and_its_end_is_told() {
    let memory: Arc<dyn WorkflowEventStore> = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::new(memory, 0, FaultRates::NONE));
    let place = Place::over(Arc::clone(&store) as _, Access::open()).await;
    let worker = Worker::connect(&place.url).workflow::<parcel>();
    let worker = worker.workflow::<greet>().activity(weigh).start().await;
    let worker = worker.expect("connects");
    let client = place.client();
    until_offered(&client, &place).await;
    let hot = ["start_runs", "commit_turns", "get_run"];
    let before = calls(&store, hot);
    let run = client.start::<greet>("you".to_owned()).await;
    let greeting = run.expect("starts").result().await;
    assert_eq!(greeting.expect("a result"), "hello you");
    let cost = calls(&store, hot).into_iter().zip(before);
    let cost: Vec<u64> = cost.map(|(after, before)| after - before).collect();
    assert_eq!(cost, [0, 1, 0], "{hot:?}");
    worker.shutdown().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_starts_a_run_is_noted_and_not_the_engine_that_begins_it() {
    let place = Place::guarded().await;
    let connect = |role| Connect::to(&place.url).token(token_of(role));
    let worker = Worker::connect(connect(Role::Worker)).workflow::<parcel>();
    let worker = worker.activity(weigh).start().await.expect("connects");
    let client = Client::connect(connect(Role::Operator)).await;
    let run_id = until_offered(&client.expect("connects"), &place).await;
    let rows = place
        .store
        .list_audit(AuditFilter::default(), Page::default());
    let rows = rows.await.expect("listed");
    let of_run: Vec<_> = rows
        .iter()
        .filter(|row| row.target.id == run_id.to_string())
        .map(|row| (&*row.actor, &*row.action))
        .collect();
    assert_eq!(of_run, [("operator", "start_runs")]);
    worker.shutdown().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_never_answers_only_costs_time() {
    let place = Place::open().await;
    let endpoint = Endpoint::from_shared(place.url.clone()).expect("a URL");
    let mut caller = StoreClient::new(endpoint.connect_lazy());
    let (say, said) = tokio::sync::mpsc::unbounded_channel();
    let answers = tokio_stream::wrappers::UnboundedReceiverStream::new(said);
    // {"Hosting": [{"workflow_type": "parcel", "version": ""}]}
    let body = b"\x81\xa7Hosting\x91\x82\xadworkflow_type\xa6parcel\xa7version\xa0";
    let body = (&body[..]).into();
    say.send(StoreAnswer { body }).expect("said");
    let mut offers = caller.offers(answers).await.expect("let in").into_inner();
    let client = Client::connect(&place.url).await.expect("connects");
    let start = client.start::<parcel>("cups".to_owned());
    let (run, offer) = tokio::join!(start, offers.message());
    assert!(!offer.expect("a message").expect("an offer").body.is_empty());
    let run = run.expect("starts all the same");
    let worker = Worker::connect(&place.url).workflow::<parcel>();
    let worker = worker.activity(weigh).start().await.expect("connects");
    assert_eq!(run.result().await.expect("a result"), 4);
    // What makes no sense ends the stream, and nothing else.
    say.send(StoreAnswer { body: "x".into() }).expect("said");
    let refused = loop {
        match offers.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it is told why"),
            Err(status) => break status,
        }
    };
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    worker.shutdown().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_turn_that_is_too_large_for_an_answer_goes_the_usual_way() {
    let place = Place::open().await;
    let worker = Worker::connect(&place.url).workflow::<parcel>();
    let worker = worker.activity(weigh).start().await.expect("connects");
    let client = Client::connect(&place.url).await.expect("connects");
    until_offered(&client, &place).await;
    // It is in the turn twice: as the event's and as the task's.
    let large = "x".repeat(700 << 10);
    let run = client.start::<parcel>(large.clone()).await;
    let run = run.expect("starts");
    let ended = tokio::time::timeout(Duration::from_secs(60), run.result());
    let weight = ended.await.expect("it is not lost").expect("a result");
    assert_eq!(weight, large.len());
    worker.shutdown().await.expect("stops");
}

#[tokio::test]
async fn who_may_not_work_is_offered_nothing() {
    let place = Place::guarded().await;
    for role in Role::ALL {
        let endpoint = Endpoint::from_shared(place.url.clone()).expect("a URL");
        let mut caller = StoreClient::new(endpoint.connect_lazy());
        let mut request = Request::new(tokio_stream::empty::<StoreAnswer>());
        let value = format!("Bearer {}", token_of(role));
        let value = value.parse().expect("a header");
        request.metadata_mut().insert("authorization", value);
        let may = role.permits(durable_server::auth::Permission::RunTasks);
        assert_eq!(caller.offers(request).await.is_ok(), may, "{role}");
    }
}
