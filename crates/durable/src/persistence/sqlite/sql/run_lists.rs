//! Runs for operators: conditions that are added when asked for, each with its bind.

use super::runs::run_columns;

statements! {
    /// Runs of all shards; conditions follow.
    LIST = concat!("SELECT ", run_columns!(), " FROM durable_workflow_instances WHERE TRUE");
    /// How many; conditions follow.
    COUNT = "SELECT count(*) FROM durable_workflow_instances WHERE TRUE";
    /// Ids of all runs.
    IDS = "SELECT id FROM durable_workflow_instances ORDER BY id";
}

/// A JSON array of names, so that any number of them is one bind.
pub(crate) const STATUS_IN: &str = " AND status IN (SELECT value FROM json_each(?))";
pub(crate) const OF_TYPE: &str = " AND workflow_type = ?";
pub(crate) const OF_BUSINESS_ID: &str = " AND business_id = ?";
pub(crate) const OF_PARENT: &str = " AND parent_id = ?";
pub(crate) const CREATED_FROM: &str = " AND created_at >= ?";
pub(crate) const CREATED_UNTIL: &str = " AND created_at < ?";
pub(crate) const BLOCKED: &str = " AND blocked_build IS NOT NULL";
pub(crate) const BEFORE: &str = " AND id < ?";
/// Name, type and value of an attribute.
pub(crate) const WITH_ATTRIBUTE: &str = " AND id IN (SELECT workflow_id FROM durable_search_attributes \
     WHERE name = ? AND value_type = ? AND value = ?)";
pub(crate) const PAGE: &str = " ORDER BY id DESC LIMIT ? OFFSET ?";
