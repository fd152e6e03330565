//! Values of search attributes, written as the plain Rust values they are.

use jiff::Timestamp;

use crate::event::AttributeValue;

macro_rules! attribute_from {
    ($($from:ty => $variant:ident),+ $(,)?) => {
        $(impl From<$from> for AttributeValue {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

attribute_from! {
    &str => Text,
    String => Text,
    i64 => Int,
    i32 => Int,
    u32 => Int,
    f64 => Double,
    bool => Bool,
    Timestamp => Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_its_text_are_two_values() {
        assert_eq!(AttributeValue::from(1), AttributeValue::Int(1));
        assert_eq!(AttributeValue::from(1_u32), AttributeValue::Int(1));
        assert_eq!(AttributeValue::from("1"), AttributeValue::Text("1".into()));
        assert_ne!(AttributeValue::from(1), AttributeValue::from("1"));
        assert_ne!(AttributeValue::from(1), AttributeValue::from(1.0));
    }
}
