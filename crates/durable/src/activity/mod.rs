//! Activities: user code with side effects, run at least once.

mod context;
mod definition;
mod logs;
mod once;
mod registry;
mod transaction;

pub use context::{ActivityContext, ActivityInfo, HeartbeatError};
pub(crate) use context::{ContextParts, HeartbeatSink};
pub use definition::{Activity, ActivityResult, FromFunction, IntoActivity};
pub(crate) use once::{OnceLedger, StoreLedger};
pub use registry::ActivityRegistry;
pub(crate) use registry::AnyActivity;
pub(crate) use transaction::AttemptTransaction;
