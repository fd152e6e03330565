//! The gRPC door: package `durable.v1`, health, reflection.
//!
//! ```text
//!   request ─► guard (who, and may they: before a byte of the message is read) ─► service ─► library
//! ```
//!
//! What a connection may do at all (streams, header time, pings) is the listener's.

mod guard;
mod status;
mod store;
mod worker;

use axum::Router;
use durable_proto::v1::store_server::StoreServer;
use durable_proto::v1::worker_server::WorkerServer;
use futures_util::FutureExt as _;
use tonic::codec::CompressionEncoding;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use crate::App;

pub use guard::{Admission, METHODS};

/// Largest message from a client, after decompression.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Largest message to a client: an activation may tell a whole history.
pub const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Everything that is served on the gRPC port.
pub fn routes(app: App) -> Router {
    let worker = WorkerServer::new(worker::Service::new(app.clone()))
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .max_encoding_message_size(RESPONSE_BYTES_MAX);
    let store = StoreServer::new(store::Service::new(app.clone()))
        .max_decoding_message_size(store::PART_BYTES_MAX);
    let mut router = Router::new();
    router = serve::<WorkerServer<worker::Service>, _>(router, worker);
    router = serve::<StoreServer<store::Service>, _>(router, store);
    let services = &[
        WorkerServer::<worker::Service>::NAME,
        StoreServer::<store::Service>::NAME,
    ];
    router = with_health(router, &app, services);
    router = with_reflection(router);
    router
        .layer(axum::middleware::map_response(status::of_call))
        .layer(axum::middleware::from_fn_with_state(app, guard::admit))
}

/// Adds a service under its name.
fn serve<N: NamedService, S>(router: Router, service: S) -> Router
where
    S: tower::Service<
            axum::extract::Request,
            Response: axum::response::IntoResponse,
            Error = std::convert::Infallible,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    router.route_service(&format!("/{}/{{*method}}", N::NAME), service)
}

/// `grpc.health.v1`: serving until the process is about to go.
fn with_health(router: Router, app: &App, services: &'static [&'static str]) -> Router {
    let reporter = HealthReporter::new();
    let health = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
    let all = || services.iter().copied().chain([""]);
    for service in all() {
        // Nobody else holds its lock yet, so that this is done at once.
        let told = reporter.set_service_status(service, ServingStatus::Serving);
        told.now_or_never();
    }
    let draining = app.draining().clone();
    tokio::spawn(async move {
        draining.cancelled().await;
        for service in all() {
            reporter
                .set_service_status(service, ServingStatus::NotServing)
                .await;
        }
    });
    serve::<HealthServer<HealthService>, _>(router, health)
}

/// Server reflection, in the form that has settled and in the one that older tools ask for.
fn with_reflection(router: Router) -> Router {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(durable_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (v1, v1alpha) = (builder().build_v1(), builder().build_v1alpha());
    let router = match v1 {
        Ok(service) => {
            router.route_service("/grpc.reflection.v1.ServerReflection/{*method}", service)
        }
        Err(error) => unreflected(router, &error),
    };
    match v1alpha {
        Ok(service) => router.route_service(
            "/grpc.reflection.v1alpha.ServerReflection/{*method}",
            service,
        ),
        Err(error) => unreflected(router, &error),
    }
}

/// A contract that cannot be described is no reason not to serve it; a test sees that it can.
fn unreflected(router: Router, error: &tonic_reflection::server::Error) -> Router {
    tracing::error!(%error, "server reflection is off");
    router
}
