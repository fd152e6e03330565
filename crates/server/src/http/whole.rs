//! Whole numbers as JSON Schema has them: `3.0` is one.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};

/// A whole number, however it is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Whole(pub(super) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        if let Some(whole) = number.as_u64().filter(|whole| *whole <= MAX) {
            return Ok(Self(whole));
        }
        let float = number.as_f64().unwrap_or(f64::NAN);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be whole and within bounds"
        )]
        if float.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&float) {
            return Ok(Self(float as u64));
        }
        Err(D::Error::invalid_value(
            Unexpected::Other(&number.to_string()),
            &"a whole number that is not negative",
        ))
    }
}

/// As far as the description's 64-bit integers go.
const MAX: u64 = i64::MAX as u64;
/// Up to here a double holds every whole number.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_whole_however_they_are_written() {
        for (text, whole) in [
            ("3", 3),
            ("3.0", 3),
            ("0", 0),
            ("1e3", 1000),
            ("9223372036854775807", MAX),
        ] {
            assert_eq!(
                serde_json::from_str::<Whole>(text).unwrap(),
                Whole(whole),
                "{text}"
            );
        }
        for text in ["-1", "3.5", "1e300", "9223372036854775808", "\"3\"", "null"] {
            assert!(serde_json::from_str::<Whole>(text).is_err(), "{text}");
        }
    }
}
