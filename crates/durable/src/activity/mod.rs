//! Activities: user code with side effects, run at least once.

mod context;
mod definition;
mod logs;
mod registry;

pub use context::{ActivityContext, HeartbeatError};
pub(crate) use context::{ContextParts, HeartbeatSink};
pub use definition::{Activity, ActivityResult};
pub use registry::ActivityRegistry;
