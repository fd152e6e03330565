//! History: `durable_workflow_events`.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Appends events of accepted turns. A place that is taken is a unique violation, which the sequence check under the run's
    /// lock rules out.
    INSERT_EVENTS [INT4, TIMESTAMPTZ, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY] = "
        INSERT INTO {s}.durable_workflow_events
            (partition_key, created_at, workflow_id, sequence_num, event_type, event_data, payload)
        SELECT $1, $2, unnest($3), unnest($4), unnest($5), unnest($6), unnest($7)";

    /// A run's events after a place. Primary key, in its order.
    READ_EVENTS [INT4, UUID, INT8] = "
        SELECT sequence_num, event_type, event_data, payload, created_at
        FROM {s}.durable_workflow_events
        WHERE partition_key = $1 AND workflow_id = $2 AND sequence_num > $3
        ORDER BY sequence_num";

    /// The first of them.
    READ_EVENT_PAGE [INT4, UUID, INT8, INT8] = "
        SELECT sequence_num, event_type, event_data, payload, created_at
        FROM {s}.durable_workflow_events
        WHERE partition_key = $1 AND workflow_id = $2 AND sequence_num > $3
        ORDER BY sequence_num LIMIT $4";
}
