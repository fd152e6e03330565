//! Proof for stores: conformance, differential test, faults, audit. Also for authors of other stores.
//!
//! Architecture invariant: nothing depends on this crate except tests.

pub mod conformance;
pub mod differential;
pub mod engine_suite;
pub mod faults;
pub mod flavour;
pub mod hostile_json;
pub mod postgres;
pub mod process;
pub mod prove;
pub mod scrambler;
pub mod sim;
pub mod world;

pub use everruns_durable::audit;
pub use flavour::{Flavour, StoreUnderTest};
pub use world::World;
