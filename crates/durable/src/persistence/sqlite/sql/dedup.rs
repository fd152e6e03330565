//! Results recorded once.

statements! {
    /// The first result under a key.
    INSERT =
        "INSERT INTO durable_dedup (key, result, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
    /// The recorded one.
    GET = "SELECT result FROM durable_dedup WHERE key = ?1";
    /// All of them.
    LIST for Proof = "SELECT key, result, created_at FROM durable_dedup ORDER BY key";
}
