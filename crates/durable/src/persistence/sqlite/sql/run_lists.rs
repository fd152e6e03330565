//! Runs for operators: a walk along one index, which every text below names, so that the plan does
//! not depend on statistics; conditions are added when asked for, each with its bind.

statements! {
    /// How many; conditions follow.
    COUNT for List = "SELECT count(*) FROM durable_workflow_instances WHERE TRUE";
    /// Ids of all runs.
    IDS for Proof = "SELECT id FROM durable_workflow_instances ORDER BY id";
    /// What a list shows of a run. No payload is read.
    SUMMARY =
        "SELECT id, workflow_type, version, business_id, status, parent_id, blocked_build, \
         blocked_reason, sequence, iteration, epoch, created_at, updated_at, started_at, completed_at \
         FROM durable_workflow_instances WHERE id = ?1";
}

/// Ids of a list; what else must hold follows (a condition on a column without a value is not
/// true), then one of the indexes.
pub(crate) const KEYS: &str = "SELECT id, (TRUE";
pub(crate) const BY_ID: &str = ") IS TRUE FROM durable_workflow_instances INDEXED BY idx_durable_workflow_instances_id WHERE TRUE";
pub(crate) const BY_BUSINESS_ID: &str = ") IS TRUE FROM durable_workflow_instances \
     INDEXED BY idx_durable_workflow_instances_business WHERE business_id = ?";
pub(crate) const BY_PARENT: &str = ") IS TRUE FROM durable_workflow_instances \
     INDEXED BY idx_durable_workflow_instances_parent WHERE parent_id = ?";
pub(crate) const BY_BLOCKED: &str = ") IS TRUE FROM durable_workflow_instances \
     INDEXED BY idx_durable_workflow_instances_blocked WHERE blocked_build IS NOT NULL";
pub(crate) const BY_TYPE: &str = ") IS TRUE FROM durable_workflow_instances \
     INDEXED BY idx_durable_workflow_instances_type_status WHERE workflow_type = ?";
pub(crate) const BY_STATUS: &str = ") IS TRUE FROM durable_workflow_instances \
     INDEXED BY idx_durable_workflow_instances_status WHERE TRUE";
pub(crate) const BY_START: &str = ") IS TRUE FROM durable_workflow_instances \
     INDEXED BY idx_durable_workflow_instances_created WHERE TRUE";
pub(crate) const ID_ORDER: &str = " ORDER BY id DESC LIMIT ?";
pub(crate) const START_ORDER: &str = " ORDER BY created_at DESC, id DESC LIMIT ?";

/// Ids of runs with an attribute.
pub(crate) const ATTRIBUTE_KEYS: &str = "SELECT a.workflow_id, (TRUE";
/// The same; what else must hold of the run follows.
pub(crate) const ATTRIBUTE_KEYS_WHERE: &str = "SELECT a.workflow_id, EXISTS (SELECT 1 FROM durable_workflow_instances WHERE id = a.workflow_id";
/// Name, type and value of the attribute.
pub(crate) const OF_ATTRIBUTES: &str = ") IS TRUE FROM durable_search_attributes AS a \
     INDEXED BY idx_durable_search_attributes_value \
     WHERE a.name = ? AND a.value_type = ? AND a.value = ?";
pub(crate) const BEFORE_ATTRIBUTE: &str = " AND a.workflow_id < ?";
pub(crate) const ATTRIBUTE_ORDER: &str = " ORDER BY a.workflow_id DESC LIMIT ?";

/// A JSON array of names, so that any number of them is one bind.
pub(crate) const STATUS_IN: &str = " AND status IN (SELECT value FROM json_each(?))";
pub(crate) const IN_STATUS: &str = " AND status = ?";
pub(crate) const OF_TYPE: &str = " AND workflow_type = ?";
pub(crate) const OF_BUSINESS_ID: &str = " AND business_id = ?";
pub(crate) const OF_PARENT: &str = " AND parent_id = ?";
pub(crate) const CREATED_FROM: &str = " AND created_at >= ?";
pub(crate) const CREATED_UNTIL: &str = " AND created_at < ?";
pub(crate) const BLOCKED: &str = " AND blocked_build IS NOT NULL";
pub(crate) const BEFORE: &str = " AND id < ?";
/// Name, type and value of an attribute.
pub(crate) const WITH_ATTRIBUTE: &str = " AND EXISTS (SELECT 1 FROM durable_search_attributes AS b \
     WHERE b.workflow_id = durable_workflow_instances.id \
     AND b.partition_key = durable_workflow_instances.partition_key \
     AND b.name = ? AND b.value_type = ? AND b.value = ?)";
