//! Activities: user code with side effects, run at least once.

mod context;
mod definition;
mod registry;

pub use context::{ActivityContext, HeartbeatError};
pub(crate) use context::{ContextParts, HeartbeatSink};
pub use definition::{Activity, ActivityResult, FromFunction, IntoActivity};
pub use registry::ActivityRegistry;
pub(crate) use registry::AnyActivity;
