//! Signals: messages from outside to a running workflow.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::payload::Payload;

/// A message from outside to a running workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowSignal {
    /// The sender's id for it: how a signal that was not used is told when it is carried over. Not in events
    /// written before there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_id: Option<Uuid>,
    /// Its name; [`signal_types`] has the ones with a meaning of their own.
    pub signal_type: String,
    /// Its data.
    #[serde(default, skip_serializing_if = "Payload::is_absent")]
    pub payload: Payload,
    /// When the store took it.
    pub sent_at: Timestamp,
}

/// Signal names with a meaning of their own.
pub mod signal_types {
    /// Asks the workflow to stop; it may clean up first.
    pub const CANCEL: &str = "cancel";
    /// Asks the workflow to finish what is in flight and then stop.
    pub const SHUTDOWN: &str = "shutdown";
    /// An application's own signal.
    pub const CUSTOM: &str = "custom";
}
