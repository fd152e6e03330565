//! Cron against tables, and against an oracle that walks minute by minute.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::civil::DateTime;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The ticks after an instant, at most so many, as text.
fn ticks(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(cron, zone).unwrap();
    let mut instant = at(after);
    let mut ticks = Vec::new();
    while ticks.len() < count
        && let Some(next) = cron.next_after(instant)
    {
        assert!(next > instant, "ticks go forward");
        ticks.push(next.to_string());
        instant = next;
    }
    ticks
}

#[test]
fn expressions_fire_when_they_say() {
    let table: &[(&str, &str, &str, &[&str])] = &[
        (
            "* * * * *",
            "UTC",
            "2026-01-01T00:00:30Z",
            &["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"],
        ),
        (
            "*/20 * * * *",
            "UTC",
            "2026-01-01T00:00:00Z",
            &[
                "2026-01-01T00:20:00Z",
                "2026-01-01T00:40:00Z",
                "2026-01-01T01:00:00Z",
            ],
        ),
        (
            "0 9 * * mon-fri",
            "Europe/Berlin",
            "2026-01-02T08:00:00Z",
            &["2026-01-05T08:00:00Z", "2026-01-06T08:00:00Z"],
        ),
        (
            "0 9 * * MON-FRI",
            "America/New_York",
            "2026-07-03T00:00:00Z",
            &["2026-07-03T13:00:00Z", "2026-07-06T13:00:00Z"],
        ),
        (
            "5,35 1-3/2 * * *",
            "UTC",
            "2026-01-01T00:00:00Z",
            &[
                "2026-01-01T01:05:00Z",
                "2026-01-01T01:35:00Z",
                "2026-01-01T03:05:00Z",
            ],
        ),
        (
            "0 0 * * 0",
            "UTC",
            "2026-01-01T00:00:00Z",
            &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"],
        ),
        (
            "0 0 * * 7",
            "UTC",
            "2026-01-01T00:00:00Z",
            &["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"],
        ),
        (
            "0 0 * * 5-7",
            "UTC",
            "2026-01-01T00:00:00Z",
            &[
                "2026-01-02T00:00:00Z",
                "2026-01-03T00:00:00Z",
                "2026-01-04T00:00:00Z",
            ],
        ),
        (
            "0 0 31 * *",
            "UTC",
            "2026-01-31T00:00:00Z",
            &["2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"],
        ),
        (
            "0 0 29 2 *",
            "UTC",
            "2026-01-01T00:00:00Z",
            &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"],
        ),
        (
            "0 0 29 feb *",
            "UTC",
            "2096-03-01T00:00:00Z",
            &["2104-02-29T00:00:00Z"],
        ),
        (
            "59 23 31 12 *",
            "Asia/Kolkata",
            "2026-01-01T00:00:00Z",
            &["2026-12-31T18:29:00Z"],
        ),
        (
            "30 12 * jan,jul *",
            "Asia/Kathmandu",
            "2026-01-31T12:00:00Z",
            &["2026-07-01T06:45:00Z"],
        ),
    ];
    for (cron, zone, after, expected) in table {
        assert_eq!(
            ticks(cron, zone, after, expected.len()),
            *expected,
            "{cron} in {zone} after {after}"
        );
    }
}

#[test]
fn both_day_fields_restricted_match_either() {
    let either = ticks("0 0 13 * fri", "UTC", "2026-02-01T00:00:00Z", 3);
    assert_eq!(
        either,
        [
            "2026-02-06T00:00:00Z",
            "2026-02-13T00:00:00Z",
            "2026-02-20T00:00:00Z"
        ]
    );
    let thirteenth = ticks("0 0 13 * fri", "UTC", "2026-05-09T00:00:00Z", 1);
    assert_eq!(thirteenth, ["2026-05-13T00:00:00Z"], "a Wednesday");
}

#[test]
fn a_day_field_that_begins_with_a_star_restricts_the_other() {
    // Odd days that are Mondays: the 5th and the 19th.
    let both = ticks("0 0 */2 * mon", "UTC", "2026-01-01T00:00:00Z", 2);
    assert_eq!(both, ["2026-01-05T00:00:00Z", "2026-01-19T00:00:00Z"]);
}

