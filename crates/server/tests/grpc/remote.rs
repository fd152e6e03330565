//! Engines and clients of the Rust library that work through a server.

use std::time::Duration;

use durable_server::auth::{Access, Permission, Role, TokenRecord};
use durable_testkit::audit;
use everruns_durable::persistence::model::{RunFilter, WorkflowStatus};
use everruns_durable::prelude::*;
use everruns_durable::remote::{Connect, Door, Method};
use everruns_durable::{Client, Worker};

use crate::place::{Place, token_of};

#[activity]
async fn pack(parcel: String) -> ActivityResult<String> {
    Ok(format!("{parcel} in a box"))
}

#[workflow]
async fn ship(ctx: WorkflowContext, parcel: String) -> WorkflowResult<String> {
    let stamp: String = ctx.signal("stamp").await?;
    Ok(format!("{parcel} with {stamp}"))
}

/// An activity, a timer, a child; the child waits for a signal.
#[workflow]
pub(crate) async fn order(ctx: WorkflowContext, parcel: String) -> WorkflowResult<String> {
    let packed = ctx.activity::<pack>(parcel).await?;
    ctx.sleep("PT0.02S").await?;
    let child = ctx.child::<ship>(packed);
    ctx.set_attribute("shipment", child.run_id().to_string());
    child.await
}

