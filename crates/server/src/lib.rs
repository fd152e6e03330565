//! The control plane: the same engine behind doors.

pub mod app;
pub mod auth;
pub mod http;

pub use app::{App, AppSettings};
