//! Messages between runs, in the sender's shard.

statements! {
    /// A new message.
    INSERT =
        "INSERT INTO durable_messages \
         (partition_key, sender, sequence_num, idx, message, payload, memo) \
         VALUES (?, ?, ?, ?, ?, ?, ?)";
    /// The sizes of the first messages of a shard, but for those of some senders.
    SIZES =
        "SELECT length(message) + coalesce(length(payload), 0) + coalesce(length(memo), 0) \
         FROM durable_messages \
         WHERE partition_key = ?1 AND hex(sender) NOT IN (SELECT value FROM json_each(?3)) \
         ORDER BY sender, sequence_num, idx LIMIT ?2";
    /// The first messages of a shard, but for those of some senders.
    PICK =
        "SELECT sender, sequence_num, idx, message, payload, memo FROM durable_messages \
         WHERE partition_key = ?1 AND hex(sender) NOT IN (SELECT value FROM json_each(?3)) \
         ORDER BY sender, sequence_num, idx LIMIT ?2";
    /// All messages of a sender.
    OF_RUN =
        "SELECT sender, sequence_num, idx, message, payload, memo FROM durable_messages \
         WHERE partition_key = ?1 AND sender = ?2 ORDER BY sequence_num, idx";
    /// A message was delivered.
    DELETE =
        "DELETE FROM durable_messages \
         WHERE partition_key = ?1 AND sender = ?2 AND sequence_num = ?3 AND idx = ?4";
}
