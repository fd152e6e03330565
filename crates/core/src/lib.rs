//! The pure core of Durable: what a workflow is, without anything that runs it.
//!
//! Facts go in, actions come out. Everything here is a function of its arguments.
//!
//! Architecture invariant: this crate knows no async runtime, no SQL, no clock and no source of
//! randomness. Instants, ids and jitter come in as arguments; a test holds that (`xtask`).

pub mod action;
pub mod breaker;
pub mod event;
pub mod failure;
pub mod options;
pub mod payload;
pub mod retry;
pub mod signal;
pub mod trace;

pub use action::WorkflowAction;
pub use breaker::{CircuitBreakerConfig, CircuitState};
pub use event::{AttemptRecord, AttributeValue, EventError, StoredEvent, WorkflowEvent};
pub use failure::{ActivityError, Failure, TimeoutType, WorkflowError, error_types};
pub use jiff::Timestamp;
pub use options::{ActivityOptions, ExhaustedPolicy};
pub use payload::{Payload, PayloadError};
pub use retry::{RetryDecision, RetryPolicy};
pub use signal::{WorkflowSignal, signal_types};
pub use trace::TraceContext;
