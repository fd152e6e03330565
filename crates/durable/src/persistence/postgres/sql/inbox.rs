//! Facts that wait: `durable_inbox`.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// The first facts that wait for runs, as many as a turn of each takes, in order: at most $3 a
    /// run, while those before them in the run are below $4 bytes and those before them in the set
    /// below $5. Each run with facts answers at least one row, which holds no fact where the set
    /// was full before. `octet_length` does not read what is stored out of line. Primary key by its
    /// first two columns.
    READ_FACTS [INT4, UUID_ARRAY, INT8, INT8, INT8] = "
        SELECT g.workflow_id, g.last_waiting, g.before_in_set < $5 AS taken, g.arrival, g.event_type,
               CASE WHEN g.before_in_set < $5 THEN g.event_data END,
               CASE WHEN g.before_in_set < $5 THEN g.payload END,
               CASE WHEN g.before_in_set < $5 THEN g.attempts END,
               g.last_attempt, g.arrived_at
        FROM (
            SELECT f.*, w.last_waiting,
                   sum(f.bytes) OVER (ORDER BY f.workflow_id, f.arrival ROWS UNBOUNDED PRECEDING) - f.bytes AS before_in_set
            FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
            CROSS JOIN LATERAL (
                SELECT l.arrival AS last_waiting
                FROM {s}.durable_inbox AS l
                WHERE l.partition_key = ANY(ARRAY[k.shard]) AND l.workflow_id = k.run_id
                ORDER BY l.arrival DESC
                LIMIT 1
            ) AS w
            CROSS JOIN LATERAL (
                SELECT r.*, sum(r.bytes) OVER (ORDER BY r.arrival ROWS UNBOUNDED PRECEDING) - r.bytes AS before_in_run,
                       row_number() OVER (ORDER BY r.arrival) AS place
                FROM (
                    SELECT t.workflow_id, t.arrival, t.event_type, t.event_data, t.payload, t.attempts, t.last_attempt, t.arrived_at,
                           octet_length(t.event_data) + COALESCE(octet_length(t.payload), 0)
                               + COALESCE(octet_length(t.attempts), 0) AS bytes
                    FROM {s}.durable_inbox AS t
                    WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id
                    ORDER BY t.arrival
                    LIMIT $3
                ) AS r
            ) AS f
            WHERE f.before_in_run < $4
        ) AS g
        WHERE g.before_in_set < $5 OR g.place = 1
        ORDER BY g.workflow_id, g.arrival";

    /// The signals that wait for runs behind an arrival, in slices of about $4 bytes: of each its
    /// first and last arrival, how many and how many bytes. The run's lock keeps them as they are.
    /// Primary key.
    UNREAD_SLICES [INT4, UUID_ARRAY, INT8_ARRAY, INT8] = "
        SELECT s.workflow_id, min(s.arrival), max(s.arrival), count(*), sum(s.bytes)::BIGINT
        FROM (
            SELECT r.workflow_id, r.arrival, r.bytes,
                   (sum(r.bytes) OVER (PARTITION BY r.workflow_id ORDER BY r.arrival ROWS UNBOUNDED PRECEDING) - r.bytes)::BIGINT / $4 AS slice
            FROM (
                SELECT t.workflow_id, t.arrival, octet_length(t.event_data) + COALESCE(octet_length(t.payload), 0) AS bytes
                FROM (SELECT $1 AS shard, unnest($2) AS run_id, unnest($3) AS behind OFFSET 0) AS k
                JOIN {s}.durable_inbox AS t
                  ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id AND t.arrival > k.behind
                WHERE t.event_type = 'signal.received'
            ) AS r
        ) AS s
        GROUP BY s.workflow_id, s.slice
        ORDER BY s.workflow_id, min(s.arrival)";

    /// Facts that a turn took: by number of arrival, never \"all there are\". Primary key.
    CONSUME_FACTS [INT4, UUID_ARRAY, INT8_ARRAY] = "
        DELETE FROM {s}.durable_inbox AS t
        USING (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS through OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.arrival <= k.through";

    /// Facts of an epoch that is over: ends of activities and timers that no longer count. Primary key by its first two columns.
    DROP_STALE_FACTS [INT4, UUID_ARRAY] = "
        DELETE FROM {s}.durable_inbox AS t
        USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id
          AND (event_type LIKE 'activity.%' OR event_type = 'timer.fired')";

    /// Facts of an iteration that is over: what it asked for. Signals and updates are the next
    /// iteration's. Primary key by its first two columns.
    DROP_ITERATION_FACTS [INT4, UUID_ARRAY] = "
        DELETE FROM {s}.durable_inbox AS t
        USING (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id
          AND event_type NOT IN ('signal.received', 'update.accepted')";

    /// Delivers facts.
    INSERT_FACTS [INT4, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY,
                  BYTEA_ARRAY, TIMESTAMPTZ_ARRAY] = "
        INSERT INTO {s}.durable_inbox
            (partition_key, workflow_id, arrival, event_type, event_data, payload, attempts,
             last_attempt, arrived_at)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9)";
}
