//! The pure core of Durable: what a workflow is, without anything that runs it.
//!
//! Facts go in, actions come out. Everything here is a function of its arguments.
//!
//! ```text
//!   WorkflowEvent ──effective_history──► events that count ──Replayer──► ProgramState
//!                                                                           │ take(Fact)
//!                     Turn { actions, events to append } ◄──────────────────┘
//! ```
//!
//! Architecture invariant: this crate knows no async runtime, no SQL, no clock and no source of
//! randomness. Instants, ids and jitter come in as arguments; a test holds that (`xtask`).

pub mod action;
mod attribute;
pub mod breaker;
pub mod event;
pub mod fact;
pub mod failure;
pub mod function;
pub mod history;
pub mod identity;
pub mod limiter;
pub mod local;
pub mod options;
pub mod payload;
pub mod program;
pub mod replay;
pub mod request;
pub mod retry;
pub mod signal;
pub mod strict;
pub mod trace;
pub mod trait_program;
pub mod turn;
pub mod workflow;

pub use action::WorkflowAction;
pub use breaker::{Admission, Breaker, CircuitBreakerConfig, CircuitState};
pub use event::{AttemptRecord, AttributeValue, EventError, StoredEvent, WorkflowEvent};
pub use fact::Fact;
pub use failure::{ActivityError, Failure, TimeoutType, WorkflowError, error_types};
pub use history::{
    EffectiveHistory, HistoryError, HistoryProblem, HistoryState, NumberedEvent, effective_history,
};
pub use identity::{RunIdentity, child_run_id};
pub use jiff::Timestamp;
pub use limiter::{Granted, RateLimitConfig, RateLimiter};
pub use local::{LocalCall, LocalOptions};
pub use options::{ActivityOptions, ChildOptions, ClosePolicy, ExhaustedPolicy};
pub use payload::{Payload, PayloadError};
pub use program::{Difference, Program, ProgramError, QueryError, Recorded};
pub use replay::{
    DeterminismError, RecordedStep, ReplayError, ReplayMode, Replayer, recorded_steps, replay,
};
pub use request::{Request, RequestKind};
pub use retry::{RetryDecision, RetryPolicy};
pub use signal::{WorkflowSignal, signal_types};
pub use trace::{TraceContext, run_trace_context};
pub use trait_program::TraitProgram;
pub use turn::{ActionError, ProgramState, Turn, TurnError};
pub use workflow::Workflow;
