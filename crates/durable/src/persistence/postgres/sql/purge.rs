//! Deleting: runs, slices of what belongs to deleted runs, and rows that are old. Each statement is
//! bounded in rows and in bytes of payloads; the row that passes the bytes is taken, so that each
//! makes progress.

use crate::persistence::postgres::statement::{Statement, statements};

/// Rows of deleted runs, in the order of the primary key within a run: the index is read no further
/// than the limit, however many rows the run has. Nothing writes them any more, so that a row is
/// where it was found.
macro_rules! delete_of {
    ($table:literal, $key:literal, $bytes:literal) => {
        concat!(
            "WITH gone AS (
            DELETE FROM {s}.",
            $table,
            " WHERE ctid = ANY(ARRAY(
                SELECT c.place
                FROM (
                    SELECT b.place, sum(b.bytes) OVER (ROWS UNBOUNDED PRECEDING) - b.bytes AS before
                    FROM (
                        SELECT r.place, r.bytes
                        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
                        CROSS JOIN LATERAL (
                            SELECT t.ctid AS place, ",
            $bytes,
            " AS bytes
                            FROM {s}.",
            $table,
            " AS t
                            WHERE t.partition_key = k.shard AND t.workflow_id = k.run_id
                            ORDER BY t.",
            $key,
            "
                            LIMIT $3) AS r
                        LIMIT $3) AS b) AS c
                WHERE c.before < $4))
            RETURNING ",
            $bytes,
            " AS bytes)
        SELECT count(*), COALESCE(sum(bytes), 0)::BIGINT FROM gone"
        )
    };
}

/// Old rows of a shard, the oldest first. The condition stands twice: a row that changed meanwhile
/// is looked at again.
macro_rules! delete_old {
    ($table:literal, $old:literal, $order:literal, $bytes:literal) => {
        concat!(
            "WITH gone AS (
            DELETE FROM {s}.",
            $table,
            " AS t WHERE t.ctid = ANY(ARRAY(
                SELECT c.place
                FROM (
                    SELECT b.place, sum(b.bytes) OVER (ROWS UNBOUNDED PRECEDING) - b.bytes AS before
                    FROM (
                        SELECT t.ctid AS place, ",
            $bytes,
            " AS bytes
                        FROM {s}.",
            $table,
            " AS t
                        WHERE ",
            $old,
            "
                        ORDER BY ",
            $order,
            "
                        LIMIT $3
                        FOR UPDATE OF t SKIP LOCKED) AS b) AS c
                WHERE c.before < $4)) AND ",
            $old,
            "
            RETURNING ",
            $bytes,
            " AS bytes)
        SELECT count(*), COALESCE(sum(bytes), 0)::BIGINT FROM gone"
        )
    };
}

