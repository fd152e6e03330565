//! Golden files: `golden/NAME.json` holds events of that kind in their stored form, as first written.
//!
//! They are read and never written: a stored form that cannot be read any more breaks every history there is. A new
//! variant, or a new optional field, gets a new case; the cases that are there stay as they are. Where an event is written in fewer words today,
//! `written` has them, and both are read.

mod expected;

use std::collections::BTreeMap;
use std::path::Path;

use durable_core::{Payload, StoredEvent, WorkflowEvent};
use serde::Deserialize;

/// A stored event. Its bytes are given as text, since all of them are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    data: String,
    #[serde(default)]
    written: Option<String>,
    payload: Option<String>,
}

fn golden_files() -> BTreeMap<String, Vec<Golden>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let cases = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            (name, cases)
        })
        .collect()
}

#[test]
fn every_kind_of_event_has_a_golden_file_and_no_file_is_stray() {
    let mut names: Vec<String> = WorkflowEvent::TYPES
        .iter()
        .map(ToString::to_string)
        .collect();
    names.sort();
    let files: Vec<String> = golden_files().into_keys().collect();
    assert_eq!(files, names);
}

#[test]
fn golden_forms_are_read_and_written_byte_for_byte() {
    let mut expected: BTreeMap<&str, Vec<WorkflowEvent>> = BTreeMap::new();
    for event in expected::events() {
        expected.entry(event.event_type()).or_default().push(event);
    }
    for (name, cases) in golden_files() {
        let events = expected.remove(name.as_str()).unwrap_or_default();
        assert_eq!(cases.len(), events.len(), "{name}: cases");
        for (case, event) in cases.into_iter().zip(events) {
            let payload = Payload::from_stored(case.payload.unwrap_or_default().into_bytes());
            let written = case.written.unwrap_or_else(|| case.data.clone());
            for data in [&case.data, &written] {
                let read = WorkflowEvent::decode(&name, data.as_bytes(), payload.clone());
                assert_eq!(read.as_ref(), Ok(&event), "{name}: read");
            }
            let stored = StoredEvent {
                event_type: event.event_type(),
                data: written.into(),
                payload,
            };
            assert_eq!(event.encode(), stored, "{name}: written");
        }
    }
}

/// A later release adds fields; this one must pass over them.
#[test]
fn fields_of_a_later_release_are_passed_over() {
    let data = br#"{"timer_id":"t","colour":"red"}"#;
    let read = WorkflowEvent::decode("timer.fired", data, Payload::ABSENT).unwrap();
    assert_eq!(
        read,
        WorkflowEvent::TimerFired {
            timer_id: "t".into()
        }
    );
}
