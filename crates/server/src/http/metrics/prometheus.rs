//! What Prometheus is told: what the store knows of the whole system, under our names, S2's and S4's.

use everruns_durable::Result;
use everruns_durable::admin::{Durations, Ledger, SystemHealth, Totals};
use everruns_durable::core::CircuitState;
use everruns_durable::persistence::model::{
    BreakerRecord, RollupKind, RollupOutcome, StoreCounts, WorkerInfo, WorkflowStatus,
};
use everruns_durable::reliability::AdmissionSample;

use super::passed;
use super::text::Text;
use crate::App;

/// Everything that is read for a page.
struct Read {
    health: SystemHealth,
    counts: StoreCounts,
    workers: Vec<WorkerInfo>,
    breakers: Vec<BreakerRecord>,
    ledger: Ledger,
    admission: Option<AdmissionSample>,
}

/// A page of measures.
pub(super) async fn measure(app: &App) -> Result<String> {
    let stale_after = app.settings().worker_stale_after;
    let view = app.client().system_view(stale_after).await?;
    let ledger = app.samples().ledger(app, view.health.at).await?;
    let read = Read {
        health: view.health,
        counts: view.counts,
        workers: view.workers,
        breakers: view.breakers,
        ledger,
        admission: app.client().admission_sample(),
    };
    let mut text = Text::default();
    read.runs(&mut text);
    read.activities(&mut text);
    read.queues(&mut text);
    read.admission(&mut text);
    read.workers(&mut text);
    read.breakers(&mut text);
    read.names_of_the_seeds(&mut text);
    passed::measure(&mut text, &app.settings().measures.figures());
    passed::chores(&mut text, &app.client().chore_troubles());
    Ok(text.finish())
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus' values are doubles")]
const fn number(count: u64) -> f64 {
    count as f64
}

impl Read {
    fn totals(&self) -> Totals {
        self.ledger.totals()
    }

    /// Started is what has ended and what has not: the store counts no starts.
    fn started(&self) -> u64 {
        let totals = self.totals();
        let open = self.health.running_workflows + self.health.pending_workflows;
        totals.workflows_completed + totals.workflows_failed + totals.workflows_cancelled + open
    }

    /// Open runs are counted, ended ones are the totals: no read goes through finished runs.
    fn runs_of(&self, status: WorkflowStatus) -> u64 {
        let totals = self.totals();
        match status {
            WorkflowStatus::Completed => totals.workflows_completed,
            WorkflowStatus::Failed => totals.workflows_failed,
            WorkflowStatus::Cancelled => totals.workflows_cancelled,
            open => self.counts.runs.get(&open).copied().unwrap_or_default(),
        }
    }

    fn runs(&self, text: &mut Text) {
        let started = number(self.started());
        text.single(
            "durable_workflows_started_total",
            "counter",
            "Runs started",
            started,
        );
        self.by_type(
            text,
            RollupKind::Workflow,
            RollupOutcome::Completed,
            "durable_workflows_completed_total",
            "Runs that completed",
        );
        self.by_type(
            text,
            RollupKind::Workflow,
            RollupOutcome::Failed,
            "durable_workflows_failed_total",
            "Runs that failed",
        );
        self.by_type(
            text,
            RollupKind::Workflow,
            RollupOutcome::Cancelled,
            "durable_workflows_cancelled_total",
            "Runs that were cancelled",
        );
        self.durations(
            text,
            RollupKind::Workflow,
            "durable_workflow_duration_seconds",
            "From a run's start to its end",
        );
        text.measure(
            "durable_workflows",
            "gauge",
            "Runs by status: those that have not ended, and all that ever ended",
        );
        for status in WorkflowStatus::ALL {
            let count = self.runs_of(status);
            text.value(
                "durable_workflows",
                &[("status", status.as_str())],
                number(count),
            );
        }
        text.single(
            "durable_workflows_blocked",
            "gauge",
            "Runs that a build could not take on",
            number(self.counts.blocked_runs),
        );
    }

    fn activities(&self, text: &mut Text) {
        self.by_type(
            text,
            RollupKind::Activity,
            RollupOutcome::Completed,
            "durable_activities_completed_total",
            "Activities that completed",
        );
        self.by_type(
            text,
            RollupKind::Activity,
            RollupOutcome::Failed,
            "durable_activities_failed_total",
            "Activities that failed for good",
        );
        self.durations(
            text,
            RollupKind::Activity,
            "durable_activity_duration_seconds",
            "From the start of an activity's last attempt to its end",
        );
    }

    fn queues(&self, text: &mut Text) {
        let name = "durable_task_queue_depth";
        text.measure(name, "gauge", "Queued activities by type and status");
        for (activity_type, by_status) in &self.counts.tasks {
            for (status, count) in by_status {
                let labels = [
                    ("activity_type", activity_type.as_str()),
                    ("status", status.as_str()),
                ];
                text.value(name, &labels, number(*count));
            }
        }
        text.single(
            "durable_dlq_entries",
            "gauge",
            "Dead letters nobody has decided",
            number(self.counts.dead_letters),
        );
        text.single(
            "durable_outbox_pending",
            "gauge",
            "Outbox events not published yet",
            number(self.counts.outbox_pending),
        );
        text.single(
            "durable_messages_pending",
            "gauge",
            "Messages between runs on their way",
            number(self.counts.messages),
        );
        text.single(
            "durable_counts_exact",
            "gauge",
            "1 if the numbers of open runs, tasks and other waiting rows are exact, 0 if one is a lower bound",
            f64::from(u8::from(self.counts.exact)),
        );
    }

    /// Without admission, nothing.
    fn admission(&self, text: &mut Text) {
        let Some(sample) = self.admission else { return };
        if let Some(age) = sample.age {
            text.single(
                "durable_admission_sample_age_seconds",
                "gauge",
                "Age of the sample by which starts are admitted",
                age.as_secs_f64(),
            );
        }
        text.single(
            "durable_admission_sample_failures_total",
            "counter",
            "Samples for admission that could not be taken",
            number(sample.failures),
        );
    }

    fn workers(&self, text: &mut Text) {
        text.single(
            "durable_active_workers",
            "gauge",
            "Workers that work",
            self.health.active_workers as f64,
        );
        text.single(
            "durable_worker_capacity",
            "gauge",
            "Slots of all workers",
            number(self.health.total_capacity),
        );
        text.single(
            "durable_worker_load",
            "gauge",
            "Slots in use",
            number(self.health.current_load),
        );
        let held = self
            .health
            .active_workers
            .saturating_sub(self.health.workers_accepting);
        text.single(
            "durable_workers_under_backpressure",
            "gauge",
            "Workers that take no tasks for now",
            held as f64,
        );
    }

    fn breakers(&self, text: &mut Text) {
        let name = "durable_circuit_breaker_state";
        text.measure(name, "gauge", "0 closed, 1 half open, 2 open");
        for breaker in &self.breakers {
            let state = match breaker.state {
                CircuitState::Closed => 0.0,
                CircuitState::HalfOpen => 1.0,
                CircuitState::Open => 2.0,
            };
            text.value(name, &[("key", &breaker.key)], state);
        }
    }

    /// S2's and S4's, of the same figures.
    fn names_of_the_seeds(&self, text: &mut Text) {
        let totals = self.totals();
        text.measure(
            "worker_in_flight_tasks",
            "gauge",
            "Activities a worker is running",
        );
        for worker in &self.workers {
            text.value(
                "worker_in_flight_tasks",
                &[("worker_id", &worker.id)],
                f64::from(worker.current_load),
            );
        }
        text.measure(
            "worker_tasks_completed_total",
            "counter",
            "Activities a worker has completed",
        );
        for worker in &self.workers {
            text.value(
                "worker_tasks_completed_total",
                &[("worker_id", &worker.id)],
                number(worker.tasks_completed),
            );
        }
        let all = self.all_activities();
        text.measure(
            "worker_task_duration_seconds",
            "histogram",
            "How long activities took",
        );
        text.histogram("worker_task_duration_seconds", &[], &all);
        text.single(
            "workflow_runs_started_total",
            "counter",
            "Runs started",
            number(self.started()),
        );
        let executed = totals.tasks_completed + totals.tasks_failed;
        text.single(
            "workflow_steps_executed_total",
            "counter",
            "Activities that ended",
            number(executed),
        );
        text.single(
            "workflow_steps_failed_total",
            "counter",
            "Activities that failed for good",
            number(totals.tasks_failed),
        );
        text.single(
            "workflow_steps_pending",
            "gauge",
            "Activities that could be claimed now",
            number(self.health.pending_tasks),
        );
        text.single(
            "workers_active",
            "gauge",
            "Workers that work",
            self.health.active_workers as f64,
        );
        text.measure(
            "step_execution_latency_seconds",
            "histogram",
            "How long activities took",
        );
        text.histogram("step_execution_latency_seconds", &[], &all);
    }

    fn by_type(
        &self,
        text: &mut Text,
        kind: RollupKind,
        outcome: RollupOutcome,
        name: &str,
        help: &str,
    ) {
        text.measure(name, "counter", help);
        for (_, of_type, _, durations) in self
            .ledger
            .entries()
            .filter(|entry| (entry.0, entry.2) == (kind, outcome))
        {
            text.value(name, &[(label(kind), of_type)], number(durations.count));
        }
    }

    fn durations(&self, text: &mut Text, kind: RollupKind, name: &str, help: &str) {
        text.measure(name, "histogram", help);
        for (_, of_type, outcome, durations) in
            self.ledger.entries().filter(|entry| entry.0 == kind)
        {
            text.histogram(
                name,
                &[(label(kind), of_type), ("outcome", outcome.as_str())],
                durations,
            );
        }
    }

    fn all_activities(&self) -> Durations {
        let mut all = Durations::default();
        let ended = self
            .ledger
            .entries()
            .filter(|entry| entry.0 == RollupKind::Activity && entry.2 != RollupOutcome::Cancelled);
        for (_, _, _, durations) in ended {
            all.merge(durations);
        }
        all
    }
}

const fn label(kind: RollupKind) -> &'static str {
    match kind {
        RollupKind::Activity => "activity_type",
        RollupKind::Workflow => "workflow_type",
    }
}
