//! The control plane: the same engine behind doors.

pub mod app;
pub mod auth;

pub use app::{App, AppSettings};
