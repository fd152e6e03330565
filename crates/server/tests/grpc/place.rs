//! A server of the test's own: the doors on a free port of loopback, an engine on a store in memory.

use std::sync::Arc;
use std::time::Duration;

use durable_proto::v1::store_client::StoreClient;
use durable_proto::v1::worker_client::WorkerClient;
use durable_proto::v1::{StorePart, StoreRing};
use durable_server::auth::{Access, Role, TokenRecord};
use durable_server::{App, AppSettings, grpc};
use everruns_durable::engine::Settings;
use everruns_durable::persistence::{MemoryStore, WorkflowEventStore};
use everruns_durable::reliability::AdmissionSettings;
use everruns_durable::remote::{Door, WIRE_VERSION};
use everruns_durable::{Client, Engine};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// A server that serves until it is dropped.
pub(crate) struct Place {
    pub(crate) engine: Engine,
    pub(crate) app: App,
    pub(crate) store: Arc<dyn WorkflowEventStore>,
    pub(crate) url: String,
}

/// Adds the token to every call.
#[derive(Clone)]
pub(crate) struct Bearer(Option<String>);

impl tonic::service::Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            let value = format!("Bearer {token}").parse().expect("a header");
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

pub(crate) type Caller = WorkerClient<InterceptedService<Channel, Bearer>>;

/// The token of a role in a guarded place.
pub(crate) fn token_of(role: Role) -> String {
    format!("secret-of-{role}")
}

impl Place {
    /// Everybody may come in.
    pub(crate) async fn open() -> Self {
        Self::with(Access::open()).await
    }

    /// One token a role.
    pub(crate) async fn guarded() -> Self {
        let token = |role: Role| TokenRecord::new(role.as_str(), role, &token_of(role));
        let tokens = Role::ALL.into_iter().map(token).collect();
        Self::with(Access::guarded(tokens, None).expect("no file")).await
    }

    pub(crate) async fn with(access: Access) -> Self {
        Self::at(access, "127.0.0.1:0").await
    }

    pub(crate) async fn at(access: Access, address: &str) -> Self {
        let listener = TcpListener::bind(address).await.expect("a port");
        Self::listening(access, listener, |_| {}).await
    }

    /// Nothing new is taken on.
    pub(crate) async fn overloaded() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self::listening(Access::open(), listener, |settings| {
            // Below zero there is room for nothing.
            settings.admission = Some(AdmissionSettings {
                max_queue_ratio: -1.0,
                ..AdmissionSettings::default()
            });
        })
        .await
    }

    /// On a store of the test's own.
    pub(crate) async fn over(store: Arc<dyn WorkflowEventStore>, access: Access) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self::on(store, access, listener, |_| {}).await
    }

    pub(crate) async fn listening(
        access: Access,
        listener: TcpListener,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        Self::on(Arc::new(MemoryStore::new()), access, listener, change).await
    }

    async fn on(
        store: Arc<dyn WorkflowEventStore>,
        access: Access,
        listener: TcpListener,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = Settings::default();
        settings.worker.lease = Duration::from_secs(1);
        settings.worker.lease_renewal = Duration::from_millis(200);
        settings.chores.fallback_poll = Duration::from_millis(200);
        settings.chores.reap_interval = Duration::from_millis(200);
        change(&mut settings);
        let engine = Engine::on(Arc::clone(&store)).settings(settings);
        let engine = engine.start().await.expect("starts");
        // Whoever stays is asked for its token again and again.
        let app_settings = AppSettings {
            recheck_interval: Duration::from_millis(20),
            ..AppSettings::default()
        };
        let app = App::new(engine.client(), access, app_settings);
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        tokio::spawn(serve(listener, grpc::routes(app.clone())));
        Self {
            engine,
            app,
            store,
            url,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.engine.client()
    }

    /// Sends one part through a door of the store's service.
    pub(crate) async fn knock(
        &self,
        role: Role,
        door: Door,
        method: &str,
        body: &'static [u8],
    ) -> Result<(), Status> {
        let endpoint = Endpoint::from_shared(self.url.clone()).expect("a URL");
        let bearer = Bearer(Some(token_of(role)));
        let mut caller = StoreClient::with_interceptor(endpoint.connect_lazy(), bearer);
        let part = StorePart {
            version: WIRE_VERSION,
            method: method.to_owned(),
            body: body.into(),
        };
        let parts = tokio_stream::once(part);
        let answer = match door {
            Door::Work => caller.work(parts).await,
            Door::Read => caller.read(parts).await,
            Door::Start => caller.start(parts).await,
            Door::Signal => caller.signal(parts).await,
            Door::Operate => caller.operate(parts).await,
        };
        answer?.into_inner().message().await.map(drop)
    }

    /// A place at the bell; nothing is rung.
    pub(crate) async fn rings(&self, token: Option<String>) -> Streaming<StoreRing> {
        let endpoint = Endpoint::from_shared(self.url.clone()).expect("a URL");
        let channel = endpoint.connect().await.expect("connects");
        let mut caller = StoreClient::with_interceptor(channel, Bearer(token));
        let rings = caller.ring(tokio_stream::pending()).await;
        rings.expect("is let in").into_inner()
    }

    pub(crate) async fn caller(&self, token: Option<String>) -> Caller {
        let endpoint = Endpoint::from_shared(self.url.clone()).expect("a URL");
        let channel = endpoint.connect().await.expect("connects");
        WorkerClient::with_interceptor(channel, Bearer(token))
    }
}

async fn serve(listener: TcpListener, router: axum::Router) {
    loop {
        let (stream, _) = listener.accept().await.expect("accepts");
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // Ends with an error where the client goes, which is what some tests are about.
            builder
                .serve_connection(TokioIo::new(stream), service)
                .await
                .ok();
        });
    }
}
