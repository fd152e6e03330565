//! Deleting: slices of what belongs to deleted runs, and rows that are old. Each slice is bounded
//! in rows and in bytes of payloads; the row that passes the bytes is taken.

/// How many of a run's first rows make a slice, and their bytes.
macro_rules! size_of {
    ($table:literal, $key:literal, $bytes:literal) => {
        concat!(
            "SELECT count(*), ifnull(sum(bytes), 0) FROM (\
             SELECT bytes, sum(bytes) OVER (ORDER BY place ROWS UNBOUNDED PRECEDING) - bytes AS before FROM (\
             SELECT ", $key, " AS place, ", $bytes, " AS bytes FROM ", $table,
            " WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY ", $key, " LIMIT ?3)) WHERE before < ?4"
        )
    };
}

/// Deletes a run's first rows, up to the one that so many come before.
macro_rules! delete_of {
    ($table:literal, $key:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE partition_key = ?1 AND workflow_id = ?2 AND ",
            $key,
            " <= (\
             SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY ",
            $key,
            " LIMIT 1 OFFSET ?3)"
        )
    };
}

/// A table whose rows belong to runs: the size of a slice, and its deletion.
pub(crate) struct Belonging {
    pub(crate) size: super::Statement,
    pub(crate) delete: super::Statement,
}

/// Pairs of statements on the tables of a run.
macro_rules! belongings {
    ($($table:literal by $key:literal, $bytes:literal;)+) => {
        /// What belongs to a run. Dead letters first: they are listed without their run.
        pub(crate) const BELONGINGS: &[Belonging] = &[$(Belonging {
            size: size_of!($table, $key, $bytes),
            delete: delete_of!($table, $key),
        }),+];
    };
}

belongings! {
    "durable_dead_letter_queue" by "id", "ifnull(length(input), 0) + length(error_history)";
    "durable_search_attributes" by "name", "length(value)";
    "durable_workflow_events" by "sequence_num", "length(event_data) + ifnull(length(payload), 0)";
    "durable_inbox" by "arrival", "length(event_data) + ifnull(length(payload), 0) + length(attempts)";
    "durable_signals" by "id", "ifnull(length(payload), 0)";
    "durable_updates" by "update_id", "ifnull(length(input), 0) + ifnull(length(result), 0) + ifnull(length(error), 0)";
    "durable_outbox" by "id", "ifnull(length(payload), 0)";
    "durable_step_logs" by "id", "length(message) + ifnull(length(meta), 0)";
    "durable_human_tasks" by "task_id", "ifnull(length(request), 0) + ifnull(length(answer), 0)";
    "durable_task_queue" by "id", "ifnull(length(input), 0) + length(options)";
    "durable_timers" by "timer_id", "length(timer_id)";
}

/// Old rows of a table, the oldest first: how many make a slice, and their bytes.
macro_rules! size_of_old {
    ($table:literal, $old:literal, $order:literal, $bytes:literal) => {
        concat!(
            "SELECT count(*), ifnull(sum(bytes), 0) FROM (\
             SELECT bytes, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM (\
             SELECT ",
            $bytes,
            " AS bytes FROM ",
            $table,
            " WHERE ",
            $old,
            " ORDER BY ",
            $order,
            " LIMIT ?3)) WHERE before < ?4"
        )
    };
}

/// Deletes that many of them.
macro_rules! delete_old {
    ($table:literal, $keys:literal, $old:literal, $order:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE (",
            $keys,
            ") IN (SELECT ",
            $keys,
            " FROM ",
            $table,
            " WHERE ",
            $old,
            " ORDER BY ",
            $order,
            " LIMIT ?3)"
        )
    };
}