statements! {
    /// History, behind what was deleted before. Answers by run how far it came.
    PURGE_EVENTS [INT4, UUID_ARRAY, INT8_ARRAY, INT8, INT8] = "
        WITH gone AS (
            DELETE FROM {s}.durable_workflow_events
            WHERE ctid = ANY(ARRAY(
                SELECT c.place
                FROM (
                    SELECT b.place, sum(b.bytes) OVER (ROWS UNBOUNDED PRECEDING) - b.bytes AS before
                    FROM (
                        SELECT r.place, r.bytes
                        FROM (SELECT $1 AS shard, unnest($2) AS run_id, unnest($3) AS after OFFSET 0) AS k
                        CROSS JOIN LATERAL (
                            SELECT t.ctid AS place,
                                octet_length(t.event_data) + COALESCE(octet_length(t.payload), 0) AS bytes
                            FROM {s}.durable_workflow_events AS t
                            WHERE t.partition_key = k.shard AND t.workflow_id = k.run_id
                              AND t.sequence_num > k.after
                            ORDER BY t.sequence_num
                            LIMIT $4) AS r
                        LIMIT $4) AS b) AS c
                WHERE c.before < $5))
            RETURNING workflow_id, sequence_num,
                octet_length(event_data) + COALESCE(octet_length(payload), 0) AS bytes)
        SELECT workflow_id, max(sequence_num), count(*), sum(bytes)::BIGINT
        FROM gone
        GROUP BY workflow_id";
    /// Facts that wait.
    PURGE_FACTS [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_inbox", "arrival",
        "octet_length(event_data) + COALESCE(octet_length(payload), 0) + COALESCE(octet_length(attempts), 0)");
    /// The ledger of signals.
    PURGE_SIGNALS [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_signals", "id",
        "COALESCE(octet_length(payload), 0)");
    /// Updates.
    PURGE_UPDATES [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_updates", "update_id",
        "COALESCE(octet_length(input), 0) + COALESCE(octet_length(result), 0) + COALESCE(octet_length(error), 0)");
    /// Search attributes.
    PURGE_ATTRIBUTES [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_search_attributes", "name",
        "COALESCE(octet_length(value_text), 0)");
    /// Outbox events.
    PURGE_OUTBOX [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_outbox", "id",
        "COALESCE(octet_length(payload), 0)");
    /// Log lines.
    PURGE_LOGS [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_step_logs", "id",
        "octet_length(message) + COALESCE(octet_length(meta), 0)");
    /// Dead letters.
    PURGE_LETTERS [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_dead_letter_queue", "id",
        "COALESCE(octet_length(input), 0) + octet_length(error_history)");
    /// Human tasks.
    PURGE_HUMAN_TASKS [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_human_tasks", "task_id",
        "COALESCE(octet_length(request), 0) + COALESCE(octet_length(answer), 0)");
    /// Tasks; a run that has ended has none.
    PURGE_TASKS [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_task_queue", "id",
        "COALESCE(octet_length(input), 0) + octet_length(options)");
    /// Timers; a run that has ended has none.
    PURGE_TIMERS [INT4, UUID_ARRAY, INT8, INT8] = delete_of!("durable_timers", "timer_id",
        "octet_length(timer_id)");
    /// The runs.
    PURGE_RUNS [INT4, UUID_ARRAY] = "
        DELETE FROM {s}.durable_workflow_instances AS t
        USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.run_id";

    /// Runs that ended first, whether nothing of theirs is on its way and their deletion did not
    /// fail before, and the bytes that their row holds. Index `ended`, in its order.
    PURGEABLE_RUNS [INT4, TIMESTAMPTZ, TIMESTAMPTZ, UUID, INT8] = "
        SELECT r.completed_at, r.id,
            COALESCE(octet_length(r.input), 0)::BIGINT + COALESCE(octet_length(r.result), 0)
                + COALESCE(octet_length(r.error), 0) + COALESCE(octet_length(r.memo), 0),
            NOT EXISTS (
                SELECT FROM {s}.durable_messages AS m
                WHERE m.partition_key = $1 AND m.sender = r.id)
            AND NOT EXISTS (
                SELECT FROM {s}.durable_outbox AS o
                WHERE o.partition_key = ANY(ARRAY[r.partition_key]) AND o.workflow_id = r.id
                  AND o.state IN ('pending', 'in_flight'))
            AND NOT EXISTS (
                SELECT FROM {s}.durable_purges AS p
                WHERE p.partition_key = ANY(ARRAY[r.partition_key]) AND p.run_id = r.id)
        FROM {s}.durable_workflow_instances AS r
        WHERE r.partition_key = $1 AND r.completed_at < $2 AND (r.completed_at, r.id) > ($3, $4)
        ORDER BY r.partition_key, r.completed_at, r.id
        LIMIT $5";
    /// Locks those of them that no other transaction has locked. Primary key.
    LOCK_PURGEABLE [INT4, UUID_ARRAY] = "
        SELECT t.id
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_workflow_instances AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.run_id
        FOR UPDATE OF t SKIP LOCKED";
    /// Whether something of a run is on its way. Primary keys.
    ON_ITS_WAY [INT4, UUID] = "
        SELECT EXISTS (
                SELECT FROM {s}.durable_messages AS m
                WHERE m.partition_key = $1 AND m.sender = $2)
            OR EXISTS (
                SELECT FROM {s}.durable_outbox AS o
                WHERE o.partition_key = $1 AND o.workflow_id = $2
                  AND o.state IN ('pending', 'in_flight'))";

    /// Notes runs that were deleted.
    INSERT_PURGES [INT4, TIMESTAMPTZ, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY] = "
        INSERT INTO {s}.durable_purges
            (partition_key, run_id, idempotency_key, business_id, created_at, retry_at, failures)
        SELECT $1, k.run_id, k.idempotency_key, k.business_id, $2, $2, 0
        FROM unnest($3, $4, $5) AS k(run_id, idempotency_key, business_id)
        ON CONFLICT (partition_key, run_id) DO NOTHING";
    /// Those that are due. Index `due`, in its order.
    DUE_PURGES [INT4, TIMESTAMPTZ, INT8] = "
        SELECT run_id, idempotency_key, business_id, failures, events_through
        FROM {s}.durable_purges
        WHERE partition_key = $1 AND retry_at <= $2
        ORDER BY partition_key, retry_at, run_id
        LIMIT $3
        FOR UPDATE SKIP LOCKED";
    /// One of them. Primary key.
    PURGE_OF [INT4, UUID] = "
        SELECT run_id, idempotency_key, business_id, failures, events_through
        FROM {s}.durable_purges
        WHERE partition_key = $1 AND run_id = $2
        FOR UPDATE";
    /// How many failed. Index `stuck`.
    STUCK_PURGES [INT4, INT8] = "
        SELECT count(*)
        FROM (SELECT FROM {s}.durable_purges
              WHERE partition_key = $1 AND failures > 0
              LIMIT $2) AS stuck";
    /// Sets deletions aside. Primary key.
    POSTPONE_PURGES [INT4, UUID_ARRAY, INT4_ARRAY, TIMESTAMPTZ_ARRAY, TEXT_ARRAY] = "
        UPDATE {s}.durable_purges AS t
        SET failures = k.failures, retry_at = k.retry_at, last_error = k.error
        FROM (SELECT $1 AS shard, unnest($2) AS run_id, unnest($3) AS failures, unnest($4) AS retry_at,
                  unnest($5) AS error OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.run_id = k.run_id";
    /// Notes how far events are deleted. Primary key.
    ADVANCE_PURGES [INT4, UUID_ARRAY, INT8_ARRAY] = "
        UPDATE {s}.durable_purges AS t
        SET events_through = k.through
        FROM (SELECT $1 AS shard, unnest($2) AS run_id, unnest($3) AS through OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.run_id = k.run_id";
    /// Nothing is left of them. Primary key.
    DELETE_PURGES [INT4, UUID_ARRAY] = "
        DELETE FROM {s}.durable_purges AS t
        USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.run_id = k.run_id";

    /// Signals that a turn took. Index `processed`.
    OLD_SIGNALS [INT4, TIMESTAMPTZ, INT8, INT8] = delete_old!("durable_signals",
        "t.partition_key = $1 AND t.processed_at < $2", "t.partition_key, t.processed_at",
        "COALESCE(octet_length(t.payload), 0)");
    /// Updates that were answered. Index `completed`.
    OLD_UPDATES [INT4, TIMESTAMPTZ, INT8, INT8] = delete_old!("durable_updates",
        "t.partition_key = $1 AND t.completed_at < $2", "t.partition_key, t.completed_at",
        "COALESCE(octet_length(t.input), 0) + COALESCE(octet_length(t.result), 0)");
    /// Log lines. Index `created`.
    OLD_LOGS [INT4, TIMESTAMPTZ, INT8, INT8] = delete_old!("durable_step_logs",
        "t.partition_key = $1 AND t.created_at < $2", "t.partition_key, t.created_at",
        "octet_length(t.message) + COALESCE(octet_length(t.meta), 0)");
    /// Outbox events that were published or failed. Index `over`.
    OLD_OUTBOX [INT4, TIMESTAMPTZ, INT8, INT8] = delete_old!("durable_outbox",
        "t.partition_key = $1 AND t.available_at < $2 AND t.state IN ('published', 'failed')",
        "t.partition_key, t.available_at", "COALESCE(octet_length(t.payload), 0)");
    /// Dead letters about which a decision was made. Index `decided`.
    OLD_LETTERS [INT4, TIMESTAMPTZ, INT8, INT8] = delete_old!("durable_dead_letter_queue",
        "t.partition_key = $1 AND t.dead_at < $2 AND t.state <> 'dead'", "t.partition_key, t.dead_at",
        "COALESCE(octet_length(t.input), 0) + octet_length(t.error_history)");
    /// Results recorded once. Index `created`; they have no shard.
    OLD_RESULTS [INT4, TIMESTAMPTZ, INT8, INT8] = delete_old!("durable_dedup",
        "$1 = 0 AND t.created_at < $2", "t.created_at", "COALESCE(octet_length(t.result), 0)");
    /// Stopped workers. Index `stopped`; they have no shard.
    OLD_WORKERS [INT4, TIMESTAMPTZ, INT8, INT8] = delete_old!("durable_workers",
        "$1 = 0 AND t.status = 'stopped' AND t.last_heartbeat_at < $2", "t.status, t.id",
        "COALESCE(octet_length(t.metadata), 0)");

    /// Adds totals of old hours to those of their day, and those of very old days to one row.
    /// Primary key: it reads what is kept by the day,
    /// too, which is bounded by the number of days.
    OLD_ROLLUPS [INT4, TIMESTAMPTZ, TIMESTAMPTZ, INT8] = "
        WITH gone AS (
            DELETE FROM {s}.durable_rollups AS t
            WHERE t.ctid = ANY(ARRAY(
                SELECT t.ctid
                FROM {s}.durable_rollups AS t
                WHERE t.partition_key = $1 AND t.hour < $2
                  AND (t.slot <> 0 OR t.hour <> CASE WHEN t.hour < $3 THEN 'epoch'::TIMESTAMPTZ
                      ELSE date_trunc('day', t.hour AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' END)
                ORDER BY t.partition_key, t.hour
                LIMIT $4
                FOR UPDATE OF t SKIP LOCKED))
            RETURNING CASE WHEN t.hour < $3 THEN 'epoch'::TIMESTAMPTZ
                    ELSE date_trunc('day', t.hour AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' END AS day,
                t.hour, t.kind, t.name, t.outcome, t.duration_exp, t.count, t.total_ms, t.wait_ms),
        added AS (
            INSERT INTO {s}.durable_rollups AS t
                (partition_key, hour, kind, name, outcome, duration_exp, slot, count, total_ms, wait_ms)
            SELECT $1, day, kind, name, outcome, duration_exp, 0, sum(count), sum(total_ms), sum(wait_ms)
            FROM gone
            GROUP BY day, kind, name, outcome, duration_exp
            ORDER BY day, kind, name, outcome, duration_exp
            ON CONFLICT (partition_key, hour, kind, name, outcome, duration_exp, slot) DO UPDATE
            SET count = t.count + excluded.count, total_ms = t.total_ms + excluded.total_ms,
                wait_ms = t.wait_ms + excluded.wait_ms)
        SELECT count(*), count(DISTINCT (hour, kind, name, outcome, duration_exp)) FILTER (WHERE hour <> day) FROM gone";

    /// Runs with events of earlier iterations. Index `past`, in its order.
    PAST_RUNS [INT4, UUID, INT8] = "
        SELECT id, history_start, purged_through
        FROM {s}.durable_workflow_instances
        WHERE partition_key = $1 AND history_start > purged_through AND id > $2
        ORDER BY partition_key, id
        LIMIT $3";
    /// Deletes the first events of earlier iterations, up to the first that is not old. Primary
    /// key; of a run whose first event is not old, that event alone is read.
    DELETE_PAST [INT4, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY, TIMESTAMPTZ, INT8, INT8] = "
        WITH gone AS (
            DELETE FROM {s}.durable_workflow_events
            WHERE ctid = ANY(ARRAY(
                SELECT c.place
                FROM (
                    SELECT b.place, sum(b.bytes) OVER (ROWS UNBOUNDED PRECEDING) - b.bytes AS before
                    FROM (
                        SELECT r.place, r.bytes
                        FROM (SELECT $1 AS shard, unnest($2) AS run_id, unnest($3) AS after, unnest($4) AS through OFFSET 0) AS k
                        CROSS JOIN LATERAL (
                            SELECT t.created_at
                            FROM {s}.durable_workflow_events AS t
                            WHERE t.partition_key = k.shard AND t.workflow_id = k.run_id
                              AND t.sequence_num > k.after AND t.sequence_num <= k.through
                            ORDER BY t.sequence_num
                            LIMIT 1) AS first
                        CROSS JOIN LATERAL (
                            SELECT e.place, e.bytes
                            FROM (
                                SELECT t.ctid AS place,
                                    octet_length(t.event_data) + COALESCE(octet_length(t.payload), 0) AS bytes,
                                    bool_and(t.created_at < $5) OVER (ORDER BY t.sequence_num) AS old
                                FROM (
                                    SELECT t.ctid, t.event_data, t.payload, t.created_at, t.sequence_num
                                    FROM {s}.durable_workflow_events AS t
                                    WHERE t.partition_key = k.shard AND t.workflow_id = k.run_id
                                      AND t.sequence_num > k.after AND t.sequence_num <= k.through
                                    ORDER BY t.sequence_num
                                    LIMIT $6) AS t) AS e
                            WHERE e.old) AS r
                        WHERE first.created_at < $5
                        LIMIT $6) AS b) AS c
                WHERE c.before < $7))
            RETURNING octet_length(event_data) + COALESCE(octet_length(payload), 0) AS bytes)
        SELECT count(*), COALESCE(sum(bytes), 0)::BIGINT FROM gone";
    /// Notes how far the events of earlier iterations are deleted. Primary keys; a run that
    /// another transaction has locked is left for the next time.
    MARK_PAST [INT4, UUID_ARRAY] = "
        UPDATE {s}.durable_workflow_instances AS t
        SET purged_through = f.through
        FROM (
            SELECT k.shard, t.id, LEAST(t.history_start, COALESCE((
                SELECT e.sequence_num - 1
                FROM {s}.durable_workflow_events AS e
                WHERE e.partition_key = $1 AND e.workflow_id = t.id AND e.sequence_num > t.purged_through
                ORDER BY e.sequence_num
                LIMIT 1), t.history_start)) AS through
            FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
            JOIN {s}.durable_workflow_instances AS t
              ON t.partition_key = ANY(ARRAY[k.shard]) AND t.id = k.run_id
            FOR UPDATE OF t SKIP LOCKED) AS f
        WHERE t.partition_key = ANY(ARRAY[f.shard]) AND t.id = f.id AND t.purged_through < f.through";
}
