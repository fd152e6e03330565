//! The store's conformance suite and the engine's suite, through a server on loopback.

use std::sync::Arc;

use durable_server::auth::Access;
use durable_server::{App, AppSettings, grpc};
use durable_testkit::engine_suite::{self, Arena};
use durable_testkit::{World, audit, conformance};
use everruns_durable::Client;
use everruns_durable::persistence::{MemoryStore, WorkflowEventStore};
use everruns_durable::remote::RemoteStore;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::net::TcpListener;

fn main() {
    let mut trials = Vec::new();
    let claims = conformance::all().into_iter();
    // A server's store notes nobody by itself: the server does, by the token of whoever calls. And who takes turns starts no runs.
    let aside = ["audited", "first_turns"];
    for claim in claims.filter(|claim| !aside.contains(&claim.subject)) {
        let name = format!("remote::{}::{}", claim.subject, claim.name);
        trials.push(trial(name, async move |store| {
            (claim.body)(&World::new(store)).await;
            Ok(())
        }));
    }
    for claim in engine_suite::all() {
        let name = format!("remote::engine::{}::{}", claim.subject, claim.name);
        trials.push(trial(name, async move |store| {
            let arena = Arena {
                store,
                always_replay: false,
            };
            (claim.body)(&arena).await;
            let report = audit::audit(&*arena.store, None).await;
            let report = report.map_err(|error| Failed::from(format!("{error:#}")))?;
            if report.is_clean() {
                Ok(())
            } else {
                Err(Failed::from(format!("{report}")))
            }
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial<F>(name: String, body: F) -> Trial
where
    F: AsyncFnOnce(Arc<dyn WorkflowEventStore>) -> Result<(), Failed> + Send + 'static,
{
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| Failed::from(error.to_string()))?;
        runtime.block_on(async { body(through_a_server().await?).await })
    })
}

/// A fresh store in memory, behind a server that does no chores: the suites do them.
async fn through_a_server() -> Result<Arc<dyn WorkflowEventStore>, Failed> {
    let client = Client::on(Arc::new(MemoryStore::new()));
    let app = App::new(client, Access::open(), AppSettings::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(serve(listener, grpc::routes(app)));
    let store = RemoteStore::connect(url).await;
    let store = store.map_err(|error| Failed::from(error.to_string()))?;
    Ok(Arc::new(store))
}

async fn serve(listener: TcpListener, router: axum::Router) {
    while let Ok((stream, _)) = listener.accept().await {
        stream.set_nodelay(true).ok();
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // Ends with an error where the client goes first.
            builder
                .serve_connection(TokioIo::new(stream), service)
                .await
                .ok();
        });
    }
}
