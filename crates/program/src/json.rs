//! Reads JSON strictly: a key that stands twice in one object is a mistake, not the last one wins.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::mistake::Mistake;
use crate::path::Path;

/// Reads a program's text.
pub(crate) fn read(text: &[u8]) -> Result<Value, Mistake> {
    let found = RefCell::new(None);
    let strict = Strict {
        path: Path::ROOT,
        found: &found,
    };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = strict.deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| {
        let duplicate = found.take();
        duplicate.unwrap_or_else(|| Path::ROOT.mistake(format!("is not JSON: {error}")))
    })
}

struct Strict<'a> {
    path: Path<'a>,
    /// The reader's own error cannot carry a path.
    found: &'a RefCell<Option<Mistake>>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        let number = number.ok_or_else(|| E::custom("a number is too large"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Strict {
            path: self.path.index(array.len()),
            found: self.found,
        })? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = self.path.field(&name);
            let found = self.found;
            if object.contains_key(&name) {
                let mistake = path.mistake("stands twice; keep one");
                found.borrow_mut().get_or_insert(mistake);
                return Err(A::Error::custom("a field stands twice"));
            }
            let value = fields.next_value_seed(Strict { path, found })?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_serde_reads() {
        let text = r#"{"a":[1,-1,18446744073709551615,1.5,"x",null,true,{"b":{}}],"ü":"\u0000"}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_key_that_stands_twice_is_told_with_its_place() {
        let mistake = read(br#"{"steps":[{"do":"set","do":"fail"}]}"#).unwrap_err();
        assert_eq!(mistake.path, "steps[0].do");
        assert!(read(b"{}x").unwrap_err().problem.contains("not JSON"));
        assert!(read(b"[1e999]").unwrap_err().problem.contains("not JSON"));
    }
}
