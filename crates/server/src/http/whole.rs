//! Whole numbers as JSON Schema has them: `3.0` is one.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};

/// As far as the description's 64-bit integers go.
const MAX: u64 = i64::MAX as u64;
/// Up to here a double holds every whole number.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A whole number between two bounds, however it is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Whole<const FROM: u64 = 0, const UP_TO: u64 = MAX>(pub(super) u64);

impl<'de, const FROM: u64, const UP_TO: u64> Deserialize<'de> for Whole<FROM, UP_TO> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        whole(&number)
            .filter(|whole| (FROM..=UP_TO).contains(whole))
            .map(Self)
            .ok_or_else(|| {
                let wanted = format!("a whole number from {FROM} to {UP_TO}");
                D::Error::invalid_value(Unexpected::Other(&number.to_string()), &wanted.as_str())
            })
    }
}

/// The whole number that a JSON number is, if it is one.
fn whole(number: &serde_json::Number) -> Option<u64> {
    if let Some(whole) = number.as_u64() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    if float.fract() != 0.0 || !(0.0..=EXACT_MAX).contains(&float) {
        return None;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and within bounds"
    )]
    Some(float as u64)
}

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

    #[test]
    fn bounds_hold_and_are_told() {
        type Bounded = Whole<1, 10>;
        assert_eq!(serde_json::from_str::<Bounded>("1").unwrap(), Whole(1));
        assert_eq!(serde_json::from_str::<Bounded>("10.0").unwrap(), Whole(10));
        for text in ["0", "11", "11.0"] {
            let error = serde_json::from_str::<Bounded>(text).unwrap_err();
            assert!(error.to_string().contains("from 1 to 10"), "{error}");
        }
    }
}
