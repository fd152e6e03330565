//! Which calls the server's store takes from outside: no clock, no dump, chores by their own
//! permission.

use std::time::Duration;

use durable_server::auth::{Permission, Role};
use everruns_durable::Client;
use everruns_durable::core::{Payload, Timestamp};
use everruns_durable::persistence::model::{
    AuditFilter, AuditKind, ClaimOutbox, ClaimTasks, ClaimTurns, FireDue, HostedType, NewSignal,
    Page, PurgeOld, PurgeRuns, ReapLeases, RelayMessages, SendSignal, StartRun, TerminateRun,
    WorkflowStatus,
};
use everruns_durable::persistence::{StoreError, StoreResult};
use everruns_durable::prelude::*;
use everruns_durable::remote::{Connect, Door, Method};
use uuid::Uuid;

use crate::place::{Place, token_of};

#[workflow]
async fn hibernate(ctx: WorkflowContext, _: ()) -> WorkflowResult<()> {
    ctx.sleep(Duration::from_secs(365 * 24 * 60 * 60)).await
}

async fn connected(place: &Place, role: Role) -> Client {
    let connect = Connect::to(&place.url).token(token_of(role));
    Client::connect(connect).await.expect("connects")
}

fn far_ahead() -> Timestamp {
    "2100-01-01T00:00:00Z".parse().expect("an instant")
}

fn due(now: Option<Timestamp>) -> FireDue {
    FireDue {
        max: 100,
        first_shard: 0,
        jitter: 0.0,
        now,
    }
}

fn purge(now: Option<Timestamp>) -> PurgeRuns {
    PurgeRuns {
        finished_before: Timestamp::UNIX_EPOCH,
        max: 100,
        first_shard: 0,
        now,
    }
}

fn refused<T>(what: &str, answer: StoreResult<T>) {
    match answer {
        Err(StoreError::Denied(why)) => assert!(why.contains("`now`"), "{what}: {why}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: carried out by the caller's clock"),
    }
}

#[tokio::test]
async fn a_caller_may_not_say_what_time_it_is() {
    let place = Place::open().await;
    let client = Client::connect(&place.url).await.expect("connects");
    let store = client.store();
    let now = Some(far_ahead());
    let id = Uuid::from_u128(7);

    refused("clock", store.clock(now).await);
    refused("glance", store.glance(now).await);
    refused("fire_due", store.fire_due(due(now)).await);
    refused("purge_runs", store.purge_runs(purge(now)).await);
    let old = PurgeOld {
        max: 10,
        now,
        ..PurgeOld::default()
    };
    refused("purge_old", store.purge_old(old).await);
    let reap = ReapLeases {
        max: 10,
        first_shard: 0,
        now,
    };
    refused("reap_leases", store.reap_leases(reap).await);
    let relay = RelayMessages {
        max: 10,
        first_shard: 0,
        now,
    };
    refused("relay_messages", store.relay_messages(relay).await);
    refused("due_schedules", store.due_schedules(10, now).await);
    refused(
        "fire_schedules",
        store.fire_schedules(Vec::new(), now).await,
    );
    refused("commit_turns", store.commit_turns(Vec::new(), now).await);
    refused("finish_tasks", store.finish_tasks(Vec::new(), now).await);
    refused("extend_leases", store.extend_leases(Vec::new(), now).await);
    refused("release_tasks", store.release_tasks(Vec::new(), now).await);
    refused("block_runs", store.block_runs(Vec::new(), now).await);
    let (lease, runs) = (Duration::from_secs(9), [id]);
    refused("renew_runs", store.renew_runs("w", &runs, lease, now).await);
    let start = StartRun::new(id, "hibernate", Payload::null());
    refused("start_runs", store.start_runs(vec![start], now).await);
    let signal = SendSignal {
        run_id: id,
        signal: NewSignal {
            signal_id: id,
            signal_type: "s".to_owned(),
            payload: Payload::null(),
        },
    };
    refused("send_signals", store.send_signals(vec![signal], now).await);
    refused("send_updates", store.send_updates(Vec::new(), now).await);
    let terminate = TerminateRun {
        run_id: id,
        reason: "none".to_owned(),
    };
    let ended = store.terminate_runs(vec![terminate], now).await;
    refused("terminate_runs", ended);
    refused("delete_run", store.delete_run(id, now).await);
    refused("put_once", store.put_once("k", Payload::null(), now).await);
    refused("finish_outbox", store.finish_outbox(Vec::new(), now).await);
    let claim = ClaimOutbox {
        max: 1,
        lease: Duration::from_secs(9),
        token: id,
        first_shard: 0,
        now,
    };
    refused("claim_outbox", store.claim_outbox(claim).await);
    let hosted = HostedType {
        workflow_type: "hibernate".to_owned(),
        version: String::new(),
    };
    let claim = ClaimTurns {
        worker_id: "w".to_owned(),
        build: "b".to_owned(),
        hosted: vec![hosted],
        max: 1,
        lease: Duration::from_secs(9),
        first_shard: 0,
        now,
    };
    refused("claim_turns", store.claim_turns(claim).await);
    let claim = ClaimTasks {
        worker_id: "w".to_owned(),
        activity_types: vec!["a".to_owned()],
        max: 1,
        lease: Duration::from_secs(9),
        token: id,
        first_shard: 0,
        now,
    };
    refused("claim_tasks", store.claim_tasks(claim).await);
}

