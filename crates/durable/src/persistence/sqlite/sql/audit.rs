//! Audit rows.

/// All columns, in the order in which a row is read and written.
macro_rules! audit_columns {
    () => {
        "id, at, request_id, actor, role, action, idempotency_key, target_kind, target_id, detail"
    };
}

statements! {
    /// A row. One with its id would be a mistake, and is an error.
    INSERT = concat!(
        "INSERT INTO durable_audit (", audit_columns!(), ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    );
    /// The oldest rows from before an instant go; by the primary key, which is in the order of time.
    FORGET =
        "DELETE FROM durable_audit WHERE id IN ( \
         SELECT id FROM durable_audit WHERE id < ?1 AND at < ?2 ORDER BY id LIMIT ?3)";
    /// All rows.
    DUMP for Proof = concat!("SELECT ", audit_columns!(), " FROM durable_audit ORDER BY id");
    /// Rows; conditions follow.
    LIST for List = concat!("SELECT ", audit_columns!(), " FROM durable_audit WHERE TRUE");
}

pub(crate) const BY_ACTOR: &str = " AND actor = ?";
pub(crate) const BY_ACTION: &str = " AND action = ?";
pub(crate) const OF_KIND: &str = " AND target_kind = ?";
pub(crate) const OF_TARGET: &str = " AND target_id = ?";
pub(crate) const OF_REQUEST: &str = " AND request_id = ?";
pub(crate) const FROM: &str = " AND at >= ?";
pub(crate) const UNTIL: &str = " AND at < ?";
pub(crate) const ID_FROM: &str = " AND id >= ?";
pub(crate) const ID_UNTIL: &str = " AND id < ?";
pub(crate) const PAGE: &str = " ORDER BY id DESC LIMIT ? OFFSET ?";