/// Statements on a table whose rows go by their age.
macro_rules! old {
    ($($(#[$doc:meta])+ $name:ident = $table:literal by $keys:literal where $old:literal order $order:literal, $bytes:literal;)+) => {
        $($(#[$doc])+ pub(crate) const $name: Belonging = Belonging {
            size: size_of_old!($table, $old, $order, $bytes),
            delete: delete_old!($table, $keys, $old, $order),
        };)+

        /// All of them.
        #[cfg(test)]
        pub(crate) const OLD: &[Belonging] = &[$($name),+];
    };
}

old! {
    /// Signals that a turn took; by index `processed`.
    SIGNALS = "durable_signals" by "partition_key, workflow_id, id"
        where "partition_key = ?1 AND processed_at < ?2" order "processed_at", "ifnull(length(payload), 0)";
    /// Updates that were answered; by index `completed`.
    UPDATES = "durable_updates" by "partition_key, workflow_id, update_id"
        where "partition_key = ?1 AND completed_at < ?2" order "completed_at",
        "ifnull(length(input), 0) + ifnull(length(result), 0)";
    /// Log lines; by index `created`.
    LOGS = "durable_step_logs" by "partition_key, workflow_id, id"
        where "partition_key = ?1 AND created_at < ?2" order "created_at", "length(message) + ifnull(length(meta), 0)";
    /// Outbox events that were published or failed; by index `over`.
    OUTBOX = "durable_outbox" by "partition_key, workflow_id, id"
        where "partition_key = ?1 AND available_at < ?2 AND state IN ('published', 'failed')" order "available_at",
        "ifnull(length(payload), 0)";
    /// Dead letters about which a decision was made; by index `decided`.
    LETTERS = "durable_dead_letter_queue" by "partition_key, workflow_id, id"
        where "partition_key = ?1 AND dead_at < ?2 AND state <> 'dead'" order "dead_at",
        "ifnull(length(input), 0) + length(error_history)";
    /// Results recorded once; by index `created`. They have no shard.
    RESULTS = "durable_dedup" by "key"
        where "?1 = 0 AND created_at < ?2" order "created_at", "ifnull(length(result), 0)";
    /// Stopped workers; by index `stopped`. They have no shard.
    WORKERS = "durable_workers" by "id"
        where "?1 = 0 AND last_heartbeat_at < ?2 AND status = 'stopped'" order "last_heartbeat_at",
        "ifnull(length(metadata), 0)";
}

statements! {
    /// Runs that ended first, the bytes that their row holds, and whether nothing of theirs is on
    /// its way and their deletion did not fail before; by index `completed`.
    PURGEABLE =
        "SELECT completed_at, id, \
         ifnull(length(input), 0) + ifnull(length(result), 0) + ifnull(length(error), 0) + ifnull(length(memo), 0), \
         NOT EXISTS (SELECT 1 FROM durable_messages AS m \
             WHERE m.partition_key = r.partition_key AND m.sender = r.id) \
         AND NOT EXISTS (SELECT 1 FROM durable_outbox AS o \
             WHERE o.partition_key = r.partition_key AND o.workflow_id = r.id \
             AND o.state IN ('pending', 'in_flight')) \
         AND NOT EXISTS (SELECT 1 FROM durable_purges AS p \
             WHERE p.partition_key = r.partition_key AND p.run_id = r.id) \
         FROM durable_workflow_instances AS r INDEXED BY idx_durable_workflow_instances_completed \
         WHERE partition_key = ?1 AND completed_at IS NOT NULL AND completed_at < ?2 \
         AND (completed_at, id) > (?3, ?4) \
         ORDER BY completed_at, id LIMIT ?5";
    /// Whether something of a run is on its way.
    ON_ITS_WAY =
        "SELECT EXISTS (SELECT 1 FROM durable_messages WHERE partition_key = ?1 AND sender = ?2) \
         OR EXISTS (SELECT 1 FROM durable_outbox \
             WHERE partition_key = ?1 AND workflow_id = ?2 AND state IN ('pending', 'in_flight'))";
    /// A run that was deleted.
    INSERT =
        "INSERT INTO durable_purges (partition_key, run_id, idempotency_key, business_id, created_at, retry_at, failures) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5, 0) ON CONFLICT (partition_key, run_id) DO NOTHING";
    /// Those that are due; by index `due`.
    DUE =
        "SELECT run_id, idempotency_key, business_id, failures FROM durable_purges \
         WHERE partition_key = ?1 AND retry_at <= ?2 ORDER BY retry_at, run_id LIMIT ?3";
    /// One of them.
    OF_RUN =
        "SELECT run_id, idempotency_key, business_id, failures FROM durable_purges \
         WHERE partition_key = ?1 AND run_id = ?2";
    /// How many failed; by index `stuck`.
    STUCK =
        "SELECT count(*) FROM (SELECT 1 FROM durable_purges WHERE partition_key = ?1 AND failures > 0 LIMIT ?2)";
    /// Sets a deletion aside.
    POSTPONE =
        "UPDATE durable_purges SET failures = ?3, retry_at = ?4, last_error = ?5 \
         WHERE partition_key = ?1 AND run_id = ?2";
    /// Nothing is left of it.
    DELETE = "DELETE FROM durable_purges WHERE partition_key = ?1 AND run_id = ?2";

    /// Runs with events of earlier iterations; by index `past`.
    PAST_RUNS =
        "SELECT id, history_start, purged_through FROM durable_workflow_instances \
         INDEXED BY idx_durable_workflow_instances_past \
         WHERE partition_key = ?1 AND history_start > purged_through AND id > ?2 ORDER BY id LIMIT ?3";
    /// How many of a run's first events are of earlier iterations and old, their bytes, and the
    /// last of them. Of a run whose first event is not old, that event alone is read.
    PAST_SIZE =
        "SELECT count(*), ifnull(sum(bytes), 0), ifnull(max(place), 0) FROM (\
         SELECT place, bytes, sum(bytes) OVER (ORDER BY place ROWS UNBOUNDED PRECEDING) - bytes AS before, \
         max(created_at) OVER (ORDER BY place ROWS UNBOUNDED PRECEDING) AS latest FROM (\
         SELECT sequence_num AS place, length(event_data) + ifnull(length(payload), 0) AS bytes, created_at \
         FROM durable_workflow_events \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND sequence_num > ?3 AND sequence_num <= ?4 \
         AND (SELECT f.created_at FROM durable_workflow_events AS f \
              WHERE f.partition_key = ?1 AND f.workflow_id = ?2 AND f.sequence_num > ?3 \
              AND f.sequence_num <= ?4 ORDER BY f.sequence_num LIMIT 1) < ?5 \
         ORDER BY sequence_num LIMIT ?6)) WHERE latest < ?5 AND before < ?7";
    /// Deletes events up to a place.
    DELETE_PAST =
        "DELETE FROM durable_workflow_events WHERE partition_key = ?1 AND workflow_id = ?2 AND sequence_num <= ?3";
    /// Notes how far a run's events are deleted.
    MARK_PAST =
        "UPDATE durable_workflow_instances SET purged_through = ?3 WHERE partition_key = ?1 AND id = ?2";

    /// Totals of old hours that are not kept by the day yet, with the instant under which they are
    /// added up.
    OLD_ROLLUPS =
        "SELECT hour, kind, name, outcome, duration_exp, count, total_ms, wait_ms, \
         iif(hour < ?2, 0, hour - hour % 86400000000) AS day FROM durable_rollups \
         WHERE hour < ?1 AND hour >= 0 AND hour <> iif(hour < ?2, 0, hour - hour % 86400000000) LIMIT ?3";
    /// Deletes a total.
    DELETE_ROLLUP =
        "DELETE FROM durable_rollups WHERE hour = ?1 AND kind = ?2 AND name = ?3 AND outcome = ?4 AND duration_exp = ?5";
}
