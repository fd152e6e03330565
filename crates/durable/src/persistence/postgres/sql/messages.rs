//! Messages between runs: `durable_messages`, in the sender's shard.

use crate::persistence::postgres::statement::{Statement, statements};

statements! {
    /// Writes messages.
    INSERT_MESSAGES [INT4, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, BYTEA_ARRAY,
                     BYTEA_ARRAY] = "
        INSERT INTO {s}.durable_messages
            (partition_key, sender, sequence_num, idx, kind, data, payload, memo)
        SELECT $1, unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8)";

    /// Messages to deliver, locked, by key and size; those that another relay has are passed over.
    /// Primary key, in its order. The payloads are read when it is known how many of them fit.
    PICK_MESSAGES [INT4, INT8, UUID_ARRAY] = "
        SELECT sender, sequence_num, idx,
               (octet_length(data) + COALESCE(octet_length(payload), 0) + COALESCE(octet_length(memo), 0))::int8
        FROM {s}.durable_messages
        WHERE partition_key = $1 AND sender <> ALL($3)
        ORDER BY partition_key, sender, sequence_num, idx
        LIMIT $2
        FOR UPDATE SKIP LOCKED";

    /// Messages by their keys, locked before. Primary key.
    READ_MESSAGES [INT4, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY] = "
        SELECT t.sender, t.sequence_num, t.idx, t.data, t.payload, t.memo
        FROM (SELECT $1 AS shard, unnest($2) AS sender, unnest($3) AS sequence_num, unnest($4) AS idx OFFSET 0) AS k
        JOIN {s}.durable_messages AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.sender = k.sender
         AND t.sequence_num = k.sequence_num AND t.idx = k.idx
        ORDER BY t.sender, t.sequence_num, t.idx";

    /// Where the messages of some senders stand, each up to one of them, those that another relay
    /// has included. Primary key.
    MESSAGES_UP_TO [INT4, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY] = "
        SELECT t.sender, t.sequence_num, t.idx
        FROM (SELECT $1 AS shard, unnest($2) AS sender, unnest($3) AS sequence_num, unnest($4) AS idx OFFSET 0) AS k
        JOIN {s}.durable_messages AS t ON t.partition_key = ANY(ARRAY[k.shard]) AND t.sender = k.sender
         AND (t.sequence_num, t.idx) <= (k.sequence_num, k.idx)
        ORDER BY t.sender, t.sequence_num, t.idx";

    /// Messages delivered, locked before. Primary key.
    DELETE_MESSAGES [INT4, UUID_ARRAY, INT8_ARRAY, INT4_ARRAY] = "
        DELETE FROM {s}.durable_messages AS t
        USING (SELECT $1 AS shard, unnest($2) AS sender, unnest($3) AS sequence_num, unnest($4) AS idx OFFSET 0) AS k
        WHERE t.partition_key = ANY(ARRAY[k.shard]) AND t.sender = k.sender AND t.sequence_num = k.sequence_num
          AND t.idx = k.idx";
}
