//! Numbers: integers of 64 bits stay exact, floats are finite, and the two compare by value.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Two numbers as they are computed with: exactly where both are integers.
enum Pair {
    Integers(i128, i128),
    Floats(f64, f64),
}

impl Pair {
    fn of(a: &Value, b: &Value) -> Option<Self> {
        let (a, b) = (a.as_number()?, b.as_number()?);
        match (integer(a), integer(b)) {
            (Some(a), Some(b)) => Some(Self::Integers(a, b)),
            _ => Some(Self::Floats(a.as_f64()?, b.as_f64()?)),
        }
    }
}

fn integer(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

/// What arithmetic does with two numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
}

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoNumber {
    /// One of the two is something else.
    Operand,
    /// The result does not fit 64 bits, or is not finite.
    Overflow,
}

pub(super) fn compute(how: Arithmetic, a: &Value, b: &Value) -> Result<Value, NoNumber> {
    match Pair::of(a, b).ok_or(NoNumber::Operand)? {
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
            let finite = Number::from_f64(float).ok_or(NoNumber::Overflow)?;
            Ok(Value::Number(finite))
        }
    }
}

/// The sum of two numbers, as `$add` has it; None where they are none or it overflows.
pub(crate) fn sum(a: &Value, b: &Value) -> Option<Value> {
    compute(Arithmetic::Add, a, b).ok()
}

/// Which of two numbers is less, by value: 1 is 1.0, and 2^53 + 1 is not 2^53 as a float.
pub(super) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => with_float(a, b.as_f64()?),
        (None, Some(b)) => with_float(b, a.as_f64()?).map(Ordering::reverse),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// Compares exactly: the integer as a float may be another number.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a float without a fraction, whose size was looked at"
)]
fn with_float(integer: i128, float: f64) -> Option<Ordering> {
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    if float >= BEYOND {
        return Some(Ordering::Less);
    }
    if float <= -BEYOND {
        return Some(Ordering::Greater);
    }
    let whole = float.floor();
    let by_whole = integer.cmp(&(whole as i128));
    let fraction = if float > whole {
        Ordering::Less
    } else {
        Ordering::Equal
    };
    Some(by_whole.then(fraction))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

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
