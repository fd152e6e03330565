//! Fields of one kind: checked at the start where they are written out, and when they are computed otherwise.

use std::time::Duration;

use everruns_durable::persistence::limits::{DURATION_MS_MAX, ID_BYTES_MAX};
use everruns_durable::prelude::{ClosePolicy, ExhaustedPolicy};

use crate::expr::{Expr, ExpressionError, kind};
use crate::mistake::Mistake;
use crate::path::Path;
use crate::value::Value;

/// What a field can hold.
pub(crate) trait Kind: Sized + Clone {
    /// What is expected, for people.
    const WANTED: &'static str;

    /// None: it is something else.
    fn read(value: &Value) -> Option<Self>;
}

/// A field of one kind.
#[derive(Debug, Clone)]
pub(crate) enum Slot<T> {
    /// Written out in the program.
    Given(T),
    /// Known when its step runs.
    Computed { field: &'static str, expr: Expr },
}

impl<T: Kind> Slot<T> {
    /// Reads the field of this name; `path` is the object's.
    pub(crate) fn parse(
        value: &Value,
        path: &Path<'_>,
        field: &'static str,
    ) -> Result<Self, Mistake> {
        let here = path.field(field);
        let expr = Expr::parse(value, &here)?;
        match expr.constant() {
            Some(value) => read(value)
                .map(Self::Given)
                .map_err(|problem| here.mistake(problem)),
            None => Ok(Self::Computed { field, expr }),
        }
    }
}

/// Reads what a field was computed to.
pub(crate) fn read_computed<T: Kind>(
    field: &'static str,
    value: &Value,
) -> Result<T, ExpressionError> {
    read(value).map_err(|problem| ExpressionError(format!("{field} {problem}")))
}

fn read<T: Kind>(value: &Value) -> Result<T, String> {
    T::read(value).ok_or_else(|| {
        let found = match value {
            Value::Number(number) => number.to_string(),
            Value::String(text) if text.len() <= 40 => format!("{text:?}"),
            other => kind(other).to_owned(),
        };
        format!("has to be {}, and is {found}", T::WANTED)
    })
}

/// A whole number, also one that is written as 3.0.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a whole float below 2^53, whose size was looked at"
)]
fn whole(value: &Value) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = value.as_number()?;
    let float = || number.as_f64().filter(|float| float.fract() == 0.0);
    number.as_i64().or_else(|| {
        float()
            .filter(|float| float.abs() <= EXACT)
            .map(|float| float as i64)
    })
}

impl Kind for bool {
    const WANTED: &'static str = "true or false";

    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

/// How often.
impl Kind for u64 {
    const WANTED: &'static str = "a whole number from 0 on";

    fn read(value: &Value) -> Option<Self> {
        Self::try_from(whole(value)?).ok()
    }
}

/// In milliseconds.
impl Kind for Duration {
    const WANTED: &'static str = "a whole number of milliseconds, at most a hundred years";

    fn read(value: &Value) -> Option<Self> {
        let millis = u64::read(value).filter(|millis| *millis <= DURATION_MS_MAX)?;
        Some(Self::from_millis(millis))
    }
}

/// Attempts of an activity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempts(pub(crate) u32);

impl Kind for Attempts {
    const WANTED: &'static str = "a whole number from 1 on";

    fn read(value: &Value) -> Option<Self> {
        let attempts = u32::try_from(whole(value)?).ok()?;
        (attempts > 0).then_some(Self(attempts))
    }
}

/// Growth of a delay.
impl Kind for f64 {
    const WANTED: &'static str = "a number of 0 or more";

    fn read(value: &Value) -> Option<Self> {
        value.as_number()?.as_f64().filter(|number| *number >= 0.0)
    }
}

/// A priority.
impl Kind for i32 {
    const WANTED: &'static str = "a whole number of 32 bits";

    fn read(value: &Value) -> Option<Self> {
        Self::try_from(whole(value)?).ok()
    }
}

/// A text for people.
impl Kind for String {
    const WANTED: &'static str = "a string";

    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

/// A key that the user chooses.
#[derive(Debug, Clone)]
pub(crate) struct Id(pub(crate) String);

impl Kind for Id {
    const WANTED: &'static str = "a string of 1 to 512 bytes without NUL";

    fn read(value: &Value) -> Option<Self> {
        let text = value.as_str()?;
        let fits = (1..=ID_BYTES_MAX).contains(&text.len()) && !text.contains('\0');
        fits.then(|| Self(text.to_owned()))
    }
}

impl Kind for ClosePolicy {
    const WANTED: &'static str = "\"cancel\", \"terminate\" or \"abandon\"";

    fn read(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "cancel" => Some(Self::Cancel),
            "terminate" => Some(Self::Terminate),
            "abandon" => Some(Self::Abandon),
            _ => None,
        }
    }
}

impl Kind for ExhaustedPolicy {
    const WANTED: &'static str = "\"fail\" or \"park\"";

    fn read(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "fail" => Some(Self::Fail),
            "park" => Some(Self::Park),
            _ => None,
        }
    }
}
