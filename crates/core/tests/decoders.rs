//! The decoders take any bytes and never panic; what they accept is what was written.

mod expected;
mod strategies;

use durable_core::payload::DEPTH_MAX;
use durable_core::{Payload, PayloadError, TraceContext, WorkflowEvent};
use proptest::prelude::*;
use serde_json::value::RawValue;

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(WorkflowEvent::TYPES).prop_map(str::to_owned),
        1 => ".{0,20}",
    ]
}

/// Bytes that look like JSON often enough to get past the first character.
fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        r#"[\[\]{}",:\\utrue nal0-9.eE+-]{0,40}"#.prop_map(String::into_bytes),
        r#""(\\u[dD][89a-fA-F][0-9a-f]{2}|\\[nu"\\/]|[a-zé]){0,6}""#.prop_map(String::into_bytes),
        json().prop_map(String::into_bytes),
    ]
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?(e[+-]?[0-9]{1,3})?",
        any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap()),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| format!("[{}]", v.join(" ,"))),
            prop::collection::vec(inner, 0..4).prop_map(|v| {
                let fields: Vec<_> = v.iter().map(|x| format!("\"k\" : {x}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

/// A golden form with one byte changed: nearly right is where decoders break.
fn nearly_right() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    (
        prop::sample::select(expected::events()),
        any::<prop::sample::Index>(),
        any::<u8>(),
    )
        .prop_map(|(event, at, byte)| {
            let stored = event.encode();
            let mut data = stored.data.to_vec();
            let at = at.index(data.len());
            data[at] = byte;
            (stored.event_type, data)
        })
}

proptest! {
    #[test]
    fn event_decoder_never_panics(name in any_name(), data in any_text(), payload in strategies::payload()) {
        let _ = WorkflowEvent::decode(&name, &data, payload);
    }

    #[test]
    fn event_that_is_nearly_right_is_read_or_refused((name, data) in nearly_right()) {
        if let Ok(event) = WorkflowEvent::decode(name, &data, Payload::ABSENT) {
            prop_assert_eq!(event.event_type(), name);
            let stored = event.encode();
            prop_assert!(WorkflowEvent::decode(name, &stored.data, stored.payload).is_ok());
        }
    }

    /// Whatever can be made can be stored, read back, and stored again as the same bytes.
    #[test]
    fn every_event_survives_its_stored_form(event in strategies::event()) {
        let stored = event.encode();
        let read = WorkflowEvent::decode(stored.event_type, &stored.data, stored.payload.clone());
        prop_assert_eq!(read.unwrap().encode(), stored);
    }

    #[test]
    fn payload_accepts_what_serde_json_reads_and_nothing_else(text in any_text()) {
        let accepted = Payload::from_json_text(text.clone());
        let value = serde_json::from_slice::<serde_json::Value>(&text);
        match &accepted {
            Ok(payload) => {
                prop_assert_eq!(payload.as_bytes(), &text[..]);
                prop_assert!(serde_json::from_slice::<&RawValue>(&text).is_ok());
                // The one thing carried but not readable as a `Value`: a number beyond f64.
                let beyond = value.as_ref().is_err_and(|e| e.to_string().contains("number out of range"));
                prop_assert!(value.is_ok() || beyond, "{value:?}");
            }
            Err(PayloadError::TooDeep) => {
                let opened = text.iter().filter(|b| matches!(b, b'[' | b'{')).count();
                prop_assert!(opened > DEPTH_MAX);
            }
            Err(error) => prop_assert!(value.is_err(), "{error}"),
        }
    }

    #[test]
    fn payload_of_any_stored_bytes_has_a_json_form(bytes in any_text()) {
        let text = serde_json::to_string(&Payload::from_stored(bytes)).unwrap();
        prop_assert!(Payload::from_json_text(text).is_ok());
    }

    #[test]
    fn traceparent_is_refused_or_valid(header in "[0-9a-f]{2}-[0-9a-f]{31,33}-[0-9a-f]{15,17}-[0-9a-f]{1,3}(-.{0,3})?|.{0,60}") {
        if let Ok(context) = header.parse::<TraceContext>() {
            prop_assert_eq!(context.validate(), Ok(()));
            prop_assert_eq!(context.to_string().parse(), Ok(context));
        }
    }
}
