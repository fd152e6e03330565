//! Breakers and limiters: what protects the things that activities call; admission: what protects the engine; timeouts: what protects runs
//! from waiting for ever.
//!
//! ```text
//!   claims ──tasks──► Gate ──► DistributedCircuitBreaker ──► DistributedRateLimiter ──► run, or park for a while
//!                      ▲                  │ compare-and-set         │
//!                      └─ outcomes        └───────── store ─────────┘
//! ```
//!
//! Architecture invariant: a breaker's or limiter's state is in the store and nowhere else. What is let through was written there first,
//! except through a breaker that a fresh read found closed; so any number of processes together let through what one alone would.

mod breaker;
mod coordinator;
mod gate;
mod kept;
mod limiter;
mod reports;
mod timeouts;

pub use breaker::{
    Admitted, CircuitBreakerError, CircuitBreakerPermit, DistributedCircuitBreaker, Ending, Probe,
    Report,
};
pub use coordinator::{AdmissionSample, AdmissionSettings, BackpressureCoordinator, SystemHealth};
pub(crate) use gate::{Gate, Verdict};
pub use limiter::DistributedRateLimiter;
pub use timeouts::TimeoutManager;
