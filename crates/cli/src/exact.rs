//! JSON that keeps its digits: a number may be larger than any that this program calculates with, and is printed and sent as it came.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON document: its text, which is what is printed and sent, and its value, to look into.
#[derive(Debug, Clone)]
pub(crate) struct Exact {
    text: Box<RawValue>,
    value: Value,
}

impl Exact {
    /// Reads a document.
    pub(crate) fn parse(text: &str) -> serde_json::Result<Self> {
        Self::of(serde_json::from_str(text)?)
    }

    fn of(text: Box<RawValue>) -> serde_json::Result<Self> {
        let value = serde_json::from_str(text.get())?;
        Ok(Self { text, value })
    }

    /// Nothing.
    pub(crate) fn null() -> Self {
        Self {
            text: RawValue::NULL.to_owned(),
            value: Value::Null,
        }
    }

    /// The field of an object; null where there is none.
    pub(crate) fn field(&self, name: &str) -> Self {
        let fields: serde_json::Result<BTreeMap<String, Box<RawValue>>> =
            serde_json::from_str(self.text.get());
        let field = fields.ok().and_then(|mut fields| fields.remove(name));
        field.map_or_else(Self::null, |text| {
            Self::of(text).unwrap_or_else(|_| Self::null())
        })
    }

    /// The items of an array; none of anything else.
    pub(crate) fn items(&self) -> Vec<Self> {
        let items: Vec<Box<RawValue>> = serde_json::from_str(self.text.get()).unwrap_or_default();
        items
            .into_iter()
            .filter_map(|text| Self::of(text).ok())
            .collect()
    }

    /// The same object with other items in a field.
    pub(crate) fn with_items(&self, name: &str, items: &[Self]) -> serde_json::Result<Self> {
        let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(self.text.get())?;
        fields.insert(name.to_owned(), serde_json::value::to_raw_value(items)?);
        Self::of(serde_json::value::to_raw_value(&fields)?)
    }

    /// As people read it, on one line: text without its quotes, a dash for null.
    pub(crate) fn plain(&self) -> String {
        match &self.value {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            _ => self.text.get().to_owned(),
        }
    }

    /// As a person reads it who asked for just that: text without its quotes, anything else indented.
    pub(crate) fn pretty(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            _ => indented(self.text.get()),
        }
    }
}

impl Deref for Exact {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

/// A JSON text with a line for each item and field, its values untouched.
pub(crate) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut chars = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = chars.next() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => {
                quoted = c == '"';
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_indented_is_what_the_library_would_write() {
        for value in [
            json!(null),
            json!("a \"{[,:]}\" \\"),
            json!([]),
            json!({}),
            json!({"a": [1, {"b": [[], {}], "c d": "x, y: \\\""}], "e": -1.5e-7}),
        ] {
            let expected = serde_json::to_string_pretty(&value).expect("text");
            assert_eq!(indented(&value.to_string()), expected);
            assert_eq!(indented(&expected), expected, "once more changes nothing");
        }
    }

    #[test]
    fn digits_are_kept_wherever_one_looks() {
        let exact =
            Exact::parse(r#"{"n": 12345678901234567890123, "l": [0.1000000000000000000001]}"#);
        let exact = exact.expect("JSON");
        assert_eq!(exact.field("n").plain(), "12345678901234567890123");
        assert_eq!(
            exact.field("l").items()[0].plain(),
            "0.1000000000000000000001"
        );
        let text = serde_json::to_string(&exact).expect("text");
        assert!(text.contains("12345678901234567890123"), "{text}");
        assert!(exact.field("none").is_null() && exact.items().is_empty());
    }
}
