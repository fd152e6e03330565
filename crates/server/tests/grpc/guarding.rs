//! Who is let in, and what is refused.

use std::time::Duration;

use durable_proto::v1;
use durable_server::auth::{Access, Names, Permission, Role, TokenFile, TokenRecord};
use durable_server::grpc::{Admission, METHODS, REQUEST_BYTES_MAX};
use everruns_durable::Client;
use everruns_durable::core::Payload;
use everruns_durable::remote::Connect;
use tonic::codec::CompressionEncoding;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use v1::worker_message::Message as FromWorker;

use crate::place::{Caller, Place, token_of};
use crate::workman::{Workman, hello};

/// Calls a method with nothing in it; what matters is who is let through to it.
async fn call(caller: &mut Caller, method: &str) -> Result<(), Status> {
    let name = method.rsplit('/').next().expect("a path");
    match name {
        "Session" => Workman::silent(caller).await.map(drop),
        "ClaimDurableTasks" => caller
            .claim_durable_tasks(v1::ClaimDurableTasksRequest::default())
            .await
            .map(drop),
        "CompleteDurableTask" => caller
            .complete_durable_task(v1::CompleteDurableTaskRequest::default())
            .await
            .map(drop),
        "FailDurableTask" => caller
            .fail_durable_task(v1::FailDurableTaskRequest::default())
            .await
            .map(drop),
        "HeartbeatDurableTask" => caller
            .heartbeat_durable_task(v1::HeartbeatDurableTaskRequest::default())
            .await
            .map(drop),
        "ReleaseDurableTask" => caller
            .release_durable_task(v1::ReleaseDurableTaskRequest::default())
            .await
            .map(drop),
        "SubscribeTaskNotifications" => caller
            .subscribe_task_notifications(v1::SubscribeTaskNotificationsRequest::default())
            .await
            .map(drop),
        "CreateDurableWorkflow" => caller
            .create_durable_workflow(v1::CreateDurableWorkflowRequest::default())
            .await
            .map(drop),
        "GetDurableWorkflowStatus" => caller
            .get_durable_workflow_status(v1::GetDurableWorkflowStatusRequest::default())
            .await
            .map(drop),
        other => panic!("the test does not know {other}"),
    }
}

#[tokio::test]
async fn every_method_is_for_the_roles_that_its_line_says() {
    let place = Place::guarded().await;
    let own = METHODS
        .iter()
        .filter(|(method, _)| method.starts_with("/durable.v1.Worker/"));
    for (method, admission) in own {
        let Admission::Needs(permission) = admission else {
            panic!("{method} is open to all");
        };
        for role in Role::ALL {
            let mut caller = place.caller(Some(token_of(role))).await;
            let code = call(&mut caller, method)
                .await
                .err()
                .map(|status| status.code());
            let let_in =
                code != Some(Code::PermissionDenied) && code != Some(Code::Unauthenticated);
            assert_eq!(
                let_in,
                role.permits(*permission),
                "{role} at {method}: {code:?}"
            );
        }
        for token in [None, Some("nobody's".to_owned())] {
            let mut caller = place.caller(token).await;
            let refused = call(&mut caller, method).await.expect_err(method);
            assert_eq!(refused.code(), Code::Unauthenticated, "{method}");
        }
    }
    assert!(Role::Worker.permits(Permission::RunTasks));
}

#[tokio::test]
async fn health_is_for_everybody_and_changes_when_the_server_drains() {
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
    let place = Place::guarded().await;
    let endpoint = Endpoint::from_shared(place.url.clone()).unwrap();
    let mut health = HealthClient::new(endpoint.connect().await.unwrap());
    let request = HealthCheckRequest {
        service: "durable.v1.Worker".to_owned(),
    };
    let answer = health.check(request.clone()).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);
    let mut watch = health.watch(request).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    place.app.draining().cancel();
    let changed = watch.message().await.unwrap().unwrap();
    assert_eq!(changed.status(), ServingStatus::NotServing);
}

