//! The gRPC contract of Durable, package `durable.v1`.
//!
//! `proto/durable/v1` is the contract, written to be read by people who write workers in other languages. `src/gen` is made from it by
//! `cargo xtask proto` and committed, so that nobody needs protoc to build.

/// Package `durable.v1`, as generated.
#[allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    reason = "generated"
)]
pub mod v1 {
    include!("gen/durable.v1.rs");
}

/// The contract in the form that server reflection serves, comments included.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("gen/descriptor.bin");

pub mod convert;
