//! Reads JSON by the letter: fields by their names, variants by their names.
//!
//! What `serde` derives also takes an array for a struct, its fields by their places, and an object for a variant that has nothing
//! to hold. No schema says so, and a caller who sends one of them by mistake is not told: `[null, null]` would be a filter that
//! filters nothing.

mod access;
mod visitor;

use std::ops::Deref;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};

use self::visitor::{ForEnum, ForStruct, Passing};

/// A value that is read by the letter, and with it whatever it holds: a struct only from an object, a variant without data only from
/// its name.
///
/// What a tagged enum holds before its tag is known, and all that an untagged one holds, is read from a copy that `serde` makes: it
/// has to be marked itself.
///
/// ```
/// use durable_core::strict::Strict;
///
/// #[derive(serde::Deserialize)]
/// struct Point { x: i32, y: i32 }
///
/// let Strict(point) = serde_json::from_str::<Strict<Point>>(r#"{"x":1,"y":2}"#)?;
/// assert_eq!((point.x, point.y), (1, 2));
/// assert!(serde_json::from_str::<Strict<Point>>("[1,2]").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Strict<T>(pub T);

impl<T> Deref for Strict<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Strict<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(Reader(deserializer)).map(Self)
    }
}

/// Another reader, made strict.
struct Reader<D>(D);

/// Single values are read as ever.
macro_rules! as_ever {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(visitor)
        })*
    };
}

/// What may hold other values hands the strictness on to them.
macro_rules! handing_on {
    ($($method:ident($($argument:ident: $kind:ty),*) by $visitor:ident)*) => {
        $(fn $method<V: Visitor<'de>>(
            self,
            $($argument: $kind,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* $visitor(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Reader<D> {
    type Error = D::Error;

    as_ever! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier deserialize_ignored_any
    }

    handing_on! {
        deserialize_any() by Passing
        deserialize_option() by Passing
        deserialize_unit_struct(name: &'static str) by Passing
        deserialize_newtype_struct(name: &'static str) by Passing
        deserialize_seq() by Passing
        deserialize_tuple(len: usize) by Passing
        deserialize_tuple_struct(name: &'static str, len: usize) by Passing
        deserialize_map() by Passing
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) by ForStruct
    }

    /// Not by the reader's own way, which does not tell a name from an object that holds nothing.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(ForEnum { visitor, variants })
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::de::DeserializeOwned;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        a: i64,
        #[serde(default)]
        b: Option<String>,
    }

    #[derive(Debug, Clone, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Plain,
        Named(Inner),
        Fields { x: u8 },
        Pair(u8, u8),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "type", content = "value", rename_all = "snake_case")]
    enum Tagged {
        Int(i64),
        Inner(Inner),
    }

    #[derive(Debug, Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct Outer {
        kinds: Vec<Kind>,
        maybe: Option<Inner>,
        by_name: BTreeMap<String, Inner>,
        pair: Option<(u8, Inner)>,
        tagged: Option<Tagged>,
        raw: Option<Box<RawValue>>,
        any: serde_json::Value,
    }

    fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
        let read = serde_json::from_str::<Strict<T>>(text);
        read.map(|Strict(value)| value).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_written_by_the_letter_is_read() {
        let text = r#"{"kinds": ["plain", {"named": {"a": 1}}, {"fields": {"x": 2}}, {"pair": [3, 4]}],
            "maybe": {"a": 1, "b": null}, "by_name": {"k": {"a": 2}}, "pair": [1, {"a": 3}],
            "tagged": {"type": "int", "value": 7}, "raw": [1, {"x":  1e400}], "any": [[1], {"y": {}}], "unknown": [{}]}"#;
        let outer: Outer = read(text).unwrap();
        let inner = |a| Inner { a, b: None };
        let kinds = [
            Kind::Plain,
            Kind::Named(inner(1)),
            Kind::Fields { x: 2 },
            Kind::Pair(3, 4),
        ];
        assert_eq!(outer.kinds, kinds);
        assert_eq!(outer.maybe, Some(inner(1)));
        assert_eq!(outer.by_name["k"], inner(2));
        assert_eq!(outer.pair, Some((1, inner(3))));
        assert_eq!(outer.tagged, Some(Tagged::Int(7)));
        assert_eq!(outer.raw.unwrap().get(), r#"[1, {"x":  1e400}]"#);
        assert_eq!(outer.any, serde_json::json!([[1], {"y": {}}]));
        assert_eq!(read::<Option<Inner>>("null"), Ok(None));
    }

    #[test]
    fn an_array_is_no_struct_wherever_it_stands() {
        for text in [
            r"[[], null, {}, null, null, null, null]",
            r#"{"maybe": [1, null]}"#,
            r#"{"by_name": {"k": [1, null]}}"#,
            r#"{"pair": [1, [1, null]]}"#,
            r#"{"kinds": [{"named": [1, null]}]}"#,
            r#"{"kinds": [{"fields": [1]}]}"#,
            r#"{"tagged": ["int", 7]}"#,
            r#"{"tagged": {"type": "inner", "value": [1, null]}}"#,
        ] {
            let problem = read::<Outer>(text).unwrap_err();
            assert!(problem.contains("an array"), "{text}: {problem}");
        }
    }

    #[test]
    fn a_variant_without_data_is_its_name_and_nothing_else() {
        let problem = read::<Kind>(r#"{"plain": null}"#).unwrap_err();
        assert!(problem.contains("write its name alone"), "{problem}");
        for text in [
            "1",
            "null",
            "[\"plain\"]",
            "{}",
            r#"{"named": {"a": 1}, "plain": null}"#,
        ] {
            let problem = read::<Kind>(text).unwrap_err();
            assert!(problem.contains("`plain`"), "{text}: {problem}");
        }
        assert!(read::<Kind>("\"named\"").is_err());
        let unknown = read::<Kind>("\"other\"").unwrap_err();
        assert!(unknown.contains("unknown variant `other`"), "{unknown}");
    }
}
