//! Times as people say them.

use jiff::Timestamp;

/// How long ago an instant was, or how far ahead it is; the text itself where it is no instant.
pub(crate) fn ago(instant: &serde_json::Value) -> String {
    relative(instant, Timestamp::now())
}

/// The same for instants to come.
pub(crate) fn until(instant: &serde_json::Value) -> String {
    ago(instant)
}

fn relative(instant: &serde_json::Value, now: Timestamp) -> String {
    let Some(text) = instant.as_str() else {
        return "-".to_owned();
    };
    let Ok(at) = text.parse::<Timestamp>() else {
        return text.to_owned();
    };
    let millis = now.as_millisecond() - at.as_millisecond();
    let length = length(millis.unsigned_abs());
    if millis >= 0 {
        format!("{length} ago")
    } else {
        format!("in {length}")
    }
}

fn length(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis}ms"),
        1..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instants_are_told_by_their_distance() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().expect("an instant");
        for (at, told) in [
            ("2026-01-01T23:59:59.500Z", "500ms ago"),
            ("2026-01-01T23:58:30Z", "90s ago"),
            ("2026-01-01T23:00:00Z", "60m ago"),
            ("2026-01-01T00:00:00Z", "24h ago"),
            ("2025-12-01T00:00:00Z", "32d ago"),
            ("2026-01-02T00:00:05Z", "in 5s"),
            ("soon", "soon"),
        ] {
            assert_eq!(relative(&json!(at), now), told);
        }
        assert_eq!(relative(&json!(null), now), "-");
    }
}
