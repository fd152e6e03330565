//! Rings as texts: short JSON with the sender's name.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use uuid::fmt::Simple;

use crate::persistence::Ring;

/// Longest payload that is sent; the server takes less than 8,000 bytes.
const BYTES_MAX: usize = 7_800;

#[derive(Serialize, Deserialize)]
struct Payload {
    /// Who rings.
    #[serde(rename = "i")]
    from: Simple,
    #[serde(rename = "t", default, skip_serializing_if = "BTreeSet::is_empty")]
    task_types: BTreeSet<String>,
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    ready_runs: Vec<Simple>,
    #[serde(rename = "f", default, skip_serializing_if = "Vec::is_empty")]
    finished_runs: Vec<Simple>,
    #[serde(rename = "m", default, skip_serializing_if = "is_false")]
    messages: bool,
    #[serde(rename = "c", default, skip_serializing_if = "is_false")]
    clocks: bool,
    #[serde(rename = "e", default, skip_serializing_if = "is_false")]
    everything: bool,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The text of a ring; `everything` if its names are too long. The empty ring is a sign of life.
pub(super) fn encode(from: Uuid, ring: Ring) -> String {
    let text = text(from, ring);
    if text.len() <= BYTES_MAX {
        text
    } else {
        self::text(from, Ring::everything())
    }
}

fn text(from: Uuid, ring: Ring) -> String {
    let payload = Payload {
        from: from.simple(),
        task_types: ring.task_types,
        ready_runs: ring.ready_runs.into_iter().map(Uuid::simple).collect(),
        finished_runs: ring.finished_runs.into_iter().map(Uuid::simple).collect(),
        messages: ring.messages,
        clocks: ring.clocks,
        everything: ring.everything,
    };
    serde_json::to_string(&payload).expect("texts and flags are JSON")
}

/// Who rang, and what. None: it cannot be read, which a newer build may have meant for everything.
pub(super) fn decode(text: &str) -> Option<(Uuid, Ring)> {
    let payload: Payload = serde_json::from_str(text).ok()?;
    let ids = |ids: Vec<Simple>| ids.into_iter().map(Simple::into_uuid).collect();
    let ring = Ring {
        task_types: payload.task_types,
        ready_runs: ids(payload.ready_runs),
        finished_runs: ids(payload.finished_runs),
        messages: payload.messages,
        clocks: payload.clocks,
        everything: payload.everything,
    };
    Some((payload.from.into_uuid(), ring))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Uuid = Uuid::from_u128(7);

    fn runs(count: u128) -> Ring {
        Ring {
            ready_runs: (0..count).map(Uuid::from_u128).collect(),
            ..Ring::default()
        }
    }

    #[test]
    fn what_was_rung_is_what_is_read() {
        let named = Ring {
            task_types: ["charge", "a \0 and a \""].map(str::to_owned).into(),
            ready_runs: [Uuid::from_u128(1)].into(),
            finished_runs: [Uuid::from_u128(2), Uuid::from_u128(3)].into(),
            messages: true,
            ..Ring::default()
        };
        let clocks = Ring {
            clocks: true,
            ..Ring::default()
        };
        for ring in [Ring::default(), Ring::everything(), named, clocks] {
            let text = encode(ME, ring.clone());
            assert!(!text.contains('\0'), "PostgreSQL takes no such text");
            assert_eq!(decode(&text), Some((ME, ring)));
        }
    }

    #[test]
    fn names_are_sent_while_they_fit() {
        let (fits, too_much) = (encode(ME, runs(200)), encode(ME, runs(300)));
        assert!(fits.len() <= BYTES_MAX);
        assert_eq!(decode(&fits), Some((ME, runs(200))));
        assert_eq!(decode(&too_much), Some((ME, Ring::everything())));
    }

    #[test]
    fn a_field_of_a_newer_build_is_passed_over_and_nonsense_is_noticed() {
        let newer = format!(r#"{{"i":"{}","r":[],"z":1}}"#, ME.simple());
        assert_eq!(decode(&newer), Some((ME, Ring::default())));
        for nonsense in ["", "{}", "hello", r#"{"i":"x"}"#] {
            assert_eq!(decode(nonsense), None, "{nonsense}");
        }
    }
}
