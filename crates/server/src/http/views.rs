//! Shapes that several resources share.

use std::collections::BTreeMap;

use everruns_durable::core::strict::Strict;
use everruns_durable::core::{AttributeValue, Failure, Payload, Timestamp};
use everruns_durable::persistence::model::Attributes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::{Code, Problem};

/// An error as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct FailureView {
    /// The application's or the engine's name for it.
    #[serde(rename = "type")]
    error_type: String,
    /// For people.
    message: String,
    /// Whether trying again may help.
    retryable: bool,
    /// Structured details; null where there are none.
    #[schema(value_type = Value)]
    details: Payload,
    /// What caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    cause: Option<Box<FailureView>>,
}

impl From<&Failure> for FailureView {
    fn from(failure: &Failure) -> Self {
        let cause = failure.cause.as_deref().map(Self::from);
        Self {
            error_type: failure.error_type.clone(),
            message: failure.message.clone(),
            retryable: failure.retryable,
            details: failure.details.clone(),
            cause: cause.map(Box::new),
        }
    }
}

impl FailureView {
    /// Of something that was asked to stop.
    pub(super) fn cancelled(reason: String) -> Self {
        Self::from(&Failure::new("Cancelled", reason).non_retryable())
    }
}

/// The value of a search attribute: a string, a number or a boolean as it is; an instant as `{"type":"time","value":"…"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "an attribute has to be a string, a number, a boolean, or an instant as {\"type\":\"time\",\"value\":\"…\"}"
)]
pub(super) enum AttributeView {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// Text.
    Text(String),
    /// An instant.
    #[schema(value_type = TimeAttribute)]
    Time(Strict<TimeAttribute>),
}

/// An instant, told apart from text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeAttribute {
    /// That it is one.
    r#type: TimeMark,
    /// When.
    value: Timestamp,
}

/// The word `time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum TimeMark {
    Time,
}

impl From<AttributeView> for AttributeValue {
    fn from(view: AttributeView) -> Self {
        match view {
            AttributeView::Bool(value) => Self::Bool(value),
            AttributeView::Int(value) => Self::Int(value),
            AttributeView::Double(value) => Self::Double(value),
            AttributeView::Text(value) => Self::Text(value),
            AttributeView::Time(time) => Self::Time(time.value),
        }
    }
}

impl From<AttributeValue> for AttributeView {
    fn from(value: AttributeValue) -> Self {
        match value {
            AttributeValue::Bool(value) => Self::Bool(value),
            AttributeValue::Int(value) => Self::Int(value),
            AttributeValue::Double(value) => Self::Double(value),
            AttributeValue::Text(value) => Self::Text(value),
            AttributeValue::Time(value) => {
                let r#type = TimeMark::Time;
                Self::Time(Strict(TimeAttribute { r#type, value }))
            }
        }
    }
}

/// Search attributes by name.
pub(super) type AttributeViews = BTreeMap<String, AttributeView>;

pub(super) fn attributes_from(views: AttributeViews) -> Attributes {
    views
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

pub(super) fn attributes_to(attributes: Attributes) -> AttributeViews {
    attributes
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

/// Most digits of a time to wait.
const DURATION_DIGITS_MAX: usize = 6;

/// A time to wait, such as `10s`, `500ms`, `1m` or `PT10S`; a bare number is seconds. The description has the same as a pattern.
pub(super) fn duration(name: &str, text: &str) -> Result<std::time::Duration, Problem> {
    let refuse = || {
        let detail = format!("{name} is {text:?}, which is no length of time");
        Problem::new(Code::InvalidParameter, detail).hint("write 10s, 500ms, 1m or PT10S")
    };
    let iso = text.strip_prefix("PT");
    let rest = iso.unwrap_or(text);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = rest.split_at(digits);
    let unit_ms = match (iso.is_some(), unit) {
        (false, "ms") => 1,
        (false, "" | "s") | (true, "S") => 1_000,
        (false, "m") | (true, "M") => 60_000,
        _ => return Err(refuse()),
    };
    if digits > DURATION_DIGITS_MAX {
        return Err(refuse());
    }
    let number: u64 = number.parse().map_err(|_| refuse())?;
    Ok(std::time::Duration::from_millis(number * unit_ms))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, millis) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("PT10S", 10_000),
            ("1m", 60_000),
            ("3", 3_000),
        ] {
            assert_eq!(
                duration("wait", text).unwrap(),
                Duration::from_millis(millis),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "soon",
            "-1s",
            "+1s",
            "1.5s",
            "1h",
            "10S",
            "PT10",
            "PT10s",
            "1234567ms",
            "99999999999s",
            "99999999999999999999s",
        ] {
            assert!(duration("wait", text).is_err(), "{text}");
        }
    }

    #[test]
    fn attributes_keep_their_types() {
        let json = r#"{"a":1,"b":"1","c":1.5,"d":true,"e":{"type":"time","value":"2026-01-01T00:00:00Z"}}"#;
        let views: AttributeViews = serde_json::from_str(json).unwrap();
        let attributes = attributes_from(views);
        assert_eq!(attributes["a"], AttributeValue::Int(1));
        assert_eq!(attributes["b"], AttributeValue::Text("1".to_owned()));
        assert!(matches!(attributes["e"], AttributeValue::Time(_)));
        let again = serde_json::to_string(&attributes_to(attributes)).unwrap();
        assert_eq!(again, json);
    }
}
