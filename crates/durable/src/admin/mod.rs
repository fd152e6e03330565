//! What operators ask: why a run waits, how the system stands, how its queues do.

mod explain;
mod health;
mod task_stats;
mod totals;
mod why;

pub use health::{HealthStatus, SystemHealth, SystemView};
pub use task_stats::{ActivityTypeStats, TaskQueueStats};
pub use totals::{Durations, Ledger, LedgerReader, Totals};
pub use why::{ActivityWait, Wait, Why};
