//! Search attributes: `durable_search_attributes`.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Sets attributes, whatever type they had before.
    PUT_ATTRIBUTES [INT4, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, FLOAT8_ARRAY,
                    BOOL_ARRAY, TIMESTAMPTZ_ARRAY] = "
        INSERT INTO {s}.durable_search_attributes
            (partition_key, workflow_id, name, kind, value_text, value_int, value_double, value_bool,
             value_time)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9)
        ON CONFLICT (partition_key, workflow_id, name) DO UPDATE
        SET kind = excluded.kind, value_text = excluded.value_text, value_int = excluded.value_int,
            value_double = excluded.value_double, value_bool = excluded.value_bool,
            value_time = excluded.value_time";

    /// Removes attributes. Primary key.
    DELETE_ATTRIBUTES [INT4, UUID_ARRAY, TEXT_ARRAY] = "
        DELETE FROM {s}.durable_search_attributes AS t
        USING (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS name OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.name = k.name";

    /// Names of the attributes of runs. Primary key by its first two columns.
    READ_ATTRIBUTE_NAMES [INT4, UUID_ARRAY] = "
        SELECT t.workflow_id, t.name
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_search_attributes AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.run_id";

    /// A run's attributes. Primary key by its first two columns.
    READ_ATTRIBUTES [INT4, UUID] = "
        SELECT workflow_id, name, kind, value_text, value_int, value_double, value_bool, value_time
        FROM {s}.durable_search_attributes
        WHERE partition_key = $1 AND workflow_id = $2";
}
