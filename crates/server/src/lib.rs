//! The control plane: the same engine behind doors.

mod activity;
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
mod scope;
pub mod serve;
mod tls;

pub use app::{App, AppSettings};
