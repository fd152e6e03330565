//! A server that listens, and somebody who calls it.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use durable_program::{BuiltIns, HostAllowList};
use durable_server::auth::Access;
use durable_server::measures::MeasuredStore;
use durable_server::{App, AppSettings, http};
use durable_testkit::Flavour;
use durable_testkit::flavour::Kind;
use everruns_durable::persistence::MemoryStore;
use everruns_durable::prelude::*;
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use tokio::task::JoinHandle;

#[activity]
async fn add_one(_ctx: ActivityContext, n: i64) -> ActivityResult<i64> {
    Ok(n + 1)
}

/// Fails, whatever it is given; nothing is tried again.
#[activity]
async fn break_down(_ctx: ActivityContext, _input: Value) -> ActivityResult<Value> {
    Err(ActivityError::new("Broken", "by design").non_retryable())
}

#[workflow]
async fn increment(ctx: WorkflowContext, n: i64) -> WorkflowResult<i64> {
    ctx.activity::<add_one>(n).await
}

#[workflow]
async fn failing(ctx: WorkflowContext, _input: Value) -> WorkflowResult<Value> {
    ctx.activity::<break_down>(Value::Null).await
}

/// Waits for the dead letter of its activity to be decided.
#[workflow]
async fn parking(ctx: WorkflowContext, _input: Value) -> WorkflowResult<Value> {
    let call = ctx.activity::<break_down>(Value::Null);
    call.on_exhausted(ExhaustedPolicy::Park).await
}

/// Waits for `go`; `total` can be asked for, `add` adds to it.
#[workflow]
async fn holding(ctx: WorkflowContext, _input: Value) -> WorkflowResult<Value> {
    let total = ctx.state(0_i64);
    let seen = total.clone();
    ctx.on_query("total", move |(): ()| seen.get());
    let sum = total.clone();
    ctx.on_update("add", move |n: i64| {
        let sum = sum.clone();
        async move {
            if n < 0 {
                return Err(WorkflowError::new("Negative", "only more"));
            }
            sum.update(|total| *total += n);
            Ok(sum.get())
        }
    });
    ctx.signal::<Value>("go").await
}

/// A server on a store of its own. Gone when it is dropped.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) app: App,
    pub(crate) engine: Engine,
    calls: reqwest::Client,
    token: Option<String>,
    server: JoinHandle<()>,
    _place: Option<Box<dyn Any + Send + Sync>>,
}

/// Runs each of these as a test on each store: `name::memory`, `name::sqlite`, `name::postgres`.
macro_rules! on_every_store {
    ($($claim:ident),+ $(,)?) => {$(
        mod $claim {
            use crate::world::World;

            #[tokio::test]
            async fn memory() {
                super::$claim(World::open().await).await;
            }

            #[tokio::test]
            async fn sqlite() {
                super::$claim(World::sqlite().await).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$claim(World::postgres().await).await;
            }
        }
    )+};
}

impl World {
    /// In memory, open to everybody.
    pub(crate) async fn open() -> Self {
        Self::with(Engine::in_memory(), Access::open(), None).await
    }

    /// In a SQLite file, open to everybody.
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::sqlite(folder.path().join("durable.db"));
        Self::with(engine, Access::open(), Some(Box::new(folder))).await
    }

    /// In a PostgreSQL database of its own, open to everybody.
    pub(crate) async fn postgres() -> Self {
        let flavour = Flavour {
            kind: Kind::Postgres,
            shards: 1,
        };
        let place = flavour.open().await.unwrap();
        let engine = Engine::on(Arc::clone(&place.store));
        Self::with(engine, Access::open(), Some(Box::new(place))).await
    }

    /// In memory, behind these tokens.
    pub(crate) async fn guarded(access: Access) -> Self {
        Self::with(Engine::in_memory(), access, None).await
    }

    /// In memory, behind these tokens, which streams are asked for again and again.
    pub(crate) async fn suspicious(access: Access) -> Self {
        let settings = AppSettings {
            recheck_interval: Duration::from_millis(20),
            ..AppSettings::default()
        };
        Self::with_settings(Engine::in_memory(), access, None, settings).await
    }

    /// In memory, open to everybody, with what passes through the store counted as a server counts it.
    pub(crate) async fn measured() -> Self {
        let settings = AppSettings::default();
        let store = Arc::new(MemoryStore::new());
        let store = MeasuredStore::new(store, Arc::clone(&settings.measures));
        let engine = Engine::on(Arc::new(store));
        Self::with_settings(engine, Access::open(), None, settings).await
    }

    pub(crate) async fn with(
        engine: EngineBuilder,
        access: Access,
        place: Option<Box<dyn Any + Send + Sync>>,
    ) -> Self {
        let settings = AppSettings {
            body_bytes_max: 64 << 10,
            ..AppSettings::default()
        };
        Self::with_settings(engine, access, place, settings).await
    }

    async fn with_settings(
        engine: EngineBuilder,
        access: Access,
        place: Option<Box<dyn Any + Send + Sync>>,
        settings: AppSettings,
    ) -> Self {
        let built_ins = BuiltIns {
            http_hosts: HostAllowList::default(),
        };
        let engine = durable_program::register(engine, built_ins)
            .workflow::<increment>()
            .workflow::<failing>()
            .workflow::<parking>()
            .workflow::<holding>()
            .activity(add_one)
            .activity(break_down)
            .start()
            .await
            .unwrap();
        let app = App::new(engine.client(), access, settings);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let router = http::router(app.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        // reqwest asks for one even where nothing is encrypted; whoever comes second finds it done.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            address,
            app,
            engine,
            calls: reqwest::Client::builder().no_proxy().build().unwrap(),
            token: None,
            server,
            _place: place,
        }
    }

    /// The token that calls carry from now on.
    pub(crate) fn carry(&mut self, token: Option<&str>) {
        self.token = token.map(str::to_owned);
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let path = if path.starts_with("/workflows") || !path.starts_with('/') {
            format!("/v1/durable/{}", path.trim_start_matches('/'))
        } else {
            path.to_owned()
        };
        let request = self
            .calls
            .request(method, format!("http://{}{path}", self.address));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::read(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::read(
            self.request(Method::POST, path)
                .json(body)
                .send()
                .await
                .unwrap(),
        )
        .await
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        Answer::read(request.send().await.unwrap()).await
    }

    /// Starts a run and answers its id.
    pub(crate) async fn start(&self, workflow_type: &str, input: Value) -> String {
        let body = serde_json::json!({ "workflow_type": workflow_type, "input": input });
        let answer = self
            .post("/workflows", &body)
            .await
            .expect(StatusCode::CREATED);
        answer["id"].as_str().unwrap().to_owned()
    }

    /// Waits for a run's end and answers how it ended.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        let answer = self.get(&format!("/workflows/{id}/result?wait=30s")).await;
        answer.expect(StatusCode::OK)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    async fn read(response: Response) -> Self {
        Self {
            status: response.status(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: StatusCode) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }

    /// A refusal as RFC 9457 has it, with this code.
    #[track_caller]
    pub(crate) fn refused(&self, status: StatusCode, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.headers["content-type"], "application/problem+json",
            "{self:?}"
        );
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status.as_u16(), "{problem}");
        assert_eq!(problem["type"], format!("urn:durable:problem:{code}"));
        assert!(!problem["title"].as_str().unwrap().is_empty(), "{problem}");
        assert!(!problem["detail"].as_str().unwrap().is_empty(), "{problem}");
        problem
    }
}
