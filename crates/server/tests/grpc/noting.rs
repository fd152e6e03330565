//! What comes over gRPC leaves audit rows too, in the name of whoever calls.

use durable_proto::v1;
use durable_server::auth::Role;
use everruns_durable::core::Payload;
use everruns_durable::persistence::model::{AuditFilter, Page};
use everruns_durable::remote::Connect;
use everruns_durable::{Client, Worker};

use crate::place::{Place, token_of};
use crate::remote::order;

/// Who did what, oldest first.
async fn rows(place: &Place) -> Vec<(String, String)> {
    let page = Page::default();
    let rows = place.store.list_audit(AuditFilter::default(), page).await;
    let rows = rows.expect("listed").into_iter().rev();
    rows.map(|row| (row.actor, row.action)).collect()
}

fn by(actor: &str, actions: &[&str]) -> Vec<(String, String)> {
    let row = |action: &&str| (actor.to_owned(), (*action).to_owned());
    actions.iter().map(row).collect()
}

#[tokio::test]
async fn what_a_client_changes_through_a_server_is_noted_and_what_it_reads_is_not() {
    let place = Place::guarded().await;
    let connect = Connect::to(&place.url).token(token_of(Role::Operator));
    let client = Client::connect(connect).await.expect("connects");
    let run = client.start_named("order", Payload::null()).await;
    let run_id = run.expect("starts").id();
    client.get(run_id).await.expect("read");
    client.signal(run_id, "stamp", "one").await.expect("sent");
    client.terminate(run_id, "enough").await.expect("ended");
    let again = client.terminate(run_id, "enough").await;
    assert!(again.expect_err("it has ended").is_run_finished());
    let actions = ["start_runs", "send_signals", "terminate_runs"];
    assert_eq!(rows(&place).await, by("operator", &actions));
    let filter = AuditFilter::default();
    let listed = client.list_audit(filter, Page::default()).await;
    assert!(listed.expect_err("it is for admins").is_denied());
}

#[tokio::test]
async fn each_start_of_a_call_leaves_a_row() {
    let place = Place::guarded().await;
    let mut caller = place.caller(Some(token_of(Role::Admin))).await;
    let new = |key: &str| v1::NewWorkflow {
        workflow_type: "order".to_owned(),
        input: "null".into(),
        idempotency_key: key.to_owned(),
        ..v1::NewWorkflow::default()
    };
    for _ in 0..2 {
        let workflows = vec![new("a"), new("b"), new("c")];
        let request = v1::CreateDurableWorkflowRequest { workflows };
        let created = caller.create_durable_workflow(request).await;
        created.expect("created");
    }
    let expected = by("admin", &["CreateDurableWorkflow"; 3]);
    assert_eq!(rows(&place).await, expected, "repeated, it starts nothing");
}

#[tokio::test]
async fn the_work_of_workers_leaves_no_rows() {
    let place = Place::guarded().await;
    let connect = Connect::to(&place.url).token(token_of(Role::Worker));
    let worker = Worker::connect(connect).workflow::<order>();
    let worker = worker.start().await.expect("connects");
    let client = place.client();
    let run = client.start_named("order", Payload::null()).await;
    let run = run.expect("starts");
    // The input is no parcel: its first turn ends it.
    run.result().await.expect_err("it fails");
    worker.shutdown().await.expect("stops");
    assert_eq!(rows(&place).await, []);
}
