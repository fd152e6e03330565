//! The HTTP door, against a server that listens.

mod audit;
mod guide;
mod operations;
mod paging;
mod refusals;
mod roles;
mod runs;
mod streams;
mod system;
mod world;
