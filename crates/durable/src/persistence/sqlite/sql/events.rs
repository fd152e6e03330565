//! Histories: appended, never changed.

statements! {
    /// One event in its place; a place that is taken is an error.
    INSERT =
        "INSERT INTO durable_workflow_events \
         (partition_key, workflow_id, sequence_num, event_type, event_data, payload, created_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?)";
    /// A signal that waits becomes an unread event: its object gets one more member before the last
    /// brace.
    KEEP_UNREAD =
        "INSERT INTO durable_workflow_events \
         (partition_key, workflow_id, sequence_num, event_type, event_data, payload, created_at) \
         SELECT partition_key, workflow_id, ?4, event_type, \
         substr(event_data, 1, length(event_data) - 1) || ',\"unread\":true}', payload, ?5 \
         FROM durable_inbox WHERE partition_key = ?1 AND workflow_id = ?2 AND arrival = ?3";
    /// Events after a place.
    AFTER =
        "SELECT sequence_num, event_type, event_data, payload, created_at \
         FROM durable_workflow_events \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND sequence_num > ?3 ORDER BY sequence_num \
         LIMIT ?4";
}
