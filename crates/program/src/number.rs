//! Numbers: integers of 64 bits stay exact, floats are finite, the two compare by value, and what is longer keeps its digits.

use std::cmp::Ordering;
use std::fmt;

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::value::Value;

/// Significant digits that a float is sure to tell apart from its neighbours; a text with more is kept.
const FLOAT_DIGITS: usize = 17;

/// A number.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// An integer of 64 bits.
    Int(i64),
    /// A larger one, without a sign.
    Natural(u64),
    /// A finite float.
    Float(f64),
    /// What neither holds without loss, as it is written. It is handed on, and compared if it is an integer.
    Digits(Box<str>),
}

impl Number {
    /// Reads a number as JSON writes it; None: it is none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if is_integer(text) && text != "-0" {
            let signed = text.parse().map(Self::Int);
            let number = signed.or_else(|_| text.parse().map(Self::Natural));
            return Some(number.unwrap_or_else(|_| Self::Digits(text.into())));
        }
        let float: f64 = text.parse().ok()?;
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let digits = mantissa.trim_start_matches(['-', '0', '.']);
        let digits = digits.bytes().filter(u8::is_ascii_digit).count();
        if float.is_finite() && digits <= FLOAT_DIGITS {
            return Some(Self::Float(float));
        }
        Some(Self::Digits(text.into()))
    }

    pub(crate) fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Int(number) => u64::try_from(*number).ok(),
            Self::Natural(number) => Some(*number),
            _ => None,
        }
    }

    /// The nearest float; None for an integer beyond 64 bits and for what no float comes near to.
    #[allow(clippy::cast_precision_loss, reason = "the nearest is asked for")]
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Natural(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Digits(text) if is_integer(text) => None,
            Self::Digits(text) => text.parse().ok().filter(|float: &f64| float.is_finite()),
        }
    }

    /// Whether it is written without a fraction and an exponent.
    pub(crate) fn is_integer(&self) -> bool {
        match self {
            Self::Int(_) | Self::Natural(_) => true,
            Self::Float(_) => false,
            Self::Digits(text) => is_integer(text),
        }
    }

    /// How long its text is.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Int(number) => {
                let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
                digits + usize::from(*number < 0)
            }
            Self::Natural(number) => number.checked_ilog10().unwrap_or(0) as usize + 1,
            Self::Float(_) => self.to_string().len(),
            Self::Digits(text) => text.len(),
        }
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Natural(number), Self::Int)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Natural(number) => number.fmt(f),
            Self::Float(number) => {
                let text = serde_json::to_string(number).map_err(|_| fmt::Error)?;
                f.write_str(&text)
            }
            Self::Digits(text) => f.write_str(text),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Natural(number) => serializer.serialize_u64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Digits(text) => {
                let raw = RawValue::from_string(text.to_string()).map_err(S::Error::custom)?;
                raw.serialize(serializer)
            }
        }
    }
}

/// Two numbers as they are computed with: exactly where both are integers.
enum Pair {
    Integers(i128, i128),
    Floats(f64, f64),
}

impl Pair {
    fn of(a: &Value, b: &Value) -> Result<Self, NoNumber> {
        let (Some(a), Some(b)) = (a.as_number(), b.as_number()) else {
            return Err(NoNumber::Operand);
        };
        if let (Some(a), Some(b)) = (integer(a), integer(b)) {
            return Ok(Self::Integers(a, b));
        }
        match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => Ok(Self::Floats(a, b)),
            // It would have to be rounded first.
            _ => Err(NoNumber::Overflow),
        }
    }
}

/// An integer of 64 bits.
fn integer(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

/// What arithmetic does with two numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
}

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoNumber {
    /// One of the two is something else.
    Operand,
    /// An operand or the result does not fit 64 bits, or is not finite.
    Overflow,
}

pub(crate) fn compute(how: Arithmetic, a: &Value, b: &Value) -> Result<Value, NoNumber> {
    match Pair::of(a, b)? {
        Pair::Integers(a, b) => {
            // The largest product of two integers of 64 bits is beyond those of 128 by one: hence checked.
            let exact = match how {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Sub => a.checked_sub(b),
                Arithmetic::Mul => a.checked_mul(b),
            };
            let fits = exact.and_then(|exact| i64::try_from(exact).ok());
            fits.map(Value::from).ok_or(NoNumber::Overflow)
        }
        Pair::Floats(a, b) => {
            let float = match how {
                Arithmetic::Add => a + b,
                Arithmetic::Sub => a - b,
                Arithmetic::Mul => a * b,
            };
            if !float.is_finite() {
                return Err(NoNumber::Overflow);
            }
            Ok(Value::Number(Number::Float(float)))
        }
    }
}

/// The sum of two numbers, as `$add` has it; None where they are none or it overflows.
pub(crate) fn sum(a: &Value, b: &Value) -> Option<Value> {
    compute(Arithmetic::Add, a, b).ok()
}

