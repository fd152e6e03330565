//! Trace context, as stored.

use serde::{Deserialize, Serialize};

/// W3C trace context that travels with a run and its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceContext {
    /// 32 hex digits.
    pub trace_id: String,
    /// 16 hex digits.
    pub span_id: String,
    /// W3C flags; 1 = sampled.
    pub trace_flags: u8,
}
