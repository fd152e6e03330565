//! Everything, for tests and the audit.

use super::letters::letter_columns;
use super::outbox::outbox_columns;
use super::runs::run_columns;
use super::tasks::task_columns;
use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Runs.
    DUMP_RUNS [] = concat!("SELECT ", run_columns!(), " FROM {s}.durable_workflow_instances ORDER BY id");
    /// Events.
    DUMP_EVENTS [] = "
        SELECT workflow_id, sequence_num, event_type, event_data, payload, created_at
        FROM {s}.durable_workflow_events
        ORDER BY workflow_id, sequence_num";
    /// Tasks.
    DUMP_TASKS [] = concat!("SELECT ", task_columns!(), " FROM {s}.durable_task_queue AS t ORDER BY t.line, t.id");
    /// Timers.
    DUMP_TIMERS [] = "
        SELECT workflow_id, timer_id, fire_at, epoch
        FROM {s}.durable_timers
        ORDER BY workflow_id, timer_id";
    /// Facts that wait.
    DUMP_FACTS [] = "
        SELECT workflow_id, arrival, event_type, event_data, payload, attempts, last_attempt, arrived_at
        FROM {s}.durable_inbox
        ORDER BY workflow_id, arrival";
    /// Signals.
    DUMP_SIGNALS [] = "
        SELECT workflow_id, id, signal_type, payload, sequence_num, sent_at, processed_at
        FROM {s}.durable_signals
        ORDER BY workflow_id, sequence_num, id";
    /// Updates.
    DUMP_UPDATES [] = "
        SELECT workflow_id, update_id, name, input, sequence_num, state, result, error, created_at,
               completed_at
        FROM {s}.durable_updates
        ORDER BY workflow_id, sequence_num, update_id";
    /// Search attributes.
    DUMP_ATTRIBUTES [] = "
        SELECT workflow_id, name, kind, value_text, value_int, value_double, value_bool, value_time
        FROM {s}.durable_search_attributes";
    /// Messages.
    DUMP_MESSAGES [] = "
        SELECT sender, sequence_num, idx, data, payload, memo
        FROM {s}.durable_messages
        ORDER BY sender, sequence_num, idx";
    /// Outbox events.
    DUMP_OUTBOX [] = concat!("SELECT ", outbox_columns!(), " FROM {s}.durable_outbox AS t ORDER BY t.id");
    /// Log lines.
    DUMP_LOGS [] = "
        SELECT id, workflow_id, activity_id, attempt, level, message, meta, created_at
        FROM {s}.durable_step_logs
        ORDER BY workflow_id, id";
    /// Keys.
    DUMP_KEYS [] = "
        SELECT kind, key, run_id, created_at FROM {s}.durable_keys WHERE run_id IS NOT NULL";
    /// Dead letters.
    DUMP_LETTERS [] = concat!("
        SELECT ", letter_columns!(), " FROM {s}.durable_dead_letter_queue AS t ORDER BY t.id, t.workflow_id");
    /// Results recorded once.
    DUMP_DEDUP [] = "
        SELECT key, result, created_at FROM {s}.durable_dedup ORDER BY key";
}
