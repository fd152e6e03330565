//! Audit rows: `durable_audit`.

use crate::persistence::postgres::statement::{Statement, statements};

/// A whole row, in the order in which `rows::audit::record` reads it.
macro_rules! audit_columns {
    () => {
        "id, at, request_id, actor, role, action, idempotency_key, target_kind, target_id, detail"
    };
}
pub(in crate::persistence::postgres) use audit_columns;

statements! {
    /// New rows. One with an id that exists would be a mistake, and is an error.
    INSERT_AUDIT [UUID_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
                  TEXT_ARRAY, TEXT_ARRAY, BYTEA_ARRAY] = concat!("
        INSERT INTO {s}.durable_audit (", audit_columns!(), ")
        SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8),
               unnest($9), unnest($10)");

    /// The oldest rows from before an instant go; answers how many. Primary key, which is in the order of time.
    FORGET_AUDIT [UUID, TIMESTAMPTZ, INT8] = "
        WITH gone AS (
            DELETE FROM {s}.durable_audit
            WHERE id = ANY(ARRAY(
                SELECT id FROM {s}.durable_audit WHERE id < $1 AND at < $2 ORDER BY id LIMIT $3))
            RETURNING 1)
        SELECT count(*) FROM gone";

    /// All rows.
    DUMP_AUDIT [] for Proof = concat!("
        SELECT ", audit_columns!(), "
        FROM {s}.durable_audit
        ORDER BY id");
}
