//! Durations as texts, read when the program is compiled.

use proc_macro2::TokenStream;
use quote::quote;
use syn::LitStr;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
const WEEK_MS: u64 = 7 * DAY_MS;

/// A unit as it is written, and its length in milliseconds.
type Unit = (&'static str, u64);

/// Largest first: a text names its units in this order, each at most once.
const SHORT_UNITS: &[Unit] = &[
    ("d", DAY_MS),
    ("h", HOUR_MS),
    ("m", MINUTE_MS),
    ("s", SECOND_MS),
    ("ms", 1),
];
const ISO_DATE_UNITS: &[Unit] = &[("W", WEEK_MS), ("D", DAY_MS)];
const ISO_TIME_UNITS: &[Unit] = &[("H", HOUR_MS), ("M", MINUTE_MS), ("S", SECOND_MS)];

/// A length of time, as the expression that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Milliseconds(u64);

impl Milliseconds {
    /// Reads the literal.
    pub(crate) fn read(literal: &LitStr) -> syn::Result<Self> {
        let text = literal.value();
        match parse(&text) {
            Ok(0) => Err(syn::Error::new(
                literal.span(),
                "a timeout of zero has always passed: give a longer one, or leave the setting out",
            )),
            Ok(milliseconds) => Ok(Self(milliseconds)),
            Err(flaw) => Err(syn::Error::new(
                literal.span(),
                format!(
                    "`{text}` is not a duration: {flaw}; write it as \"250ms\", \"30s\", \"5m\", \"1h30m\", \"2d\" or, in \
                     ISO 8601, \"PT10M\""
                ),
            )),
        }
    }

    /// The expression of type `Duration`.
    pub(crate) fn expression(self) -> TokenStream {
        let milliseconds = self.0;
        quote!(::core::time::Duration::from_millis(#milliseconds))
    }
}

fn parse(text: &str) -> Result<u64, String> {
    let Some(iso) = text.strip_prefix('P') else {
        return sum(text, SHORT_UNITS);
    };
    let (date, time) = match iso.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (iso, None),
    };
    if let Some(unit @ ('Y' | 'M')) = date.chars().find(|c| !c.is_ascii_digit() && *c != 'D') {
        let unit = if unit == 'Y' { "year" } else { "month" };
        return Err(format!("a {unit} has no fixed length"));
    }
    let date_ms = if date.is_empty() && time.is_some() {
        0
    } else {
        sum(date, ISO_DATE_UNITS)?
    };
    let time_ms = time.map_or(Ok(0), |time| sum(time, ISO_TIME_UNITS))?;
    date_ms.checked_add(time_ms).ok_or_else(too_long)
}

/// Adds up `NUMBER UNIT` pairs.
fn sum(text: &str, mut units: &[Unit]) -> Result<u64, String> {
    if text.is_empty() {
        return Err("it names no length".to_owned());
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit() || c == '.');
        if number.is_empty() {
            return Err(format!("a number is missing before `{rest}`"));
        }
        let (name, after) = split_while(after, |c| !c.is_ascii_digit());
        if name.is_empty() {
            return Err(format!("`{number}` has no unit"));
        }
        let position = units
            .iter()
            .position(|(unit, _)| *unit == name)
            .ok_or_else(|| format!("`{name}` is no unit that can stand here"))?;
        let part = multiply(number, units[position].1)?;
        total = total.checked_add(part).ok_or_else(too_long)?;
        units = &units[position + 1..];
        rest = after;
    }
    Ok(total)
}

fn split_while(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !keep(c)).unwrap_or(text.len()))
}

/// A decimal number times a unit, exactly.
fn multiply(number: &str, unit_ms: u64) -> Result<u64, String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| {
        if part.is_empty() || part.contains('.') {
            Err(format!("`{number}` is not a number"))
        } else {
            part.parse::<u64>().map_err(|_| too_long())
        }
    };
    let whole_ms = digits(whole)?.checked_mul(unit_ms).ok_or_else(too_long)?;
    let scale = u32::try_from(fraction.len())
        .ok()
        .and_then(|length| 10_u64.checked_pow(length))
        .ok_or_else(too_fine)?;
    let scaled = digits(fraction)?
        .checked_mul(unit_ms)
        .ok_or_else(too_fine)?;
    if scaled % scale != 0 {
        return Err(too_fine());
    }
    whole_ms.checked_add(scaled / scale).ok_or_else(too_long)
}

fn too_long() -> String {
    "it is longer than can be stored".to_owned()
}

fn too_fine() -> String {
    "it is finer than a millisecond".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_read_to_the_millisecond() {
        for (text, milliseconds) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("2d", 172_800_000),
            ("1h30m", 5_400_000),
            ("1d1h1m1s1ms", 90_061_001),
            ("1.5s", 1_500),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(milliseconds), "{text}");
        }
    }

    #[test]
    fn iso_texts_are_read_to_the_millisecond() {
        for (text, milliseconds) in [
            ("PT10M", 600_000),
            ("PT0.25S", 250),
            ("P1D", 86_400_000),
            ("P2W", 1_209_600_000),
            ("P1DT2H3M4.005S", 93_784_005),
        ] {
            assert_eq!(parse(text), Ok(milliseconds), "{text}");
        }
    }

    #[test]
    fn a_flaw_is_named() {
        for (text, flaw) in [
            ("", "names no length"),
            ("30", "`30` has no unit"),
            ("s", "missing before `s`"),
            ("-5s", "missing before `-5s`"),
            ("30 s", "` s` is no unit"),
            ("30sec", "`sec` is no unit"),
            ("5M", "`M` is no unit"),
            ("30m1h", "`h` is no unit"),
            ("1s1s", "`s` is no unit"),
            ("1.s", "not a number"),
            ("1.2.3s", "not a number"),
            ("0.5ms", "finer than a millisecond"),
            ("1.00000000000000000001s", "finer than a millisecond"),
            ("99999999999999999999s", "longer than can be stored"),
            ("18446744073709551615s", "longer than can be stored"),
            ("P", "names no length"),
            ("PT", "names no length"),
            ("P1DT", "names no length"),
            ("P1Y", "a year has no fixed length"),
            ("P6M", "a month has no fixed length"),
            ("PT1D", "`D` is no unit"),
            ("P1H", "`H` is no unit"),
            ("PT10m", "`m` is no unit"),
        ] {
            let found = parse(text).expect_err(text);
            assert!(found.contains(flaw), "{text}: {found}");
        }
    }
}
