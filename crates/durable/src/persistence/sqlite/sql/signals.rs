//! The ledger of signals.

statements! {
    /// A signal; one that exists is written anew.
    PUT =
        "INSERT INTO durable_signals (workflow_id, id, signal_type, payload, sequence_num, sent_at, \
         processed_at, partition_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?) \
         ON CONFLICT DO UPDATE SET signal_type = excluded.signal_type, payload = excluded.payload, \
         sequence_num = excluded.sequence_num, sent_at = excluded.sent_at, \
         processed_at = excluded.processed_at";
    /// One signal.
    GET =
        "SELECT workflow_id, id, signal_type, payload, sequence_num, sent_at, processed_at \
         FROM durable_signals WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3";
    /// All signals of a run.
    OF_RUN =
        "SELECT workflow_id, id, signal_type, payload, sequence_num, sent_at, processed_at \
         FROM durable_signals WHERE partition_key = ?1 AND workflow_id = ?2 \
         ORDER BY sequence_num, id";
    /// A turn has taken them; by index `pending`.
    MARK =
        "UPDATE durable_signals SET processed_at = ?4 \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND sequence_num <= ?3 \
         AND processed_at IS NULL";
}
