//! Cron expressions: five fields, as Vixie's cron reads them, in a time zone.
//!
//! The expression speaks of what the clock on the wall shows. Where that clock is put forward, times are missing; where it is put
//! back, times come twice. The rule: a tick that is missing fires once, when the gap ends; a tick that comes twice fires the first
//! time only. So each wall clock time fires once, and no two ticks fire at the same instant.

use croner::parser::{CronParser, Seconds, Year};
use durable_core::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

/// A cron expression in a time zone.
#[derive(Debug, Clone)]
pub(crate) struct Cron {
    pattern: croner::Cron,
    zone: TimeZone,
}

/// Why a cron expression or its zone cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CronError {
    #[error(
        "cron {text:?} has {found} fields; it takes five: minute, hour, day of month, month, day of week"
    )]
    Fields { text: String, found: usize },
    #[error(
        "cron {text:?}: {field} {value:?} cannot be read ({allowed}, lists, ranges, steps): {why}"
    )]
    Field {
        text: String,
        field: &'static str,
        value: String,
        allowed: &'static str,
        why: String,
    },
    #[error(
        "there is no time zone {zone:?}; it takes an IANA name such as \"Europe/Berlin\" or \"UTC\""
    )]
    Zone { zone: String },
}

/// A field: its name, what it allows, and the names it knows.
struct Field {
    name: &'static str,
    allowed: &'static str,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        allowed: "0-59",
        names: &[],
    },
    Field {
        name: "hour",
        allowed: "0-23",
        names: &[],
    },
    Field {
        name: "day of month",
        allowed: "1-31",
        names: &[],
    },
    Field {
        name: "month",
        allowed: "1-12 or jan-dec",
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    Field {
        name: "day of week",
        allowed: "0-7 or sun-sat, both 0 and 7 are Sunday",
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    },
];

impl Cron {
    /// Reads an expression and a zone.
    pub(crate) fn parse(text: &str, zone: &str) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let Ok(fields) = <[&str; 5]>::try_from(fields.as_slice()) else {
            return Err(CronError::Fields {
                text: text.to_owned(),
                found: fields.len(),
            });
        };
        for (place, field) in FIELDS.iter().enumerate() {
            check_field(text, place, field, fields[place])?;
        }
        // Vixie's rule: a day has to match both fields where one of them begins with a star, else either.
        let both_days = fields[2].starts_with('*') || fields[4].starts_with('*');
        let pattern = parser(both_days).parse(&fields.join(" "));
        let pattern = pattern.map_err(|error| CronError::Field {
            text: text.to_owned(),
            field: "expression",
            value: text.to_owned(),
            allowed: "five fields",
            why: error.to_string(),
        })?;
        let zone = TimeZone::get(zone).map_err(|_| CronError::Zone {
            zone: zone.to_owned(),
        })?;
        Ok(Self { pattern, zone })
    }

    /// The first tick after an instant; none: it never fires again.
    pub(crate) fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let mut wall = self.zone.to_datetime(instant);
        loop {
            // Ends: the search gives up in the year 5000.
            wall = self.pattern.find_next_occurrence(&wall, false).ok()?;
            let at = self.instant_of(wall)?;
            // A wall clock time that comes twice was over the first time.
            if at > instant {
                return Some(at);
            }
        }
    }

    /// When the clock on the wall shows that time: for the first time, or, where it never does, when it has jumped past it.
    fn instant_of(&self, wall: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(wall).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(wall).ok(),
            AmbiguousOffset::Gap { after, .. } => {
                let before_the_jump = after.to_timestamp(wall).ok()?;
                self.zone
                    .following(before_the_jump)
                    .find(|jump| jump.offset() == after)
                    .map(|jump| jump.timestamp())
            }
        }
    }
}

fn parser(both_days: bool) -> CronParser {
    CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .dom_and_dow(both_days)
        .build()
}

/// Refuses what is no Vixie cron, such as the extensions that the parser knows besides, and says which field is wrong.
fn check_field(text: &str, place: usize, field: &Field, value: &str) -> Result<(), CronError> {
    let refuse = |why: String| CronError::Field {
        text: text.to_owned(),
        field: field.name,
        value: value.to_owned(),
        allowed: field.allowed,
        why,
    };
    for part in value.split([',', '-', '/']) {
        let number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let name = field
            .names
            .iter()
            .any(|name| part.eq_ignore_ascii_case(name));
        if !(number || name || part == "*") {
            return Err(refuse(format!("{part:?} is not known here")));
        }
    }
    let mut alone = ["*"; 5];
    alone[place] = value;
    match parser(false).parse(&alone.join(" ")) {
        Ok(_) => Ok(()),
        Err(croner::errors::CronError::ComponentError(why)) => Err(refuse(why)),
        Err(error) => Err(refuse(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
