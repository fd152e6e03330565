//! The outbox.

/// All columns of an outbox event, in the order in which it is read and written.
macro_rules! outbox_columns {
    () => {
        "id, workflow_id, event_type, payload, idempotency_key, state, attempts, available_at, \
         token, last_error, created_at, published_at"
    };
}

statements! {
    /// A new event; an id that exists is passed over.
    INSERT = concat!(
        "INSERT INTO durable_outbox (", outbox_columns!(), ", partition_key) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
    );
    /// What may change.
    UPDATE =
        "UPDATE durable_outbox SET state = ?4, attempts = ?5, available_at = ?6, token = ?7, \
         last_error = ?8, published_at = ?9 \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3";
    /// One event.
    GET = concat!(
        "SELECT ", outbox_columns!(), " FROM durable_outbox \
         WHERE partition_key = ?1 AND workflow_id = ?2 AND id = ?3"
    );
    /// All events of a run.
    OF_RUN = concat!(
        "SELECT ", outbox_columns!(), " FROM durable_outbox \
         WHERE partition_key = ?1 AND workflow_id = ?2 ORDER BY id"
    );
    /// Events that may be published now, with the sizes of their payloads; by index `due`.
    DUE =
        "SELECT workflow_id, id, length(payload) FROM durable_outbox \
         WHERE partition_key = ?1 AND state IN ('pending', 'in_flight') AND available_at <= ?2 \
         ORDER BY available_at, id, workflow_id LIMIT ?3";
    /// Claims of a process that is gone; by index `due`.
    VOID for Opening =
        "UPDATE durable_outbox SET state = 'pending', token = NULL, available_at = ?2 \
         WHERE partition_key = ?1 AND state IN ('pending', 'in_flight') AND state = 'in_flight'";
}
