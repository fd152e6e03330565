//! Search attributes: typed, exact, set by starts and turns.

use std::collections::BTreeMap;

use durable_core::{AttributeValue, Timestamp};
use everruns_durable::persistence::limits::ATTRIBUTES_MAX;
use everruns_durable::persistence::model::{Attributes, Rejection, RunFilter, TurnOutcome};
use uuid::Uuid;

use super::lists::all;
use crate::World;

claims! { "attributes":
    attribute_filters_compare_type_and_value,
    attributes_are_kept_exactly,
    turns_set_replace_and_remove_attributes,
    a_turn_that_takes_its_run_over_the_attribute_limit_is_refused_alone,
    attributes_of_a_start_and_its_first_turn_count_together,
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

/// So many attributes, of names that begin alike.
fn numbered(kind: &str, count: usize) -> Attributes {
    let numbers = 0..count;
    numbers
        .map(|i| (format!("{kind}{i}"), AttributeValue::Int(1)))
        .collect()
}

async fn a_turn_that_takes_its_run_over_the_attribute_limit_is_refused_alone(w: &World) {
    let mut start = w.new_start();
    start.attributes = numbered("given ", ATTRIBUTES_MAX);
    let mut expected = start.attributes.clone();
    let full = w.start_one(start).await;
    let other = w.start_one(w.new_start()).await;
    let one = |name: &str| (name.to_owned(), Some(AttributeValue::Int(2)));

    let mut over = w.turn(full).await;
    over.attributes = BTreeMap::from([one("one more")]);
    let mut fits = w.turn(other).await;
    fits.attributes = over.attributes.clone();
    let set = vec![over, fits];
    let outcomes = w.store.commit_turns(set, w.now()).await;
    let outcomes = outcomes.expect("the set is not refused");
    let found = ATTRIBUTES_MAX + 1;
    let refused = TurnOutcome::Rejected(Rejection::Attributes { found });
    assert_eq!(outcomes[0], refused);
    let committed = matches!(outcomes[1], TurnOutcome::Committed(_));
    assert!(committed, "the other turn goes on: {:?}", outcomes[1]);
    assert_eq!(w.dump(full).await.attributes, expected);
    let kept = w.dump(other).await.attributes;
    assert_eq!(kept.into_keys().collect::<Vec<_>>(), ["one more"]);

    let mut overwrites = w.turn(full).await;
    overwrites.attributes = BTreeMap::from([one("given 7")]);
    w.committed(overwrites).await;
    expected.insert("given 7".into(), AttributeValue::Int(2));
    assert_eq!(w.dump(full).await.attributes, expected);

    let mut swaps = w.turn(full).await;
    swaps.attributes = BTreeMap::from([one("one more"), ("given 0".into(), None)]);
    w.committed(swaps).await;
    expected.remove("given 0");
    expected.insert("one more".into(), AttributeValue::Int(2));
    assert_eq!(w.dump(full).await.attributes, expected);

    let mut over = w.turn(full).await;
    over.attributes = BTreeMap::from([
        one("again"),
        one("and again"),
        one("given 1"),
        ("given 2".into(), None),
        ("never there".into(), None),
    ]);
    assert_eq!(w.rejected(over).await, Rejection::Attributes { found });

    // All of them leave in the turn that sets as many others.
    let mut replaces = w.turn(full).await;
    let leave = expected.into_keys().map(|name| (name, None));
    let come = numbered("new ", ATTRIBUTES_MAX);
    replaces.attributes = leave.collect();
    let set = come.clone().into_iter();
    replaces
        .attributes
        .extend(set.map(|(name, value)| (name, Some(value))));
    w.committed(replaces).await;
    assert_eq!(w.dump(full).await.attributes, come);
}

async fn attributes_of_a_start_and_its_first_turn_count_together(w: &World) {
    if !w.store.starts_with_turns() {
        return;
    }
    for given in [ATTRIBUTES_MAX - 1, ATTRIBUTES_MAX] {
        let mut start = w.new_start();
        start.attributes = numbered("given ", given);
        let run_id = start.run_id;
        let mut turn = w.turn_of_new(&start);
        turn.start = Some(Box::new(start));
        turn.attributes = BTreeMap::from([("set".to_owned(), Some(AttributeValue::Int(2)))]);
        if given < ATTRIBUTES_MAX {
            w.committed(turn).await;
        } else {
            let found = ATTRIBUTES_MAX + 1;
            assert_eq!(w.rejected(turn).await, Rejection::Attributes { found });
        }
        assert_eq!(w.dump(run_id).await.attributes.len(), ATTRIBUTES_MAX);
    }
}
