//! JSON as programs have it: like that of `serde_json`, with numbers that keep their digits however many they are.
//!
//! `serde_json` reads an integer beyond 64 bits as a float, and its feature `arbitrary_precision` changes the reading of numbers for
//! every crate of a build. Hence a type of our own.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::json;
use crate::number::Number;

/// The fields of an object.
pub(crate) type Map = BTreeMap<String, Value>;

/// A JSON value.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number of any length.
    Number(Number),
    /// A text.
    String(String),
    /// Items in order.
    Array(Vec<Self>),
    /// Fields by their names.
    Object(BTreeMap<String, Self>),
}

impl Value {
    /// An object of these fields.
    pub(crate) fn object<const N: usize>(fields: [(&str, Self); N]) -> Self {
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        Self::Object(fields.into())
    }

    pub(crate) const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    pub(crate) const fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) const fn as_array(&self) -> Option<&Vec<Self>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) const fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// The field of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(Number::Int(number))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        // Lossless on every target there is.
        Self::from(u64::try_from(number).unwrap_or(u64::MAX))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<Vec<Self>> for Value {
    fn from(items: Vec<Self>) -> Self {
        Self::Array(items)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(truth) => serializer.serialize_bool(*truth),
            Self::Number(number) => number.serialize(serializer),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => items.serialize(serializer),
            Self::Object(fields) => fields.serialize(serializer),
        }
    }
}

/// From the text itself: a reader in between would have rounded already.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        json::read_data(raw.get()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        json::read_data(&value.to_string()).expect("JSON")
    }
}
