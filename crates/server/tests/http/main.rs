//! The HTTP door, against a server that listens.

#[macro_use]
mod world;

mod audit;
mod guide;
mod operations;
mod paging;
mod refusals;
mod roles;
mod runs;
mod streams;
mod system;
