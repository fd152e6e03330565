//! Search attributes: typed, exact, set by starts and turns.

use std::collections::BTreeMap;

use durable_core::{AttributeValue, Timestamp};
use everruns_durable::persistence::model::{Attributes, RunFilter};
use uuid::Uuid;

use super::lists::all;
use crate::World;

claims! { "attributes":
    attribute_filters_compare_type_and_value,
    attributes_are_kept_exactly,
    turns_set_replace_and_remove_attributes,
}

async fn start_tagged(w: &World, value: AttributeValue) -> Uuid {
    let mut start = w.new_start();
    start.attributes.insert("tag".into(), value);
    w.start_one(start).await
}

fn kinds_of_values() -> Vec<AttributeValue> {
    let instant = Timestamp::from_microsecond(1_800_000_000_123_456).expect("an instant");
    vec![
        AttributeValue::Text("1".into()),
        AttributeValue::Int(1),
        AttributeValue::Double(1.0),
        AttributeValue::Bool(true),
        AttributeValue::Text("true".into()),
        AttributeValue::Text(String::new()),
        AttributeValue::Text(instant.to_string()),
        AttributeValue::Time(instant),
        AttributeValue::Int(instant.as_microsecond()),
        AttributeValue::Int(0),
        AttributeValue::Bool(false),
        AttributeValue::Int(9_007_199_254_740_993),
        AttributeValue::Double(9_007_199_254_740_992.0),
        AttributeValue::Int(i64::MIN),
        AttributeValue::Int(i64::MAX),
        AttributeValue::Double(1e-300),
        AttributeValue::Double(f64::MAX),
        AttributeValue::Double(0.1),
        AttributeValue::Text("ä".into()),
        AttributeValue::Text("a\u{308}".into()),
        AttributeValue::Text(" x ".into()),
        AttributeValue::Text("x".into()),
        AttributeValue::Text("X".into()),
        AttributeValue::Text("%".into()),
        AttributeValue::Text("é".repeat(512)),
        AttributeValue::Time(Timestamp::UNIX_EPOCH),
    ]
}

async fn attribute_filters_compare_type_and_value(w: &World) {
    let mut runs = Vec::new();
    for value in kinds_of_values() {
        runs.push((value.clone(), start_tagged(w, value).await));
    }
    for (value, run_id) in runs {
        let filter = RunFilter {
            attributes: Attributes::from([("tag".to_owned(), value.clone())]),
            ..RunFilter::default()
        };
        assert_eq!(all(w, &filter).await, [run_id], "{value:?}");
        let other_name = RunFilter {
            attributes: Attributes::from([("Tag".to_owned(), value)]),
            ..RunFilter::default()
        };
        assert_eq!(all(w, &other_name).await, Vec::<Uuid>::new());
    }
}

async fn attributes_are_kept_exactly(w: &World) {
    let mut start = w.new_start();
    for (i, value) in kinds_of_values().into_iter().enumerate() {
        start.attributes.insert(format!("attribute {i}"), value);
    }
    let expected = start.attributes.clone();
    let run_id = w.start_one(start).await;
    let kept = w.store.get_attributes(run_id).await;
    assert_eq!(kept.expect("get_attributes"), expected);
    assert_eq!(w.dump(run_id).await.attributes, expected);
}

async fn turns_set_replace_and_remove_attributes(w: &World) {
    let text = |text: &str| AttributeValue::Text(text.into());
    let mut start = w.new_start();
    for name in ["kept", "replaced", "removed"] {
        start.attributes.insert(name.into(), text("old"));
    }
    let run_id = w.start_one(start).await;
    let mut turn = w.turn(run_id).await;
    turn.attributes = BTreeMap::from([
        ("replaced".into(), Some(AttributeValue::Int(1))),
        ("removed".into(), None),
        ("never there".into(), None),
        ("set".into(), Some(text("new"))),
    ]);
    w.committed(turn).await;
    let expected = Attributes::from([
        ("kept".into(), text("old")),
        ("replaced".into(), AttributeValue::Int(1)),
        ("set".into(), text("new")),
    ]);
    let kept = w.store.get_attributes(run_id).await;
    assert_eq!(kept.expect("get_attributes"), expected);
    for (name, value, found) in [
        ("replaced", text("old"), 0),
        ("replaced", AttributeValue::Int(1), 1),
        ("removed", text("old"), 0),
    ] {
        let filter = RunFilter {
            attributes: Attributes::from([(name.to_owned(), value)]),
            ..RunFilter::default()
        };
        assert_eq!(all(w, &filter).await.len(), found, "{name}");
    }
    let mut refused = w.turn(run_id).await;
    refused.expected_sequence = 7;
    refused.attributes = BTreeMap::from([("kept".into(), None)]);
    w.rejected(refused).await;
    assert_eq!(w.dump(run_id).await.attributes, expected);
}
