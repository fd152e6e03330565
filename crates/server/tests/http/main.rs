//! The HTTP door, against a server that listens.

mod operations;
mod paging;
mod refusals;
mod roles;
mod runs;
mod streams;
mod world;
