//! The other front door: a workflow as an `async fn` with a context.
//!
//! ```text
//!   Fact ──► FunctionProgram::apply ──► state.rs: its slot is resolved, the waker stored there is woken
//!                    │                                   ▲
//!                    └─ polls the future until it waits ──┤ calls.rs: a call asks for its action at its first poll,
//!                                                        │ and gives it up when it is dropped before its outcome
//!            actions, ordered by the calls' positions ◄──┘
//! ```
//!
//! A call has its position from the moment it is made, so that branches that run beside each other get the same ids on
//! every replay, whatever the order in which they are polled.
//!
//! Architecture invariant: nothing in here knows a type of the user's. Typed calls are made of [`Ticket`] and [`Call`] by the library.

mod calls;
mod conditions;
mod context;
mod handlers;
mod mail;
mod memory;
mod program;
mod scope;
mod shield;
mod state;
mod waker;

pub use calls::{Call, Outcome, Ticket};
pub use conditions::Until;
pub use context::{Birth, Context, RunInfo};
pub use handlers::{QueryHandler, SignalHandler, UpdateFuture, UpdateHandler, UpdateValidator};
pub use mail::SignalWait;
pub use program::{Body, Ending, FunctionProgram};
pub use scope::{Scope, Scoped};
pub use shield::Shielded;
pub use waker::ForeignBell;
