//! Lengths of time as people write them: `30s`, `500ms`, `2h`, `30d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Units, the largest first: a period is shown in the largest that fits without a rest.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A length of time: a whole number and `ms`, `s`, `m`, `h` or `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit());
        let (number, unit) = trimmed.split_at(digits.unwrap_or(trimmed.len()));
        let scale = UNITS.iter().find(|(name, _)| *name == unit.trim());
        let millis = scale.and_then(|(_, scale)| number.parse::<u64>().ok()?.checked_mul(*scale));
        millis
            .map(|millis| Self(Duration::from_millis(millis)))
            .ok_or_else(|| {
                format!(
                    "{text:?} is no length of time; write for instance 500ms, 30s, 5m, 2h or 30d"
                )
            })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let fits = |scale: u64| millis >= scale && millis.is_multiple_of(scale);
        let unit = UNITS.iter().find(|(_, scale)| fits(*scale));
        let (name, scale) = unit.unwrap_or(&("s", 1_000));
        write!(f, "{}{name}", millis / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read_and_shown_as_people_write_them() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("30d", 2_592_000_000),
            ("0s", 0),
        ] {
            let period: Period = text.parse().expect(text);
            assert_eq!(period.0.as_millis(), millis);
            assert_eq!(period.to_string(), text);
        }
        assert_eq!(
            "90 s".parse::<Period>().expect("a space").to_string(),
            "90s"
        );
        for bad in ["", "30", "s", "-1s", "1.5h", "99999999999999999999d", "1w"] {
            assert!(bad.parse::<Period>().is_err(), "{bad}");
        }
    }
}