/// Which of two numbers is less, by value: 1 is 1.0, and 2^53 + 1 is not 2^53 as a float. None where one has no float near it.
pub(crate) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return Some(a.cmp(&b));
    }
    if !a.is_integer() && !b.is_integer() {
        return a.as_f64()?.partial_cmp(&b.as_f64()?);
    }
    Some(Decimal::of(a)?.cmp(&Decimal::of(b)?))
}

/// A number by its decimal digits: an integer as a float may be another number.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    /// Without leading zeros; none for zero.
    whole: String,
    /// Whether something stands behind the point.
    fraction: bool,
}

impl Decimal {
    fn of(number: &Number) -> Option<Self> {
        let (text, fraction) = if number.is_integer() {
            (number.to_string(), false)
        } else {
            let float = number.as_f64()?;
            // All the digits that the float stands for.
            (format!("{:.0}", float.trunc()), float.fract() != 0.0)
        };
        let negative = match number {
            Number::Float(float) => *float < 0.0,
            _ => text.starts_with('-'),
        };
        let whole = text.trim_start_matches(['-', '0']).to_owned();
        Some(Self {
            negative: negative && (fraction || !whole.is_empty()),
            whole,
            fraction,
        })
    }

    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.cmp_size(other),
            (true, true) => other.cmp_size(self),
        }
    }

    /// One of the two is an integer, so that a fraction alone decides between equal whole parts.
    fn cmp_size(&self, other: &Self) -> Ordering {
        let by_length = self.whole.len().cmp(&other.whole.len());
        let by_digits = || self.whole.cmp(&other.whole);
        let by_fraction = || self.fraction.cmp(&other.fraction);
        by_length.then_with(by_digits).then_with(by_fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    macro_rules! json {
        ($($json:tt)+) => { Value::from(serde_json::json!($($json)+)) };
    }

    fn order(a: &Value, b: &Value) -> Option<Ordering> {
        compare(a.as_number()?, b.as_number()?)
    }

    #[test]
    fn integers_and_floats_compare_by_value() {
        for (a, b, expected) in [
            (json!(1), json!(1.0), Ordering::Equal),
            (json!(-0.0), json!(0), Ordering::Equal),
            (
                json!(9_007_199_254_740_993_i64),
                json!(9_007_199_254_740_992.0),
                Ordering::Greater,
            ),
            (json!(i64::MAX), json!(9.3e18), Ordering::Less),
            (json!(u64::MAX), json!(1.8e19), Ordering::Greater),
            (json!(u64::MAX), json!(1e300), Ordering::Less),
            (json!(i64::MIN), json!(-1e300), Ordering::Greater),
            (json!(1), json!(1.5), Ordering::Less),
            (json!(-1), json!(-1.5), Ordering::Greater),
        ] {
            assert_eq!(order(&a, &b), Some(expected), "{a} and {b}");
            assert_eq!(order(&b, &a), Some(expected.reverse()), "{b} and {a}");
        }
    }

    #[test]
    fn digits_compare_by_value_and_are_not_computed_with() {
        let number = |text: &str| Number::read(text).unwrap();
        let (more, less) = ("18446744073709551617", "18446744073709551616");
        for (a, b, expected) in [
            (more, less, Ordering::Greater),
            (more, "18446744073709551616.0", Ordering::Greater),
            (less, "18446744073709551616.0", Ordering::Equal),
            (less, "1e300", Ordering::Less),
            (less, "1", Ordering::Greater),
            (
                "-18446744073709551617",
                "-18446744073709551616",
                Ordering::Less,
            ),
            ("-18446744073709551617", "1.5", Ordering::Less),
            ("-99999999999999999999", "-1e300", Ordering::Greater),
        ] {
            assert_eq!(
                compare(&number(a), &number(b)),
                Some(expected),
                "{a} and {b}"
            );
            assert_eq!(
                compare(&number(b), &number(a)),
                Some(expected.reverse()),
                "{b} and {a}"
            );
        }
        for other in [json!(0), json!(0.5), Value::Number(number(less))] {
            let computed = compute(Arithmetic::Mul, &Value::Number(number(more)), &other);
            assert_eq!(computed, Err(NoNumber::Overflow), "{other}");
        }
    }

    proptest! {
        #[test]
        fn integers_are_computed_exactly_or_not_at_all(a: i64, b: i64) {
            for (how, exact) in [
                (Arithmetic::Add, a.checked_add(b)),
                (Arithmetic::Sub, a.checked_sub(b)),
                (Arithmetic::Mul, a.checked_mul(b)),
            ] {
                let computed = compute(how, &json!(a), &json!(b));
                let expected = exact.map(Value::from).ok_or(NoNumber::Overflow);
                prop_assert_eq!(computed, expected, "{:?} of {} and {}", how, a, b);
            }
        }

        #[test]
        fn order_of_an_integer_and_a_float_is_that_of_their_values(
            a in -(1_i64 << 53)..(1_i64 << 53),
            b in -1e16..1e16,
        ) {
            #[allow(clippy::cast_precision_loss, reason = "within 53 bits it is exact")]
            let expected = (a as f64).partial_cmp(&b);
            prop_assert_eq!(order(&json!(a), &json!(b)), expected);
        }
    }
}
