//! The control plane: the same engine behind doors.

pub mod app;
pub mod auth;
pub mod config;
mod entry;
mod listen;
mod ready;
pub mod serve;
mod tls;

pub use app::{App, AppSettings};

/// A place for the HTTP door until its branch is merged.
mod http {
    pub(crate) fn router(_app: crate::App) -> axum::Router {
        axum::Router::new().route("/healthz", axum::routing::get(|| async { "ok" }))
    }
}

/// A place for the gRPC door until its branch is merged.
mod grpc {
    pub(crate) fn routes(_app: crate::App) -> axum::Router {
        axum::Router::new()
    }
}
