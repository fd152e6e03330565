//! Everything, for tests and the audit.

use super::letters::letter_columns;
use super::outbox::outbox_columns;
use super::runs::run_columns;
use super::tasks::task_columns;
use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Runs, with the columns that follow from others.
    DUMP_RUNS [] for Proof = concat!("
        SELECT ", run_columns!(), ", task_count, line_count, deadline_at
        FROM {s}.durable_workflow_instances ORDER BY id");
    /// Events.
    DUMP_EVENTS [] for Proof = "
        SELECT workflow_id, sequence_num, event_type, event_data, payload, created_at
        FROM {s}.durable_workflow_events
        ORDER BY workflow_id, sequence_num";
    /// Tasks, with the columns that follow from others.
    DUMP_TASKS [] for Proof = concat!("
        SELECT ", task_columns!(), ", t.timeout_at, t.due_at
        FROM {s}.durable_task_queue AS t ORDER BY t.line, t.id");
    /// Timers.
    DUMP_TIMERS [] for Proof = "
        SELECT workflow_id, timer_id, fire_at, epoch
        FROM {s}.durable_timers
        ORDER BY workflow_id, timer_id";
    /// Facts that wait.
    DUMP_FACTS [] for Proof = "
        SELECT workflow_id, arrival, event_type, event_data, payload, attempts, last_attempt, arrived_at
        FROM {s}.durable_inbox
        ORDER BY workflow_id, arrival";
    /// Signals.
    DUMP_SIGNALS [] for Proof = "
        SELECT workflow_id, id, signal_type, payload, sequence_num, sent_at, processed_at
        FROM {s}.durable_signals
        ORDER BY workflow_id, sequence_num, id";
    /// Updates.
    DUMP_UPDATES [] for Proof = "
        SELECT workflow_id, update_id, name, input, sequence_num, state, result, error, created_at,
               completed_at
        FROM {s}.durable_updates
        ORDER BY workflow_id, sequence_num, update_id";
    /// Search attributes.
    DUMP_ATTRIBUTES [] for Proof = "
        SELECT workflow_id, name, kind, value_text, value_int, value_double, value_bool, value_time
        FROM {s}.durable_search_attributes";
    /// Messages.
    DUMP_MESSAGES [] for Proof = "
        SELECT sender, sequence_num, idx, data, payload, memo
        FROM {s}.durable_messages
        ORDER BY sender, sequence_num, idx";
    /// Outbox events.
    DUMP_OUTBOX [] for Proof = concat!("SELECT ", outbox_columns!(), " FROM {s}.durable_outbox AS t ORDER BY t.id");
    /// Log lines.
    DUMP_LOGS [] for Proof = "
        SELECT id, workflow_id, activity_id, attempt, level, message, meta, created_at
        FROM {s}.durable_step_logs
        ORDER BY workflow_id, id";
    /// Keys.
    DUMP_KEYS [] for Proof = "
        SELECT kind, key, run_id, created_at FROM {s}.durable_keys";
    /// Runs that are being deleted.
    DUMP_PURGES [] for Proof = "
        SELECT run_id FROM {s}.durable_purges";
    /// Dead letters.
    DUMP_LETTERS [] for Proof = concat!("
        SELECT ", letter_columns!(), " FROM {s}.durable_dead_letter_queue AS t ORDER BY t.id, t.workflow_id");
    /// Results recorded once.
    DUMP_DEDUP [] for Proof = "
        SELECT key, result, created_at FROM {s}.durable_dedup ORDER BY key";
    /// Totals, all slots and shards together.
    DUMP_ROLLUPS [] for Proof = "
        SELECT hour, kind, name, outcome, duration_exp, sum(count)::BIGINT, sum(total_ms)::BIGINT,
            sum(wait_ms)::BIGINT
        FROM {s}.durable_rollups
        GROUP BY hour, kind, name, outcome, duration_exp";
}
