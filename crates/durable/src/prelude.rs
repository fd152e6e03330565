//! What most programs need: `use everruns_durable::prelude::*;`

pub use async_trait::async_trait;
pub use durable_core::{
    ActivityError, ActivityOptions, CircuitBreakerConfig, CircuitState, ExhaustedPolicy, Payload,
    RateLimitConfig, RetryPolicy, Workflow, WorkflowAction, WorkflowError, WorkflowSignal,
    signal_types,
};

pub use crate::activity::{Activity, ActivityContext, ActivityResult};
pub use crate::client::{Client, RunHandle, Schedule};
pub use crate::engine::{Engine, EngineBuilder, Settings};
pub use crate::error::Error;
pub use crate::persistence::model::{OverlapPolicy, Page, ReusePolicy, RunFilter};
pub use crate::worker::WorkerSettings;
