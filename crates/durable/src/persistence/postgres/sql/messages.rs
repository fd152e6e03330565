//! Messages between runs: `durable_messages`, in the sender's shard.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Writes messages.
    INSERT_MESSAGES [INT4, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY,
                     BYTEA_ARRAY] = "
        INSERT INTO {s}.durable_messages
            (partition_key, sender, sequence_num, idx, kind, data, payload, memo)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8)";

    /// Messages to deliver, locked; those that another relay has are passed over. Primary key, in its order.
    PICK_MESSAGES [INT4, INT8] = "
        SELECT sender, sequence_num, idx, data, payload, memo
        FROM {s}.durable_messages
        WHERE partition_key = $1
        ORDER BY partition_key, sender, sequence_num, idx
        LIMIT $2
        FOR UPDATE SKIP LOCKED";

    /// Where the messages of some senders stand, those that another relay has included. Primary key.
    MESSAGES_OF [INT4, UUID_ARRAY] = "
        SELECT t.sender, t.sequence_num, t.idx
        FROM (SELECT $1 AS shard, unnest($2) AS run_id OFFSET 0) AS k
        JOIN {s}.durable_messages AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.sender = k.run_id
        ORDER BY t.sender, t.sequence_num, t.idx";

    /// Messages delivered, locked before. Primary key.
    DELETE_MESSAGES [INT4, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY] = "
        DELETE FROM {s}.durable_messages AS t
        USING (SELECT $1 AS shard, unnest($2) AS sender, unnest($3) AS sequence_num, unnest($4) AS idx OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.sender = k.sender AND t.sequence_num = k.sequence_num
          AND t.idx = k.idx";
}
