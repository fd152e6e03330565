//! History: `durable_workflow_events`.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Appends events of accepted turns. A place that is taken is a unique violation, which the sequence check under the run's
    /// lock rules out.
    INSERT_EVENTS [INT4, TIMESTAMPTZ, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY] = "
        INSERT INTO {s}.durable_workflow_events
            (partition_key, created_at, workflow_id, sequence_num, event_type, event_data, payload)
        SELECT $1, $2, unnest($3), unnest($4), unnest($5), unnest($6), unnest($7)";

    /// Signals that wait while their run ends become unread events, in order of arrival, without
    /// leaving the database: the stored object gets one more member before its last brace. Both
    /// primary keys.
    KEEP_UNREAD [INT4, TIMESTAMPTZ, UUID_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY] = "
        INSERT INTO {s}.durable_workflow_events
            (partition_key, created_at, workflow_id, sequence_num, event_type, event_data, payload)
        SELECT $1, $2, t.workflow_id, k.sequence + row_number() OVER (PARTITION BY k.run_id, k.sequence ORDER BY t.arrival),
               t.event_type,
               substring(t.event_data FROM 1 FOR octet_length(t.event_data) - 1) || convert_to(',\"unread\":true}', 'UTF8'),
               t.payload
        FROM (SELECT $1 AS shard, unnest($3) AS run_id, unnest($4) AS first, unnest($5) AS last, unnest($6) AS sequence OFFSET 0) AS k
        JOIN {s}.durable_inbox AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id
         AND t.arrival >= k.first AND t.arrival <= k.last
        WHERE t.event_type = 'signal.received'";

    /// The first of a run's events after a place: at most $4, each while those before it are below
    /// $5 bytes. Primary key, in its order;
    /// what is stored out of line is read for the events of the answer only.
    READ_EVENTS [INT4, UUID, INT8, INT8, INT8] = "
        SELECT e.sequence_num, e.event_type, e.event_data, e.payload, e.created_at
        FROM (
            SELECT r.*, sum(r.bytes) OVER (ORDER BY r.sequence_num ROWS UNBOUNDED PRECEDING) - r.bytes AS before
            FROM (
                SELECT sequence_num, event_type, event_data, payload, created_at,
                       octet_length(event_data) + COALESCE(octet_length(payload), 0) AS bytes
                FROM {s}.durable_workflow_events
                WHERE partition_key = $1 AND workflow_id = $2 AND sequence_num > $3
                ORDER BY sequence_num
                LIMIT $4
            ) AS r
        ) AS e
        WHERE e.before < $5
        ORDER BY e.sequence_num";

    /// The first of them, up to so many rows and bytes; the first row is always there. Sizes are
    /// read without taking the data out of TOAST, and only the rows of the page are read whole.
    /// Primary key.
    READ_EVENT_PAGE [INT4, UUID, INT8, INT8, INT8] = "
        SELECT t.sequence_num, t.event_type, t.event_data, t.payload, t.created_at
        FROM (SELECT s.sequence_num
              FROM (SELECT sequence_num,
                           row_number() OVER (ORDER BY sequence_num) AS place,
                           sum(COALESCE(octet_length(event_data), 0) + COALESCE(octet_length(payload), 0))
                               OVER (ORDER BY sequence_num ROWS UNBOUNDED PRECEDING) AS bytes
                    FROM (SELECT sequence_num, event_data, payload
                          FROM {s}.durable_workflow_events
                          WHERE partition_key = $1 AND workflow_id = $2 AND sequence_num > $3
                          ORDER BY sequence_num LIMIT $4) AS e) AS s
              WHERE s.place = 1 OR s.bytes <= $5) AS k
        CROSS JOIN LATERAL (SELECT * FROM {s}.durable_workflow_events AS e
              WHERE e.partition_key = $1 AND e.workflow_id = $2 AND e.sequence_num = k.sequence_num
              LIMIT 1) AS t
        ORDER BY t.sequence_num";
}
