//! Search attributes.

use std::collections::BTreeMap;

use durable_core::{AttributeValue, Timestamp};

use super::Malformed;
use crate::v1;
use v1::attribute_value::Value;

/// A value that came in; absent: the attribute is removed.
///
/// # Errors
/// An instant that no calendar has.
pub fn attribute(
    place: &str,
    message: v1::AttributeValue,
) -> Result<Option<AttributeValue>, Malformed> {
    Ok(match message.value {
        None => None,
        Some(Value::Text(text)) => Some(AttributeValue::Text(text)),
        Some(Value::Int(number)) => Some(AttributeValue::Int(number)),
        Some(Value::Double(number)) => Some(AttributeValue::Double(number)),
        Some(Value::Bool(flag)) => Some(AttributeValue::Bool(flag)),
        Some(Value::TimeMs(ms)) => {
            let instant = Timestamp::from_millisecond(ms);
            let refused = |_| Malformed::new(place, format!("{ms} is no instant in milliseconds"));
            Some(AttributeValue::Time(instant.map_err(refused)?))
        }
    })
}

/// Values that came in, by name.
///
/// # Errors
/// As [`attribute`].
pub fn attributes(
    place: &str,
    message: BTreeMap<String, v1::AttributeValue>,
) -> Result<BTreeMap<String, Option<AttributeValue>>, Malformed> {
    let read = |(name, value)| {
        let value = attribute(&format!("{place}.{name}"), value)?;
        Ok((name, value))
    };
    message.into_iter().map(read).collect()
}
