//! The worker registry.

use durable_core::{Payload, Timestamp};
use serde::{Deserialize, Serialize};

/// A worker process, as it announces itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// Unique among all processes, such as `host-pid-random`.
    pub id: String,
    /// Its group.
    pub worker_group: String,
    /// Activity types it runs.
    pub activity_types: Vec<String>,
    /// Tasks it runs at once; 0 for a process that runs none, such as a server on its own.
    pub max_concurrency: u32,
    /// Tasks it is running.
    pub current_load: u32,
    /// Where it stands.
    pub status: WorkerStatus,
    /// Whether it takes tasks now.
    pub accepting_tasks: bool,
    /// Why not.
    pub backpressure_reason: Option<String>,
    /// When it registered.
    pub started_at: Timestamp,
    /// When it last gave a sign.
    pub last_heartbeat_at: Timestamp,
    /// Where it runs.
    pub hostname: Option<String>,
    /// Its build.
    pub version: Option<String>,
    /// Anything else.
    pub metadata: Payload,
    /// Tasks it completed.
    pub tasks_completed: u64,
    /// Tasks it failed.
    pub tasks_failed: u64,
    /// Mean time of a task, in milliseconds.
    pub avg_task_duration_ms: f64,
}

/// Where a worker stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    /// Working.
    #[default]
    Active,
    /// Finishing what it has.
    Draining,
    /// Gone, by its own word or for want of a sign.
    Stopped,
    /// No sign for too long; never stored, only shown.
    Stale,
}

impl WorkerStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Active, Self::Draining, Self::Stopped, Self::Stale];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Stale => "stale",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// A worker's sign of life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerBeat {
    /// The worker.
    pub worker_id: String,
    /// Tasks it is running.
    pub current_load: u32,
    /// Whether it takes tasks now.
    pub accepting_tasks: bool,
    /// Why not.
    pub backpressure_reason: Option<String>,
    /// Tasks it completed, in all.
    pub tasks_completed: u64,
    /// Tasks it failed, in all.
    pub tasks_failed: u64,
    /// Mean time of a task, in milliseconds.
    pub avg_task_duration_ms: f64,
}

/// Which workers to list; by id.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerFilter {
    /// Only this group.
    pub worker_group: Option<String>,
    /// Only this status.
    pub status: Option<WorkerStatus>,
    /// Only those with a sign since then.
    pub heartbeat_since: Option<Timestamp>,
}
