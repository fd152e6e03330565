//! Visitors that hand the strictness on.

use std::fmt;

use serde::Deserializer;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{EnumAccess, Error, MapAccess, SeqAccess, Visitor};

use super::Reader;
use super::access::{Enum, Items, ObjectAsEnum};

/// Takes what its inner visitor takes.
pub(super) struct Passing<V>(pub(super) V);

/// The same for a struct, which is no array.
pub(super) struct ForStruct<V>(pub(super) V);

/// For an enum: a name, or an object of one field.
pub(super) struct ForEnum<V> {
    pub(super) visitor: V,
    pub(super) variants: &'static [&'static str],
}

macro_rules! single_values {
    ($($method:ident($kind:ty))*) => {
        $(fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

/// All but sequences.
macro_rules! passing {
    () => {
        type Value = V::Value;

        single_values! {
            visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128) visit_f64(f64) visit_char(char) visit_str(&str)
            visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
        }

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.expecting(f)
        }

        fn visit_none<E: Error>(self) -> Result<V::Value, E> {
            self.0.visit_none()
        }

        fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
            self.0.visit_unit()
        }

        fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
            self.0.visit_some(Reader(inner))
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(
            self,
            inner: D,
        ) -> Result<V::Value, D::Error> {
            self.0.visit_newtype_struct(Reader(inner))
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
            self.0.visit_map(Items(fields))
        }

        fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
            self.0.visit_enum(Enum(variant))
        }
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Passing<V> {
    passing!();

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Items(items))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ForStruct<V> {
    passing!();

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<V::Value, A::Error> {
        Err(A::Error::custom(
            "an object with its fields by name is expected, and this is an array",
        ))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ForEnum<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        self.visitor.visit_enum(StrDeserializer::new(name))
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<V::Value, E> {
        self.visitor.visit_enum(BorrowedStrDeserializer::new(name))
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let expected = self.to_string();
        self.visitor.visit_enum(ObjectAsEnum { fields, expected })
    }
}

impl<V> fmt::Display for ForEnum<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self
            .variants
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        write!(f, "one of {}", names.join(", "))
    }
}
