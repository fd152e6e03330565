//! Trace context: as stored, and as the W3C `traceparent` header.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// W3C trace context that travels with a run and its tasks.
///
/// ```
/// use durable_core::TraceContext;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context: TraceContext = header.parse()?;
/// assert!(context.is_sampled());
/// assert_eq!(context.to_string(), header);
/// # Ok::<(), durable_core::trace::TraceContextError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceContext {
    /// 32 hex digits.
    pub trace_id: String,
    /// 16 hex digits.
    pub span_id: String,
    /// W3C flags; 1 = sampled.
    pub trace_flags: u8,
}

/// The flag of a trace that is recorded.
pub const SAMPLED: u8 = 1;

/// Why something is no trace context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceContextError {
    /// Not 32 lower-case hex digits, or all of them zero.
    #[error("trace id {0:?} is not 32 lower-case hex digits with one that is not 0")]
    TraceId(String),
    /// Not 16 lower-case hex digits, or all of them zero.
    #[error("span id {0:?} is not 16 lower-case hex digits with one that is not 0")]
    SpanId(String),
    /// The header is not laid out as `VERSION-TRACE-SPAN-FLAGS`.
    #[error("traceparent {0:?} is not laid out as 00-TRACE-SPAN-FLAGS")]
    Header(String),
}

impl TraceContext {
    /// A checked context.
    ///
    /// # Errors
    /// [`TraceContextError`] when an id is not one.
    pub fn new(
        trace_id: impl Into<String>,
        span_id: impl Into<String>,
        trace_flags: u8,
    ) -> Result<Self, TraceContextError> {
        let context = Self {
            trace_id: trace_id.into(),
            span_id: span_id.into(),
            trace_flags,
        };
        context.validate()?;
        Ok(context)
    }

    /// Checks a context that came from outside.
    ///
    /// # Errors
    /// [`TraceContextError`] when an id is not one.
    pub fn validate(&self) -> Result<(), TraceContextError> {
        if !is_id(&self.trace_id, 32) {
            return Err(TraceContextError::TraceId(self.trace_id.clone()));
        }
        if !is_id(&self.span_id, 16) {
            return Err(TraceContextError::SpanId(self.span_id.clone()));
        }
        Ok(())
    }

    /// Whether the trace is recorded.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.trace_flags & SAMPLED != 0
    }
}

fn is_id(text: &str, digits: usize) -> bool {
    is_lower_hex(text, digits) && text.bytes().any(|digit| digit != b'0')
}

fn is_lower_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The `traceparent` header.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace_id,
            span_id,
            trace_flags,
        } = self;
        write!(f, "00-{trace_id}-{span_id}-{trace_flags:02x}")
    }
}

/// Reads a `traceparent` header. A later version than ours may carry more fields, which are passed over.
impl FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(header: &str) -> Result<Self, Self::Err> {
        let malformed = || TraceContextError::Header(header.to_owned());
        let mut fields = header.split('-');
        let mut field = || fields.next().ok_or_else(malformed);
        let (version, trace_id, span_id, flags) = (field()?, field()?, field()?, field()?);
        let more = fields.next().is_some();
        if !is_lower_hex(version, 2) || version == "ff" || (version == "00" && more) {
            return Err(malformed());
        }
        if !is_lower_hex(flags, 2) {
            return Err(malformed());
        }
        let flags = u8::from_str_radix(flags, 16).map_err(|_| malformed())?;
        Self::new(trace_id, span_id, flags)
    }
}

/// The context under which a run's spans stand when its starter brought none.
///
/// The trace id is the run's id, so that one finds the other; the span id is its lower half.
#[must_use]
pub fn run_trace_context(run_id: Uuid) -> TraceContext {
    // All zeros is no id; only the nil UUID and hand-made ones come to that.
    let trace = run_id.as_u128().max(1);
    let span = (run_id.as_u64_pair().1).max(1);
    TraceContext {
        trace_id: format!("{trace:032x}"),
        span_id: format!("{span:016x}"),
        trace_flags: SAMPLED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn header_of_a_later_version_is_read_for_what_we_know() {
        let read: TraceContext = format!("cc-{TRACE}-{SPAN}-01-what-comes").parse().unwrap();
        assert_eq!(read, TraceContext::new(TRACE, SPAN, 1).unwrap());
    }

    #[test]
    fn headers_that_are_none_are_refused() {
        for header in [
            String::new(),
            "00".into(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{SPAN}é-01"),
            format!(" 00-{TRACE}-{SPAN}-01"),
        ] {
            assert!(header.parse::<TraceContext>().is_err(), "{header:?}");
        }
    }

    #[test]
    fn run_context_is_valid_for_every_id_and_names_the_run() {
        for run_id in [Uuid::nil(), Uuid::max(), Uuid::from_u128(1 << 64)] {
            run_trace_context(run_id).validate().unwrap();
        }
        let run_id = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
        let context = run_trace_context(run_id);
        assert_eq!(context.trace_id, run_id.simple().to_string());
    }
}
