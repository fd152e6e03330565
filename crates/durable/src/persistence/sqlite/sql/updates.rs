//! Updates and their answers.

statements! {
    /// A new update.
    INSERT =
        "INSERT INTO durable_updates (workflow_id, update_id, name, input, arrival, state, result, \
         error, created_at, completed_at, partition_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    /// One update.
    GET =
        "SELECT workflow_id, update_id, name, input, arrival, created_at, completed_at, state, \
         result, error FROM durable_updates \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND update_id = ?3";
    /// All updates of a run.
    OF_RUN =
        "SELECT workflow_id, update_id, name, input, arrival, created_at, completed_at, state, \
         result, error FROM durable_updates \
         WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY arrival, update_id";
    /// An answer; only a pending update takes it.
    ANSWER =
        "UPDATE durable_updates SET state = ?4, result = ?5, error = ?6, completed_at = ?7 \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND update_id = ?3 AND state = 'pending'";
    /// The run ended first.
    FAIL_OPEN =
        "UPDATE durable_updates SET state = 'failed', error = ?3, completed_at = ?4 \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND state = 'pending'";
}
