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
mod http { pub fn router(_: crate::App) -> axum::Router { axum::Router::new().route("/healthz", axum::routing::get(|| async { "ok" })) } }
mod grpc { pub fn routes(_: crate::App) -> axum::Router { axum::Router::new() } }
