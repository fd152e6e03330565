//! Totals by hour.

statements! {
    /// Adds to a total.
    ADD =
        "INSERT INTO durable_rollups (hour, kind, name, outcome, duration_exp, count, total_ms, wait_ms) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE \
         SET count = count + excluded.count, total_ms = total_ms + excluded.total_ms, \
         wait_ms = wait_ms + excluded.wait_ms";
    /// Totals since an hour, the earliest first, up to so many. By the primary key, in its order.
    SINCE =
        "SELECT hour, kind, name, outcome, duration_exp, count, total_ms, wait_ms \
         FROM durable_rollups WHERE hour >= ?1 \
         ORDER BY hour, kind, name, outcome, duration_exp LIMIT ?2";
}
