//! The control plane: the same engine behind doors.

pub mod app;
pub mod auth;
pub mod grpc;

pub use app::{App, AppSettings};
