//! Search attributes that a program sets.

use std::collections::{BTreeMap, BTreeSet};

use everruns_durable::core::AttributeValue;
use everruns_durable::persistence::check;
use everruns_durable::persistence::limits::ATTRIBUTES_MAX;

use crate::expr::{ExpressionError, kind};
use crate::value::{Map, Value};

/// One attribute; null removes it.
pub(crate) fn read(
    name: &String,
    value: &Value,
) -> Result<Option<AttributeValue>, ExpressionError> {
    let attribute = match value {
        Value::Null => None,
        Value::Bool(truth) => Some(AttributeValue::Bool(*truth)),
        Value::String(text) => Some(AttributeValue::Text(text.clone())),
        Value::Number(number) => {
            let whole = number.as_i64().map(AttributeValue::Int);
            let float = || number.as_f64().filter(|_| !number.is_integer());
            Some(
                whole
                    .or_else(|| float().map(AttributeValue::Double))
                    .ok_or_else(|| {
                        ExpressionError(format!("attribute {name:?} is {number}, beyond 64 bits"))
                    })?,
            )
        }
        other => {
            return Err(ExpressionError(format!(
                "attribute {name:?} has to be a string, a number, a boolean, or null to remove it, and is {}",
                kind(other)
            )));
        }
    };
    check::attributes([(name, attribute.as_ref())].into_iter())
        .map_err(|error| ExpressionError(error.to_string()))?;
    Ok(attribute)
}

/// The attributes a run has set: the store takes so many, and no more.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    names: BTreeSet<String>,
}

impl Attributes {
    /// Reads what is to be set; nothing is noted where it is refused.
    pub(crate) fn set(
        &mut self,
        values: &Map,
    ) -> Result<BTreeMap<String, Option<AttributeValue>>, ExpressionError> {
        let mut read_all = BTreeMap::new();
        for (name, value) in values {
            read_all.insert(name.clone(), read(name, value)?);
        }
        let new = read_all.keys().filter(|name| !self.names.contains(*name));
        let count = self.names.len() + new.count();
        if count > ATTRIBUTES_MAX {
            return Err(ExpressionError(format!(
                "the run would have {count} attributes; the limit is {ATTRIBUTES_MAX}"
            )));
        }
        self.names.extend(read_all.keys().cloned());
        Ok(read_all)
    }
}
