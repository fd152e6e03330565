//! Search attributes.

statements! {
    /// Sets one.
    PUT =
        "INSERT INTO durable_search_attributes (partition_key, workflow_id, name, value_type, value) \
         VALUES (?, ?, ?, ?, ?) \
         ON CONFLICT DO UPDATE SET value_type = excluded.value_type, value = excluded.value";
    /// Removes one.
    DELETE =
        "DELETE FROM durable_search_attributes \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND name = ?3";
    /// Names of all of a run.
    NAMES_OF_RUN =
        "SELECT name FROM durable_search_attributes \
         WHERE partition_key = ?1 AND workflow_id = ?2";
    /// All of a run.
    OF_RUN =
        "SELECT name, value_type, value FROM durable_search_attributes \
         WHERE partition_key = ?1 AND workflow_id = ?2";
}
