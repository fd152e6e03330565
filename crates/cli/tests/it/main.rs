//! The real binary: what it does when it is started, stopped, killed, misused, and asked.

mod codes;
mod commands;
mod config;
mod dev;
mod docs;
mod doors;
mod durable;
mod hosting;
mod pages;
mod shared;
mod tls;
mod tokens;
