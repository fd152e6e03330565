//! The door for people and their programs: HTTP and JSON.
//!
//! Every route stands in one table, `table.rs`, together with the permission it takes, and every route answers below [`PREFIX`] and
//! below [`ALIAS`]. What the server refuses is a problem (`problem.rs`); how the library's errors become problems is in `refusal.rs` alone.

mod audit;
mod breakers;
mod cursor;
mod dlq;
mod extract;
mod guard;
mod health;
mod metrics;
mod openapi;
mod probes;
mod problem;
mod refusal;
mod schedules;
mod set_aside;
mod table;
mod tasks;
mod tokens;
mod views;
mod whole;
mod workers;
mod workflows;

use std::any::Any;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::error;

pub(crate) use metrics::samples::Samples;
pub use problem::Problem;
pub(crate) use workflows::Followed;

use crate::App;
use crate::auth::Permission;
use problem::Code;

/// Where the API is.
pub const PREFIX: &str = "/v1/durable";
/// Where it is as well.
pub const ALIAS: &str = "/api/durable";

/// All of it, ready to be served. To be called within a tokio runtime, in which samples are taken from now on.
pub fn router(app: App) -> Router {
    let described = Arc::new(openapi::describe(app.access()));
    metrics::samples::keep_sampling(&app);
    let scraped = get(metrics::get_metrics);
    let scraped = behind(&app, Permission::Read, "get_metrics", scraped);
    let guarded = guarded(&app);
    Router::new()
        .nest(PREFIX, guarded.clone())
        .nest(ALIAS, guarded)
        .route(
            "/openapi.json",
            get(move || async move { Json(&*described).into_response() }),
        )
        .route("/metrics", scraped)
        .route("/livez", get(probes::livez))
        .route("/healthz", get(probes::livez))
        .route("/readyz", get(probes::readyz))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(app.settings().body_bytes_max))
        .layer(CatchPanicLayer::custom(caught))
        .with_state(app)
}

/// Every method of every route with the permission it takes: what the server serves, for whoever wants to check it.
#[must_use]
pub fn listed() -> Vec<(String, String, Permission)> {
    openapi::listed()
}

/// The table, each route behind its guard.
fn guarded(app: &App) -> Router<App> {
    table::routes()
        .into_iter()
        .fold(Router::new(), |router, route| {
            let paths: Vec<String> = route.described.1.paths.keys().cloned().collect();
            let action = openapi::operation_id(&route.described.1);
            let takes_parameters = openapi::takes_parameters(&route.described.1);
            let (permission, mut handler) = route.handler();
            if !takes_parameters {
                handler = handler.route_layer(from_fn(extract::no_parameters));
            }
            let handler = behind(app, permission, &action, handler);
            paths
                .iter()
                .fold(router, |router, path| router.route(path, handler.clone()))
        })
}

/// Puts a guard before a handler, which knows the operation's name.
fn behind(
    app: &App,
    permission: Permission,
    action: &str,
    handler: MethodRouter<App>,
) -> MethodRouter<App> {
    let app = app.clone();
    let action: Arc<str> = action.into();
    handler.route_layer(from_fn(move |request, next| {
        guard::admit(app.clone(), permission, Arc::clone(&action), request, next)
    }))
}

async fn no_route(method: Method, uri: Uri) -> Problem {
    Problem::new(
        Code::NoRoute,
        format!("{method} {} leads nowhere", uri.path()),
    )
    .hint("/openapi.json lists the routes")
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    Problem::new(
        Code::MethodNotAllowed,
        format!("{} has no {method}", uri.path()),
    )
    .hint("the Allow header lists the methods it has")
}

/// A panic is a bug of the server's: it is logged as one, and takes nothing else down.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the signature is the layer's"
)]
fn caught(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    error!(
        panic = text.as_deref().unwrap_or("without a text"),
        "a request panicked"
    );
    Problem::new(Code::Internal, "the server has a bug; its log says where").into_response()
}
