//! Timers.

statements! {
    /// Sets one.
    INSERT =
        "INSERT INTO durable_timers (workflow_id, timer_id, fire_at, epoch, partition_key) \
         VALUES (?, ?, ?, ?, ?)";
    /// One timer.
    GET =
        "SELECT workflow_id, timer_id, fire_at, epoch FROM durable_timers \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND timer_id = ?3";
    /// All timers of a run.
    OF_RUN =
        "SELECT workflow_id, timer_id, fire_at, epoch FROM durable_timers \
         WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY timer_id";
    /// A timer leaves.
    DELETE =
        "DELETE FROM durable_timers \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND timer_id = ?3";
    /// All timers of a run leave.
    DELETE_OF_RUN = "DELETE FROM durable_timers WHERE partition_key = ?1 AND workflow_id = ?2";
    /// Timers that are due; by index `due`.
    DUE =
        "SELECT workflow_id, timer_id FROM durable_timers \
         WHERE partition_key = ?1 AND fire_at <= ?2 \
         AND hex(workflow_id) NOT IN (SELECT value FROM json_each(?4)) \
         ORDER BY fire_at, workflow_id, timer_id LIMIT ?3";
    /// The first timer of a shard; by index `due`.
    NEXT_DUE =
        "SELECT fire_at FROM durable_timers \
         WHERE partition_key = ?1 AND hex(workflow_id) NOT IN (SELECT value FROM json_each(?2)) \
         ORDER BY fire_at LIMIT 1";
}
