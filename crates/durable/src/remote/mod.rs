//! A server's store from afar: engines, workers and clients that need no database of their own.
//!
//! ```text
//!   Engine, Client ─► RemoteStore ══ gRPC, durable.v1.Store ══► door (who, and may they) ─► Answerer ─► the server's store
//!                     RemoteBell  ◄══════ rings, both ways ═══════════════════════════════► its bell
//!                     Offers      ◄══════ runs about to be started, their first turns ════► its clients
//! ```
//!
//! [`RemoteStore`] is one more implementation of the store contract, so that nothing else knows the difference. [`calls`] is the one table of
//! the contract's methods: what each is called on the wire, and which permission it needs. An answer that is lost is
//! [`StoreError::Unavailable`](crate::persistence::StoreError::Unavailable), after which the engine reads back, as with any store.

mod answerer;
mod bell;
mod calls;
mod connect;
mod line;
mod offers;
mod store;
mod tls;
mod touch;
mod wire;

pub use answerer::{Answerer, Permit};
pub use calls::{Door, Method};
pub use connect::{Connect, Identity};
pub use offers::Offering;
pub use store::RemoteStore;
pub use tls::TlsTrouble;
pub use touch::Touched;
pub use wire::{Mistake, WIRE_VERSION, read_ring, write_ring};
