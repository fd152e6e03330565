//! The inbox: facts that wait for their turn.

statements! {
    /// A fact arrives.
    INSERT =
        "INSERT INTO durable_inbox (partition_key, workflow_id, arrival, event_type, event_data, \
         payload, attempts, last_attempt, arrived_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    /// All facts that wait for a run.
    OF_RUN =
        "SELECT arrival, event_type, event_data, payload, attempts, last_attempt, arrived_at \
         FROM durable_inbox WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY arrival";
    /// The first facts that wait for a run.
    FIRST_OF_RUN =
        "SELECT arrival, event_type, event_data, payload, attempts, last_attempt, arrived_at \
         FROM durable_inbox WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY arrival LIMIT ?3";
    /// Arrivals of the signals that wait for a run behind one.
    SIGNALS_BEHIND =
        "SELECT arrival, length(event_data) + ifnull(length(payload), 0) FROM durable_inbox \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND arrival > ?3 \
         AND event_type = 'signal.received' ORDER BY arrival";
    /// A turn takes all up to an arrival number.
    CONSUME =
        "DELETE FROM durable_inbox \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND arrival <= ?3";
    /// A reset drops what its dropped tasks and timers had sent.
    DROP_STALE =
        "DELETE FROM durable_inbox WHERE partition_key = ?1 AND workflow_id = ?2 \
         AND (event_type GLOB 'activity.*' OR event_type = 'timer.fired')";
    /// A new iteration drops what the old one had asked for.
    DROP_ITERATION =
        "DELETE FROM durable_inbox WHERE partition_key = ?1 AND workflow_id = ?2 \
         AND event_type NOT IN ('signal.received', 'update.accepted')";
}
