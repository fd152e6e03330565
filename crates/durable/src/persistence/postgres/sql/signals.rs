//! The ledger of signals: `durable_signals`. `sequence_num` is the number of arrival.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Signals by run and id; the run's lock keeps them as they are. Primary key.
    READ_SIGNALS [INT4, UUID_ARRAY, UUID_ARRAY] = "
        SELECT t.workflow_id, t.id, t.signal_type, t.payload, t.sequence_num, t.sent_at, t.processed_at
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS id OFFSET 0) AS k
        JOIN {s}.durable_signals AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id";

    /// Marks the signals among the facts that a turn took. Found by index `pending`, which holds only unmarked ones, run by run;
    /// changed by the primary key.
    MARK_SIGNALS [INT4, TIMESTAMPTZ, UUID_ARRAY, INT8_ARRAY] = "
        UPDATE {s}.durable_signals AS t
        SET processed_at = $2
        FROM (
            SELECT $1 AS shard, taken.workflow_id, unmarked.id
            FROM unnest($3, $4) AS taken(workflow_id, through)
            CROSS JOIN LATERAL (
                SELECT p.id
                FROM {s}.durable_signals AS p
                WHERE p.partition_key = $1 AND p.workflow_id = taken.workflow_id
                  AND p.sequence_num <= taken.through AND p.processed_at IS NULL
                OFFSET 0
            ) AS unmarked
            OFFSET 0
        ) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.id = k.id";

    /// Notes signals; one that is there (continue-as-new carries it over) gets the new arrival and is unmarked.
    PUT_SIGNALS [INT4, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY, TIMESTAMPTZ_ARRAY,
                 TIMESTAMPTZ_ARRAY] = "
        INSERT INTO {s}.durable_signals AS t
            (partition_key, workflow_id, id, signal_type, payload, sequence_num, sent_at, processed_at)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8)
        ON CONFLICT (partition_key, workflow_id, id) DO UPDATE
        SET sequence_num = excluded.sequence_num, processed_at = excluded.processed_at";
}