#[tokio::test]
async fn what_is_not_served_is_said_so() {
    let place = Place::open().await;
    let endpoint = Endpoint::from_shared(place.url.clone()).unwrap();
    let mut grpc = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
    grpc.ready().await.unwrap();
    let path = "/durable.v1.Worker/Nothing".parse().unwrap();
    let codec = tonic_prost::ProstCodec::<v1::Slots, v1::Slots>::default();
    let refused = grpc
        .unary(Request::new(v1::Slots::default()), path, codec)
        .await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn message_that_is_too_large_once_unpacked_is_refused() {
    let place = Place::open().await;
    let caller = place.caller(None).await;
    let mut caller = caller.send_compressed(CompressionEncoding::Gzip);
    let bomb = v1::CreateDurableWorkflowRequest {
        workflows: vec![v1::NewWorkflow {
            workflow_type: "t".to_owned(),
            input: vec![b'1'; REQUEST_BYTES_MAX + 1].into(),
            ..v1::NewWorkflow::default()
        }],
    };
    let refused = caller.create_durable_workflow(bomb).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
}

#[tokio::test]
async fn mistakes_are_named() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    for (said, named) in [
        (v1::Hello::default(), "worker_id"),
        (hello("w"), "activity_types"),
        (
            v1::Hello {
                holding: vec![v1::Lease::default()],
                activity_types: vec!["a".to_owned()],
                ..hello("w")
            },
            "lease.run_id",
        ),
    ] {
        let refused = Workman::connect(&mut caller, said).await.err().unwrap();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains(named), "{refused}");
    }
    let mut rude = Workman::silent(&mut caller).await.unwrap();
    rude.say(FromWorker::Slots(v1::Slots::default())).await;
    assert_eq!(rude.hear().await.unwrap_err().code(), Code::InvalidArgument);
    let start = |input: &'static str| v1::CreateDurableWorkflowRequest {
        workflows: vec![v1::NewWorkflow {
            workflow_type: "t".to_owned(),
            input: input.into(),
            ..v1::NewWorkflow::default()
        }],
    };
    let refused = caller
        .create_durable_workflow(start("{"))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(
        refused.message().contains("workflows[0].input"),
        "{refused}"
    );
}

#[tokio::test]
async fn starting_twice_under_one_key_is_starting_once() {
    let place = Place::open().await;
    let mut caller = place.caller(None).await;
    let new = |input: &'static str| v1::NewWorkflow {
        workflow_type: "t".to_owned(),
        input: input.into(),
        idempotency_key: "k".to_owned(),
        ..v1::NewWorkflow::default()
    };
    let mut start = async |input| {
        let workflows = vec![new(input)];
        let request = v1::CreateDurableWorkflowRequest { workflows };
        let answer = caller.create_durable_workflow(request).await.unwrap();
        answer.into_inner().workflows.remove(0)
    };
    let first = start("1").await;
    assert!(first.created && !first.run_id.is_empty());
    let second = start("1").await;
    assert_eq!((second.run_id, second.created), (first.run_id, false));
    let other = start("2").await;
    assert!(!other.refusal.is_empty() && !other.created);
}

