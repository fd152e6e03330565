//! Circuit breakers.

/// All columns, in the order in which a breaker is read and written.
macro_rules! breaker_columns {
    () => {
        "key, state, failure_count, success_count, opened_at, data, version, updated_at"
    };
}

statements! {
    /// The first save; nothing happens if there was one.
    INSERT = concat!(
        "INSERT INTO durable_circuit_breaker_state (", breaker_columns!(),
        ") VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
    );
    /// A later save of what was read as version ?9.
    UPDATE =
        "UPDATE durable_circuit_breaker_state SET state = ?2, failure_count = ?3, \
         success_count = ?4, opened_at = ?5, data = ?6, version = ?7, updated_at = ?8 \
         WHERE key = ?1 AND version = ?9";
    /// One breaker.
    GET = concat!(
        "SELECT ", breaker_columns!(), " FROM durable_circuit_breaker_state WHERE key = ?1"
    );
    /// All of them.
    LIST = concat!(
        "SELECT ", breaker_columns!(), " FROM durable_circuit_breaker_state ORDER BY key"
    );
    /// Forgets limiters that nobody has asked for long. Reads all.
    FORGET_LIMITERS =
        "DELETE FROM durable_circuit_breaker_state \
         WHERE substr(key, 1, 6) = 'limit:' AND updated_at < ?1";
    /// Forgets one.
    DELETE = "DELETE FROM durable_circuit_breaker_state WHERE key = ?1";
}