#[test]
fn a_tick_in_a_gap_fires_once_when_the_gap_ends() {
    let berlin = ticks("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3);
    assert_eq!(
        berlin,
        [
            "2026-03-28T01:30:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-30T00:30:00Z"
        ]
    );
    let new_york = ticks("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 2);
    assert_eq!(new_york, ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]);
    // Several in the gap, and one at its end: once.
    let quarters = ticks("*/15 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", 3);
    assert_eq!(
        quarters,
        [
            "2026-03-29T00:45:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-29T01:15:00Z"
        ]
    );
    // A gap of half an hour.
    let howe = ticks(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T00:00:00Z",
        1,
    );
    assert_eq!(howe, ["2026-10-03T15:30:00Z"]);
}

#[test]
fn a_day_that_does_not_exist_fires_when_the_next_one_begins() {
    // Samoa went from the 29th to the 31st of December 2011.
    let apia = ticks("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 2);
    assert_eq!(apia, ["2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"]);
}

#[test]
fn a_tick_that_comes_twice_fires_the_first_time_only() {
    let berlin = ticks("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(berlin, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    let new_york = ticks("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2);
    assert_eq!(new_york, ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
    // From within the second time: what it repeats is over.
    let between = ticks("*/30 * * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
    assert_eq!(between, ["2026-10-25T02:00:00Z"]);
}

#[test]
fn an_expression_that_never_fires_ends() {
    for cron in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *"] {
        assert_eq!(
            ticks(cron, "Europe/Berlin", "2026-01-01T00:00:00Z", 1),
            [""; 0],
            "{cron}"
        );
    }
}

#[test]
fn what_is_wrong_is_named() {
    let table = [
        ("* * * *", "UTC", "has 4 fields"),
        ("* * * * * *", "UTC", "has 6 fields"),
        ("", "UTC", "has 0 fields"),
        ("@daily", "UTC", "has 1 fields"),
        ("60 * * * *", "UTC", "minute \"60\""),
        ("* 24 * * *", "UTC", "hour \"24\""),
        ("* * 0 * *", "UTC", "day of month \"0\""),
        ("* * * 13 *", "UTC", "month \"13\""),
        ("* * * * 8", "UTC", "day of week \"8\""),
        ("*/0 * * * *", "UTC", "minute \"*/0\""),
        ("5-1 * * * *", "UTC", "minute \"5-1\""),
        ("1,,2 * * * *", "UTC", "minute \"1,,2\""),
        ("jan * * * *", "UTC", "minute \"jan\""),
        ("* * L * *", "UTC", "day of month \"L\""),
        ("* * 15W * *", "UTC", "day of month \"15W\""),
        ("* * * * fri#2", "UTC", "day of week \"fri#2\""),
        ("* * * 1jan *", "UTC", "month \"1jan\""),
        ("* * * * sunday", "UTC", "day of week \"sunday\""),
        (
            "* * * * *",
            "Europe/Nowhere",
            "no time zone \"Europe/Nowhere\"",
        ),
        ("* * * * *", "", "no time zone \"\""),
    ];
    for (cron, zone, says) in table {
        let error = Cron::parse(cron, zone).unwrap_err().to_string();
        assert!(error.contains(says), "{cron:?} in {zone:?}: {error}");
    }
}

/// A field as the generator thinks of it, apart from its text.
struct Drawn {
    text: String,
    values: BTreeSet<u32>,
    star: bool,
}

fn draw(rng: &mut fastrand::Rng, min: u32, max: u32) -> Drawn {
    if rng.u8(0..3) == 0 {
        let values = (min..=max).collect();
        return Drawn {
            text: "*".to_owned(),
            values,
            star: true,
        };
    }
    let (mut texts, mut values) = (Vec::new(), BTreeSet::new());
    for _ in 0..rng.usize(1..=3) {
        let low = rng.u32(min..=max);
        let high = rng.u32(low..=max);
        let step = rng.u32(1..=max);
        let (text, from, to, by) = match rng.u8(0..4) {
            0 => (low.to_string(), low, low, 1),
            1 => (format!("{low}-{high}"), low, high, 1),
            2 => (format!("{low}-{high}/{step}"), low, high, step),
            _ => (format!("*/{step}"), min, max, step),
        };
        texts.push(text);
        values.extend((from..=to).step_by(by as usize));
    }
    let star = texts[0].starts_with('*');
    Drawn {
        text: texts.join(","),
        values,
        star,
    }
}

struct Oracle {
    text: String,
    fields: [Drawn; 5],
}

impl Oracle {
    fn draw(rng: &mut fastrand::Rng) -> Self {
        let fields =
            [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)].map(|(min, max)| draw(rng, min, max));
        let text = fields
            .iter()
            .map(|field| field.text.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        Self { text, fields }
    }

    fn matches(&self, wall: DateTime) -> bool {
        let [minute, hour, day, month, weekday] = &self.fields;
        let has = |field: &Drawn, value: i8| field.values.contains(&u32::try_from(value).unwrap());
        let sunday_zero = wall.weekday().to_sunday_zero_offset();
        let on_weekday = has(weekday, sunday_zero) || (sunday_zero == 0 && has(weekday, 7));
        let on_day = if day.star || weekday.star {
            has(day, wall.day()) && on_weekday
        } else {
            has(day, wall.day()) || on_weekday
        };
        has(minute, wall.minute()) && has(hour, wall.hour()) && has(month, wall.month()) && on_day
    }

    /// The ticks in a stretch, found by looking at the clock on the wall every minute.
    fn ticks(&self, zone: &TimeZone, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        let mut shown = zone.to_datetime(from);
        let mut ticks = Vec::new();
        let mut instant = from;
        while instant < to {
            instant = instant.checked_add(MINUTE).unwrap();
            let wall = zone.to_datetime(instant);
            // Every time that came up on the wall or was jumped over, for the first time.
            let mut fires = false;
            while shown < wall {
                shown = shown.checked_add(MINUTE).unwrap();
                fires |= self.matches(shown);
            }
            if fires {
                ticks.push(instant);
            }
        }
        ticks
    }
}

#[test]
fn random_expressions_agree_with_a_clock_read_every_minute() {
    let mut rng = fastrand::Rng::with_seed(20_261_115);
    let zones = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
    ];
    let starts = [
        "2026-03-01T00:00:00Z",
        "2026-10-10T00:00:00Z",
        "2028-02-10T00:00:00Z",
    ];
    let mut fired = 0;
    for _ in 0..60 {
        let oracle = Oracle::draw(&mut rng);
        let name = zones[rng.usize(0..zones.len())];
        let from = at(starts[rng.usize(0..starts.len())]);
        let to = from.checked_add(MINUTE * 60 * 24 * 31).unwrap();
        let cron = Cron::parse(&oracle.text, name).unwrap();
        let mut ticks = Vec::new();
        let mut instant = from;
        while let Some(next) = cron.next_after(instant).filter(|next| *next <= to) {
            assert!(next > instant);
            ticks.push(next);
            instant = next;
        }
        let zone = TimeZone::get(name).unwrap();
        let expected = oracle.ticks(&zone, from, to);
        assert_eq!(ticks, expected, "{} in {name} from {from}", oracle.text);
        fired += expected.len();
    }
    assert!(fired > 500, "the expressions fire: {fired}");
}
