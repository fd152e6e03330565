//! A database as production leaves it after a year: a million rows in every table that grows.

use everruns_durable::persistence::postgres::Postgres;
use tokio::sync::OnceCell;

use crate::server::{connect, open};

/// Rows of each table that grows.
pub(crate) const ROWS: u32 = 1_000_000;

/// Tables that hold settings or one row for each thing that operators deploy. They do not grow with
/// the number of runs.
pub(crate) const SMALL: [&str; 6] = [
    "durable_circuit_breaker_state",
    "durable_meta",
    "durable_schedules",
    "durable_schema_migrations",
    "durable_workers",
    "durable_workflow_versions",
];

/// The texts that fill the tables, `{n}` being the number of rows. Ids are made of the row's number
/// so that they are inserted in the order of the key. Of a hundred rows, one or a few are of the
/// rare kinds that partial indexes hold.
const FILL: &[&str] = &[
    "INSERT INTO durable.durable_workflow_instances
        (partition_key, id, workflow_type, version, business_id, fingerprint, status, parent_id, has_children,
         sequence_num, history_start, iteration, epoch, arrivals, consumed, ready_at, blocked_build,
         deadline_at, created_at, updated_at, started_at, completed_at)
     SELECT 0, lpad(to_hex(n), 32, '0')::uuid, 'type' || n % 50, '', CASE WHEN n % 10 = 0 THEN 'b' || n END, n,
            CASE WHEN n % 1000 >= 6 THEN 'completed' WHEN n % 1000 = 0 THEN 'pending' WHEN n % 1000 = 1 THEN 'running'
                 WHEN n % 1000 = 2 THEN 'cancelled' ELSE 'failed' END,
            CASE WHEN n % 20 = 3 THEN lpad(to_hex(n / 100), 32, '0')::uuid END, FALSE,
            2, 0, 0, 0, 1, 1, CASE WHEN n % 1000 < 2 THEN at END,
            CASE WHEN n % 10000 = 0 THEN 'build' END, CASE WHEN n % 1000 < 2 THEN at + INTERVAL '1 year' END,
            at, at, at, CASE WHEN n % 1000 >= 2 THEN at END
     FROM (SELECT n, now() - ({n} - n) * INTERVAL '30 seconds' AS at FROM generate_series(1, {n}) AS n) AS k",
    "INSERT INTO durable.durable_search_attributes
        (partition_key, workflow_id, name, kind, value_text, value_int, value_double, value_bool, value_time)
     SELECT 0, lpad(to_hex(n), 32, '0')::uuid, 'name' || n % 5,
            (ARRAY['text', 'int', 'double', 'bool', 'time'])[n % 5 + 1],
            CASE WHEN n % 5 = 0 THEN 'v' || n % 100000 END, CASE WHEN n % 5 = 1 THEN n % 100000 END,
            CASE WHEN n % 5 = 2 THEN n % 100000 END, CASE WHEN n % 5 = 3 THEN n % 1000 = 3 END,
            CASE WHEN n % 5 = 4 THEN now() + n % 100000 * INTERVAL '1 second' END
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_task_queue
        (partition_key, id, workflow_id, activity_id, activity_type, options, status, priority, line, sequential,
         epoch, scheduled_at, visible_at, attempt, max_attempts, deliveries, lease_expires_at,
         schedule_to_start_timeout_ms, start_to_close_timeout_ms, requeue_count, timeout_at, due_at)
     SELECT 0, lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n), 32, '0')::uuid, 'x', 'activity' || n % 50, '{}',
            status, n % 5, n, status = 'in_line', 0, now(), now() + n * INTERVAL '1 microsecond', 0, 3, 0,
            CASE WHEN status = 'claimed' THEN now() + INTERVAL '15 seconds' END, 1000, 1000, 0,
            CASE WHEN status NOT IN ('in_line', 'parked', 'dead') THEN now() + n * INTERVAL '1 second' END,
            CASE WHEN status NOT IN ('in_line', 'parked', 'dead') THEN now() + n * INTERVAL '1 second' END
     FROM (SELECT n, CASE WHEN n % 1000 = 0 THEN 'parked' WHEN n % 1000 = 1 THEN 'dead'
                          ELSE (ARRAY['pending', 'claimed', 'delayed', 'in_line', 'pending'])[n % 5 + 1] END AS status
           FROM generate_series(1, {n}) AS n) AS k",
    "INSERT INTO durable.durable_workflow_events
        (partition_key, workflow_id, sequence_num, event_type, event_data, created_at)
     SELECT 0, lpad(to_hex(n / 10), 32, '0')::uuid, n % 10, 'x', '{}', now() FROM generate_series(10, {n} + 9) AS n",
    "INSERT INTO durable.durable_timers (partition_key, workflow_id, timer_id, fire_at, epoch)
     SELECT 0, lpad(to_hex(n), 32, '0')::uuid, 't', now() + n * INTERVAL '1 second', 0
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_inbox
        (partition_key, workflow_id, arrival, event_type, event_data, arrived_at)
     SELECT 0, lpad(to_hex(n / 10), 32, '0')::uuid, n % 10, 'signal.received', '{}', now()
     FROM generate_series(10, {n} + 9) AS n",
    "INSERT INTO durable.durable_signals
        (partition_key, workflow_id, id, signal_type, sequence_num, sent_at, processed_at)
     SELECT 0, lpad(to_hex(n / 10), 32, '0')::uuid, lpad(to_hex(n), 32, '0')::uuid, 'x', n % 10, now(),
            CASE WHEN n % 10 > 0 THEN now() - ({n} - n) * INTERVAL '1 second' END
     FROM generate_series(10, {n} + 9) AS n",
    "INSERT INTO durable.durable_updates
        (partition_key, workflow_id, update_id, name, sequence_num, state, created_at, completed_at)
     SELECT 0, lpad(to_hex(n / 10), 32, '0')::uuid, 'u' || n % 10, 'x', n % 10,
            CASE WHEN n % 10 > 0 THEN 'completed' ELSE 'pending' END, now(),
            CASE WHEN n % 10 > 0 THEN now() - ({n} - n) * INTERVAL '1 second' END
     FROM generate_series(10, {n} + 9) AS n",
    "INSERT INTO durable.durable_keys (partition_key, kind, key, run_id, created_at)
     SELECT 0, (ARRAY['business', 'cron_slot', 'idempotency', 'tombstone'])[n * 4 / ({n} + 1) + 1],
            'schedule@' || lpad(n::text, 8, '0'), lpad(to_hex(n), 32, '0')::uuid,
            now() - ({n} - n) * INTERVAL '1 second'
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_dead_letter_queue
        (partition_key, id, workflow_id, activity_id, activity_type, options, epoch, attempts, last_error,
         error_history, parked, state, dead_at, requeue_count)
     SELECT 0, lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n), 32, '0')::uuid, 'x', 'activity' || n % 50, '{}', 0, 3,
            '{}', '[]', FALSE,
            CASE WHEN n % 1000 < 5 THEN 'dead' WHEN n % 1000 = 6 THEN 'requeued' WHEN n % 1000 = 7 THEN 'discarded'
                 ELSE 'completed' END,
            now() - ({n} - n) * INTERVAL '1 second', 0
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_messages (partition_key, sender, sequence_num, idx, kind, data)
     SELECT 0, lpad(to_hex(n), 32, '0')::uuid, 1, 0, 'x', '{}' FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_outbox
        (partition_key, workflow_id, id, event_type, state, attempts, available_at, created_at, published_at)
     SELECT 0, lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n), 32, '0')::uuid, 'x',
            CASE WHEN n % 100 = 0 THEN 'pending' WHEN n % 100 = 1 THEN 'failed' ELSE 'published' END, 1, now(), now(),
            CASE WHEN n % 100 > 1 THEN now() END
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_step_logs
        (partition_key, workflow_id, id, activity_id, attempt, level, message, created_at)
     SELECT 0, lpad(to_hex(n / 10), 32, '0')::uuid, lpad(to_hex(n), 32, '0')::uuid, 'x', 1, 'info', 'x',
            now() - ({n} - n) * INTERVAL '1 second'
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_audit (id, at, request_id, actor, role, action, target_kind, target_id)
     SELECT lpad(to_hex(n), 32, '0')::uuid, now() - ({n} - n) * INTERVAL '1 second',
            lpad(to_hex(n), 32, '0')::uuid, 'actor' || n % 50, 'admin', 'action' || n % 20,
            (ARRAY['run', 'dead_letter', 'dead_letters', 'schedule', 'worker', 'breaker'])[n % 6 + 1], 't' || n
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_rollups
        (partition_key, hour, kind, name, outcome, duration_exp, slot, count, total_ms)
     SELECT 0, date_trunc('hour', now()) - ({n} / 100 - n / 100) * INTERVAL '1 hour', 'activity', 'x' || n % 10,
            'completed', n / 10 % 10, 0, 1, 1
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_purges (partition_key, run_id, created_at, retry_at, failures)
     SELECT 0, lpad(to_hex(n), 32, '0')::uuid, now(), now() - ({n} - n) * INTERVAL '1 second', (n % 100 = 0)::int
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_dedup (key, created_at)
     SELECT lpad(n::text, 8, '0') || '/activity', now() - ({n} - n) * INTERVAL '1 second'
     FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_human_tasks (partition_key, workflow_id, task_id, state, created_at)
     SELECT 0, lpad(to_hex(n), 32, '0')::uuid, 'x', 'approved', now() FROM generate_series(1, {n}) AS n",
    "INSERT INTO durable.durable_workers
        (id, worker_group, activity_types, max_concurrency, current_load, status, accepting_tasks, started_at,
         last_heartbeat_at, tasks_completed, tasks_failed, avg_task_duration_ms)
     SELECT 'w' || n, 'g', '{}', 1, 0, 'active', TRUE, now(), now(), 0, 0, 0 FROM generate_series(1, 1000) AS n",
    "INSERT INTO durable.durable_schedules
        (id, workflow_type, version, cron, time_zone, overlap, catchup_window_ms, paused, next_fire_at, created_at,
         updated_at)
     SELECT 's' || n, 'x', '', '@daily', 'UTC', 'skip', 0, FALSE, now(), now(), now()
     FROM generate_series(1, 1000) AS n",
    "INSERT INTO durable.durable_circuit_breaker_state
        (key, state, failure_count, success_count, version, updated_at)
     SELECT 'limit:' || n, 'closed', 0, 0, 1, now() FROM generate_series(1, 1000) AS n",
];

/// Connections that fill tables at once.
const FILLERS: usize = 3;

static FILLED: OnceCell<String> = OnceCell::const_new();

/// The URL of the filled and analysed database, one for all tests of this binary. Tests roll back
/// what they write.
pub(crate) async fn filled() -> &'static str {
    FILLED.get_or_init(fill).await
}

async fn fill() -> String {
    let (store, url) = open(1).await;
    drop::<Postgres>(store);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let filler = async || {
        let client = connect(&url).await;
        loop {
            let place = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(text) = FILL.get(place) else { break };
            let text = text.replace("{n}", &ROWS.to_string());
            let table = text.split_whitespace().nth(2).unwrap();
            let insert = format!("ALTER TABLE {table} SET UNLOGGED; {text}; ANALYZE {table}");
            client.batch_execute(&insert).await.unwrap();
        }
    };
    futures_util::future::join_all((0..FILLERS).map(|_| filler())).await;
    url
}
