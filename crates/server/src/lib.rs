//! The control plane: the same engine behind doors.

pub mod app;
pub mod auth;
pub mod config;
mod entry;
pub mod grpc;
pub mod http;
mod listen;
pub mod measures;
mod namesake;
mod open_files;
mod ready;
pub mod serve;
mod tls;

pub use app::{App, AppSettings};
