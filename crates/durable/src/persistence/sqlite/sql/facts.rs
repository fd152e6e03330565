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
    /// A turn takes all up to an arrival number.
    CONSUME =
        "DELETE FROM durable_inbox \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND arrival <= ?3";
    /// A reset drops what its dropped tasks and timers had sent.
    DROP_STALE =
        "DELETE FROM durable_inbox WHERE partition_key = ?1 AND workflow_id = ?2 \
         AND (event_type GLOB 'activity.*' OR event_type = 'timer.fired')";
}
