//! Updates and their answers: `durable_updates`. `sequence_num` is the number of arrival.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Updates by run and id; the run's lock keeps them as they are. Primary key.
    READ_UPDATES [INT4, UUID_ARRAY, TEXT_ARRAY] = "
        SELECT t.workflow_id, t.update_id, t.name, t.input, t.sequence_num, t.state, t.result, t.error,
               t.created_at, t.completed_at
        FROM (SELECT $1 AS shard, unnest($2) AS workflow_id, unnest($3) AS update_id OFFSET 0) AS k
        JOIN {s}.durable_updates AS t
          ON t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.update_id = k.update_id";

    /// New updates.
    INSERT_UPDATES [INT4, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, INT8_ARRAY, TEXT_ARRAY,
                    BYTEA_ARRAY, BYTEA_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY] = "
        INSERT INTO {s}.durable_updates
            (partition_key, workflow_id, update_id, name, input, sequence_num, state, result, error,
             created_at, completed_at)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9),
               unnest($10), unnest($11)";

    /// Answers; only one that is still pending takes it. Primary key.
    ANSWER_UPDATES [INT4, TIMESTAMPTZ, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY] = "
        UPDATE {s}.durable_updates AS t
        SET state = k.state, result = k.result, error = k.error, completed_at = $2
        FROM (SELECT $1 AS shard,
                     unnest($3) AS workflow_id, unnest($4) AS update_id, unnest($5) AS state, unnest($6) AS result,
                     unnest($7) AS error
              OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.update_id = k.update_id
          AND t.state = 'pending'";

    /// Updates that the end of their run left open. Primary key by its first two columns.
    FAIL_OPEN_UPDATES [INT4, TIMESTAMPTZ, UUID_ARRAY, BYTEA_ARRAY] = "
        UPDATE {s}.durable_updates AS t
        SET state = 'failed', error = k.error, completed_at = $2
        FROM (SELECT $1 AS shard, unnest($3) AS workflow_id, unnest($4) AS error OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.workflow_id = k.workflow_id AND t.state = 'pending'";
}
