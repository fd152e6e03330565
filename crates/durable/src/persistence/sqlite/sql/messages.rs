//! Messages between runs, in the sender's shard.

statements! {
    /// A new message.
    INSERT =
        "INSERT INTO durable_messages \
         (partition_key, sender, sequence_num, idx, message, payload, memo) \
         VALUES (?, ?, ?, ?, ?, ?, ?)";
    /// The first messages of a shard.
    PICK =
        "SELECT sender, sequence_num, idx, message, payload, memo FROM durable_messages \
         WHERE partition_key = ?1 ORDER BY sender, sequence_num, idx LIMIT ?2";
    /// All messages of a sender.
    OF_RUN =
        "SELECT sender, sequence_num, idx, message, payload, memo FROM durable_messages \
         WHERE partition_key = ?1 AND sender = ?2 ORDER BY sequence_num, idx";
    /// A message was delivered.
    DELETE =
        "DELETE FROM durable_messages \
         WHERE partition_key = ?1 AND sender = ?2 AND sequence_num = ?3 AND idx = ?4";
}
