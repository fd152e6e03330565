//! What most programs need: `use everruns_durable::prelude::*;`

pub use async_trait::async_trait;
pub use durable_core::{
    ActivityError, ActivityOptions, CircuitBreakerConfig, CircuitState, ClosePolicy,
    ExhaustedPolicy, Payload, RateLimitConfig, RetryPolicy, Workflow, WorkflowAction,
    WorkflowError, WorkflowSignal, signal_types,
};
pub use durable_macros::{activity, workflow};
pub use futures_util::future::{join_all, try_join_all};
pub use tokio::{join, try_join};

pub use crate::activity::{Activity, ActivityContext, ActivityResult};
pub use crate::client::{Client, RunHandle, Schedule};
pub use crate::engine::{Engine, EngineBuilder, Settings};
pub use crate::error::Error;
pub use crate::persistence::model::{OverlapPolicy, Page, ReusePolicy, RunFilter};
pub use crate::select;
pub use crate::worker::WorkerSettings;
pub use crate::workflow::{RunInfo, State, WorkflowContext, WorkflowResult};
