//! Workers: running activities, here.
//!
//! ```text
//!   hand-over ─┐                       ┌─► Desk (the run's program is here: one commit with its next turn)
//!   claims ────┴► Slot ─► Execution ───┴─► ResultSink (finish_tasks: the result waits in the run's inbox)
//!                  │         │
//!                  │         └ heartbeats ─► HeartbeatBatcher (extend_leases, in batches)
//!                  └ held until the result is stored
//! ```

mod backpressure;
mod batches;
mod capacity;
mod claims;
mod execution;
mod leases;
pub(crate) mod outcome;
mod pool;
mod results;
mod settings;
mod slots;
#[cfg(test)]
mod stub_port;

pub use backpressure::{BackpressureConfig, BackpressureState};
pub(crate) use claims::{Claims, admitted};
pub use leases::HeartbeatBatcher;
pub use pool::WorkerPool;
pub(crate) use pool::{PoolParts, Room};
pub(crate) use results::{Finished, ResultListener, ResultSink};
pub use settings::WorkerSettings;
pub(crate) use slots::{Slot, Slots};