#[tokio::test]
async fn a_token_for_some_types_hosts_no_others() {
    let mut token = TokenRecord::new("w", Role::Worker, "secret");
    token.queues = Some(Names::new(["mail.*"]));
    token.workflow_types = Some(Names::new(["trip"]));
    let place = Place::with(Access::guarded(vec![token], None).unwrap()).await;
    let mut caller = place.caller(Some("secret".to_owned())).await;
    let activities = |name: &str| v1::Hello {
        activity_types: vec![name.to_owned()],
        ..hello("w")
    };
    assert!(
        Workman::connect(&mut caller, activities("mail.send"))
            .await
            .is_ok()
    );
    let refused = Workman::connect(&mut caller, activities("pay")).await;
    assert_eq!(refused.err().unwrap().code(), Code::PermissionDenied);
    let hosts = v1::Hello {
        workflow_types: vec![crate::workman::workflow_type("other")],
        ..hello("w")
    };
    let refused = Workman::connect(&mut caller, hosts).await;
    assert_eq!(refused.err().unwrap().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn keys_of_runs_of_other_types_lead_a_scoped_token_nowhere() {
    let mut token = TokenRecord::new("o", Role::Operator, "secret");
    token.workflow_types = Some(Names::new(["trip"]));
    let admin = TokenRecord::new("a", Role::Admin, "all");
    let access = Access::guarded(vec![token, admin], None).unwrap();
    let place = Place::with(access).await;
    let start = async |token: &str, new: v1::NewWorkflow| {
        let mut caller = place.caller(Some(token.to_owned())).await;
        let workflows = vec![new];
        let request = v1::CreateDurableWorkflowRequest { workflows };
        let answer = caller.create_durable_workflow(request).await.unwrap();
        answer.into_inner().workflows.remove(0)
    };
    let of_type = |name: &str| v1::NewWorkflow {
        workflow_type: name.to_owned(),
        workflow_id: "id".to_owned(),
        idempotency_key: "key".to_owned(),
        reuse_policy: v1::ReusePolicy::TerminateIfRunning.into(),
        ..v1::NewWorkflow::default()
    };
    let foreign = start("all", of_type("payroll")).await;
    let by_id = v1::NewWorkflow {
        idempotency_key: String::new(),
        ..of_type("trip")
    };
    let by_key = v1::NewWorkflow {
        workflow_id: String::new(),
        ..of_type("trip")
    };
    for own in [by_id, by_key] {
        let refused = start("secret", own).await;
        assert!(refused.refusal.contains("may not use"), "{refused:?}");
        assert!(!refused.refusal.contains(&foreign.run_id), "{refused:?}");
    }
    let client = Client::connect(Connect::to(&place.url).token("secret")).await;
    let own = client.unwrap().start_named("trip", Payload::null());
    let own = own.workflow_id("id").signal("go", &Payload::null());
    assert!(own.await.err().unwrap().is_denied());
    let dump = place.store.dump().await.unwrap();
    assert_eq!(dump.runs.len(), 1, "{dump:?}");
    assert!(!dump.runs[0].run.status.is_terminal(), "{dump:?}");
}

#[tokio::test]
async fn revoked_token_ends_the_streams_it_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let keep = |tokens: Vec<TokenRecord>| TokenFile { tokens }.write(&path).unwrap();
    keep(vec![TokenRecord::new("w", Role::Worker, "secret")]);
    let place = Place::with(Access::guarded(Vec::new(), Some(path.clone())).unwrap()).await;
    let secret = || Some("secret".to_owned());
    let mut caller = place.caller(secret()).await;
    let activities = v1::Hello {
        activity_types: vec!["mail".to_owned()],
        ..hello("w")
    };
    let mut workman = Workman::connect(&mut caller, activities).await.unwrap();
    let request = v1::SubscribeTaskNotificationsRequest::default();
    let news = caller.subscribe_task_notifications(request).await.unwrap();
    let mut news = news.into_inner();
    assert!(news.message().await.unwrap().is_some(), "it is open");
    let mut rings = place.rings(secret()).await;

    keep(Vec::new());
    let refused = patient(workman.hear()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    let refused = patient(news.message()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    let refused = patient(async {
        loop {
            match rings.message().await {
                Ok(ring) => assert!(ring.is_some(), "it ends with a reason"),
                Err(refused) => return refused,
            }
        }
    });
    assert_eq!(refused.await.code(), Code::Unauthenticated);
}

/// Waits no longer than what should come could ever take.
async fn patient<T>(something: impl Future<Output = T>) -> T {
    let patience = Duration::from_secs(60);
    let came = tokio::time::timeout(patience, something).await;
    came.expect("it comes")
}

#[tokio::test]
async fn starts_are_refused_with_a_time_to_come_back_when_too_much_waits() {
    let place = Place::overloaded().await;
    let workflows = vec![v1::NewWorkflow {
        workflow_type: "order".to_owned(),
        ..v1::NewWorkflow::default()
    }];
    let request = v1::CreateDurableWorkflowRequest { workflows };
    let mut caller = place.caller(None).await;
    let refused = caller.create_durable_workflow(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(
        refused.metadata().get("grpc-retry-pushback-ms").unwrap(),
        "5000"
    );

    let client = Client::connect(&place.url).await.unwrap();
    let refused = client.start_named("order", Payload::null()).await;
    let refused = refused.err().unwrap();
    assert!(refused.is_overloaded(), "{refused}");
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(5)));
    let dump = place.store.dump().await.unwrap();
    assert!(dump.runs.is_empty(), "{dump:?}");
}
