//! A sample.

use everruns_durable::admin::{SystemHealth, Totals};
use everruns_durable::core::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// Where the system stood at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct MetricsPoint {
    timestamp: Timestamp,
    running_workflows: u64,
    pending_workflows: u64,
    pending_tasks: u64,
    claimed_tasks: u64,
    active_workers: u64,
    load_percentage: f64,
    dlq_size: u64,
    /// Since the first day; the difference between two samples is the rate.
    tasks_completed_total: u64,
    tasks_failed_total: u64,
    workflows_completed_total: u64,
    workflows_failed_total: u64,
}

impl MetricsPoint {
    pub(super) fn new(health: &SystemHealth, totals: Totals) -> Self {
        Self {
            timestamp: health.at,
            running_workflows: health.running_workflows,
            pending_workflows: health.pending_workflows,
            pending_tasks: health.pending_tasks,
            claimed_tasks: health.claimed_tasks,
            active_workers: health.active_workers as u64,
            load_percentage: health.load_percentage,
            dlq_size: health.dlq_size,
            tasks_completed_total: totals.tasks_completed,
            tasks_failed_total: totals.tasks_failed,
            workflows_completed_total: totals.workflows_completed,
            workflows_failed_total: totals.workflows_failed,
        }
    }
}