#[tokio::test]
async fn a_sleep_does_not_end_by_the_clock_of_a_caller() {
    let place = Place::open().await;
    let worker = everruns_durable::Worker::connect(&place.url).workflow::<hibernate>();
    let worker = worker.start().await.expect("connects");
    let client = Client::connect(&place.url).await.expect("connects");
    let run = client.start::<hibernate>(()).await.expect("starts");
    // The timer is set with the first turn.
    while place.client().get(run.id()).await.expect("there").sequence == 0 {
        tokio::task::yield_now().await;
    }
    refused(
        "fire_due",
        client.store().fire_due(due(Some(far_ahead()))).await,
    );
    let fired = client
        .store()
        .fire_due(due(None))
        .await
        .expect("an admin may");
    assert_eq!(fired.timers, 0);
    let seen = place.client().get(run.id()).await.expect("there");
    assert_eq!(seen.status, WorkflowStatus::Running);
    worker.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a_store_is_not_dumped_through_its_server() {
    let place = Place::guarded().await;
    for role in Role::ALL {
        let client = connected(&place, role).await;
        let error = client.store().dump().await.expect_err("not on the wire");
        assert!(matches!(error, StoreError::Denied(_)), "{role}: {error}");
        for door in Door::ALL {
            // `knock` sends what an older release would.
            let answer = place.knock(role, door, "dump", b"\x90").await;
            assert!(answer.is_err(), "{role}, {door:?}");
        }
    }
    assert_eq!(Method::parse("dump"), None);
}

#[tokio::test]
async fn chores_take_a_permission_of_their_own() {
    let chores = [
        Method::fire_due,
        Method::reap_leases,
        Method::relay_messages,
        Method::due_schedules,
        Method::fire_schedules,
        Method::stop_silent_workers,
        Method::purge_runs,
        Method::purge_old,
    ];
    for method in Method::ALL {
        let maintains = method.is_maintenance();
        assert_eq!(maintains, chores.contains(method), "{}", method.name());
    }
    let place = Place::guarded().await;
    for role in Role::ALL {
        let client = connected(&place, role).await;
        let purged = client.store().purge_runs(purge(None)).await;
        let may = role.permits(Permission::Maintain);
        assert_eq!(purged.is_ok(), may, "{role}: {purged:?}");
        assert_eq!(may, role == Role::Admin);
    }
}

#[tokio::test]
async fn a_purge_through_the_server_leaves_an_audit_row() {
    let place = Place::guarded().await;
    let admin = connected(&place, Role::Admin).await;
    admin.store().purge_runs(purge(None)).await.expect("purged");
    let old = PurgeOld {
        max: 10,
        ..PurgeOld::default()
    };
    admin.store().purge_old(old).await.expect("purged");
    let filter = AuditFilter {
        kind: Some(AuditKind::Retention),
        ..AuditFilter::default()
    };
    let rows = place.store.list_audit(filter, Page::default()).await;
    let rows = rows.expect("listed");
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (&*row.actor, &*row.action, &*row.target.id))
        .collect();
    let expected = [
        ("admin", "purge_old", "details"),
        ("admin", "purge_runs", "runs"),
    ];
    assert_eq!(seen, expected);
}
