//! Payloads: JSON text, or none.

use bytes::Bytes;
use durable_core::Payload;

use super::Malformed;

/// A payload that came in; none reads as null.
///
/// # Errors
/// What is not JSON.
pub fn payload(place: &str, bytes: Bytes) -> Result<Payload, Malformed> {
    if bytes.is_empty() {
        return Ok(Payload::null());
    }
    Payload::from_json_text(bytes).map_err(|error| Malformed::new(place, error.to_string()))
}

/// A payload to send.
#[must_use]
pub fn payload_bytes(payload: Payload) -> Bytes {
    payload.into_bytes()
}