/// Nobody looks for work by itself: what is not rung for is not done before the test gives up.
fn blind(
    engine: everruns_durable::engine::EngineBuilder,
) -> everruns_durable::engine::EngineBuilder {
    engine.configure(|settings| {
        settings.chores.fallback_poll = Duration::from_secs(3600);
        settings.worker.poll_interval = Duration::from_secs(3600);
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_code_runs_through_a_server() {
    let place = Place::open().await;
    let worker = Worker::connect(&place.url)
        .workflow::<order>()
        .workflow::<ship>()
        .activity(pack);
    let worker = blind(worker).start().await.expect("connects");
    let client = Client::connect(&place.url).await.expect("connects");

    let run = client
        .start::<order>("cups".to_owned())
        .await
        .expect("starts");
    let child = loop {
        let children = RunFilter {
            parent: Some(run.id()),
            ..RunFilter::default()
        };
        let found = place.store.list_runs(children, Page::default()).await;
        if let Some(child) = found.expect("listed").runs.pop() {
            break child.id;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    client
        .signal(child, "stamp", "a stamp")
        .await
        .expect("sent");
    assert_eq!(
        run.result().await.expect("a result"),
        "cups in a box with a stamp"
    );

    let seen = place.client().get(run.id()).await.expect("there");
    assert_eq!(seen.status, WorkflowStatus::Completed);
    worker.shutdown().await.expect("stops");
    let report = audit::audit(&*place.store, None).await.expect("audited");
    assert!(report.is_clean(), "{report}");
}

#[tokio::test]
async fn a_token_that_may_not_work_is_refused_before_anything_starts() {
    let place = Place::guarded().await;
    for role in Role::ALL {
        let connect = Connect::to(&place.url).token(token_of(role));
        let started = Worker::connect(connect).workflow::<ship>().start().await;
        let may = role.permits(Permission::RunTasks);
        assert_eq!(started.is_ok(), may, "{role}");
        match started {
            Ok(worker) => worker.shutdown().await.expect("stops"),
            Err(error) => assert!(error.is_denied(), "{role}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_worker_works_with_its_own_token_and_may_do_nothing_else() {
    let place = Place::guarded().await;
    let connect = |role| Connect::to(&place.url).token(token_of(role));
    let worker = Worker::connect(connect(Role::Worker)).workflow::<ship>();
    let worker = worker.start().await.expect("connects");
    let denied = |error: everruns_durable::Error| {
        let text = error.to_string();
        assert!(
            text.contains("not permitted") && text.contains("worker"),
            "{text}"
        );
    };
    denied(
        worker
            .client()
            .start::<ship>("cups".to_owned())
            .await
            .expect_err("denied"),
    );

    let operator = Client::connect(connect(Role::Operator))
        .await
        .expect("connects");
    let run = operator
        .start::<ship>("cups".to_owned())
        .await
        .expect("starts");
    denied(
        worker
            .client()
            .signal(run.id(), "stamp", "none")
            .await
            .expect_err("denied"),
    );
    denied(
        worker
            .client()
            .terminate(run.id(), "why")
            .await
            .expect_err("denied"),
    );
    operator
        .signal(run.id(), "stamp", "a stamp")
        .await
        .expect("sent");
    assert_eq!(run.result().await.expect("a result"), "cups with a stamp");

    let reader = Client::connect(connect(Role::Reader))
        .await
        .expect("connects");
    assert_eq!(
        reader.get(run.id()).await.expect("seen").status,
        WorkflowStatus::Completed
    );
    assert!(reader.start::<ship>("cups".to_owned()).await.is_err());
    for connect in [
        Connect::to(&place.url),
        Connect::to(&place.url).token("nobody's"),
    ] {
        let error = Client::connect(connect)
            .await
            .err()
            .expect("kept out")
            .to_string();
        assert!(error.contains("not permitted"), "{error}");
    }
}

#[tokio::test]
async fn a_token_with_scopes_reaches_only_those() {
    let mut record = TokenRecord::new("shipping", Role::Admin, "secret");
    record.workflow_types = Some(durable_server::auth::Names::new(["ship"]));
    let place = Place::with(Access::guarded(vec![record], None).expect("no file")).await;
    let client = Client::connect(Connect::to(&place.url).token("secret")).await;
    let client = client.expect("connects");
    let inside = client
        .start::<ship>("cups".to_owned())
        .await
        .expect("starts");
    assert!(client.get(inside.id()).await.is_ok());
    let outside = place
        .client()
        .start::<order>("cups".to_owned())
        .await
        .expect("starts");
    let refusals = [
        client.start::<order>("cups".to_owned()).await.err(),
        client.get(outside.id()).await.err(),
        client.signal(outside.id(), "stamp", "none").await.err(),
        client.store().counts().await.err().map(Into::into),
        client
            .store()
            .list_runs(RunFilter::default(), Page::default())
            .await
            .err()
            .map(Into::into),
    ];
    for refusal in refusals {
        let text = refusal.expect("out of scope").to_string();
        assert!(
            text.contains("not permitted") && text.contains("shipping"),
            "{text}"
        );
    }
}

/// Every method of the contract, by every role: what the table of doors says is what happens.
#[tokio::test]
async fn every_method_of_the_contract_goes_through_its_doors_only() {
    let place = Place::guarded().await;
    for role in Role::ALL {
        let opens = |door: &Door| {
            role.permits(match door {
                Door::Work => durable_server::auth::Permission::RunTasks,
                Door::Read => durable_server::auth::Permission::Read,
                Door::Start => durable_server::auth::Permission::Start,
                Door::Signal => durable_server::auth::Permission::Signal,
                Door::Operate => durable_server::auth::Permission::Operate,
            })
        };
        for method in Method::ALL {
            for door in Door::ALL {
                let answer = place.knock(role, door, method.name(), b"\xc1").await;
                let code = answer.map_or_else(|status| status.code(), |()| tonic::Code::Ok);
                let expected = if !opens(&door) {
                    tonic::Code::PermissionDenied
                } else if method.doors().contains(&door) {
                    // Let in, and found to be no call at all.
                    tonic::Code::InvalidArgument
                } else {
                    // Told in the contract's own words that this is not the way.
                    tonic::Code::Ok
                };
                assert_eq!(code, expected, "{role}, {door:?}, {}", method.name());
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_so() {
    let connect = Connect::to("http://127.0.0.1:1").patience(Duration::from_millis(150));
    let error = Client::connect(connect)
        .await
        .err()
        .expect("nobody there")
        .to_string();
    assert!(
        error.contains("no server answers at http://127.0.0.1:1"),
        "{error}"
    );
}

#[tokio::test]
async fn a_start_waits_for_a_server_that_comes_late() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("bound");
    let late = async {
        // Comes when one attempt has failed.
        drop(listener.accept().await.expect("an attempt"));
        Place::listening(Access::open(), listener, |_| {}).await
    };
    let (place, client) = tokio::join!(late, Client::connect(format!("http://{address}")));
    let client = client.expect("connects once it is there");
    assert!(client.store().clock(None).await.is_ok());
    drop(place);
}
