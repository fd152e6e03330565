//! The control plane: the same engine behind doors.

pub mod app;
pub mod auth;
pub mod config;
mod entry;
pub mod http;
mod listen;
mod ready;
pub mod serve;
mod tls;

pub use app::{App, AppSettings};

/// A place for the gRPC door until its branch is merged.
mod grpc {
    pub(crate) fn routes(_app: crate::App) -> axum::Router {
        axum::Router::new()
    }
}
