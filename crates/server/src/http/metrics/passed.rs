//! What Prometheus is told of this process alone: what passed through its store since it began.

use everruns_durable::engine::ChoreTrouble;

use super::text::Text;
use crate::measures::Figures;

#[allow(clippy::cast_precision_loss, reason = "Prometheus' values are doubles")]
pub(super) fn measure(text: &mut Text, figures: &Figures) {
    for (name, help, value) in [
        (
            "durable_activities_scheduled_total",
            "Activities that workflows asked for",
            figures.tasks_scheduled,
        ),
        (
            "durable_activities_retried_total",
            "Attempts that failed and are tried again",
            figures.retries,
        ),
        (
            "durable_tasks_claimed_total",
            "Tasks that workers claimed from the queue",
            figures.tasks_claimed,
        ),
        (
            "worker_claims_total",
            "Claims, those that found nothing included",
            figures.claims,
        ),
        (
            "durable_dlq_requeued_total",
            "Dead letters that were tried again",
            figures.letters_requeued,
        ),
        (
            "durable_retention_rows_deleted_total",
            "Rows that were deleted by their age, those of ended runs not included",
            figures.old_rows,
        ),
    ] {
        text.single(name, "counter", help, value as f64);
    }
    text.single(
        "durable_retention_stuck_runs",
        "gauge",
        "Deleted runs whose rows could not be deleted at the last attempt",
        figures.stuck_runs as f64,
    );
    for (name, help, values) in [
        (
            "durable_activity_schedule_to_start_seconds",
            "From the request for an activity to its first claim",
            &figures.schedule_to_start,
        ),
        (
            "durable_tasks_claim_latency_seconds",
            "How long the store took for a claim",
            &figures.claim_latency,
        ),
        (
            "worker_claim_size",
            "Tasks of one claim",
            &figures.claim_size,
        ),
        (
            "step_retry_delay_seconds",
            "How long an attempt that failed waits for the next",
            &figures.retry_delay,
        ),
    ] {
        text.counted(name, help, values);
    }
    let name = "durable_circuit_breaker_opens_total";
    text.measure(name, "counter", "How often a breaker opened");
    for (key, opens) in &figures.breaker_opens {
        text.value(name, &[("key", key)], *opens as f64);
    }
}

/// Which chores of this process failed.
#[allow(clippy::cast_precision_loss, reason = "Prometheus' values are doubles")]
pub(super) fn chores(text: &mut Text, troubles: &[ChoreTrouble]) {
    let name = "durable_chore_failures_total";
    text.measure(name, "counter", "How often a chore of this process failed");
    for trouble in troubles {
        text.value(name, &[("chore", trouble.chore)], trouble.failures as f64);
    }
    let name = "durable_chore_failures_in_a_row";
    let help = "How often a chore of this process failed since it last succeeded";
    text.measure(name, "gauge", help);
    for trouble in troubles {
        let in_a_row = f64::from(trouble.in_a_row);
        text.value(name, &[("chore", trouble.chore)], in_a_row);
    }
}
