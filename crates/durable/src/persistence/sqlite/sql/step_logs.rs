//! Log lines of attempts.

statements! {
    /// A new line; an id that exists is passed over.
    INSERT =
        "INSERT INTO durable_step_logs (id, workflow_id, activity_id, attempt, level, message, meta, \
         created_at, partition_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
    /// A page of a run's lines.
    LIST =
        "SELECT id, workflow_id, activity_id, attempt, level, message, meta, created_at \
         FROM durable_step_logs WHERE partition_key = ?1 AND workflow_id = ?2 \
         AND (?3 IS NULL OR id > ?3) ORDER BY id LIMIT ?4 OFFSET ?5";
}
