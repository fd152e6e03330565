//! Data that is to stand in a program.

use crate::value::Value;

/// Quotes data that would compute where a value is expected.
pub(crate) fn quoted(value: Value) -> Value {
    if computes(&value) {
        Value::object([("$lit", value)])
    } else {
        value
    }
}

/// Whether anything in it would compute.
pub(crate) fn computes(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(computes),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, field)| name.starts_with('$') || computes(field)),
        _ => false,
    }
}
