//! Payload codecs on real stores: nothing readable is stored, everything comes back, keys may change.

mod at_rest;
mod confiding;
mod keys;
mod large;
mod raw;
mod search;
mod secretive;

use durable_core::Payload;
use serde_json::{Value, json};

/// What is looked for in the database. In every payload there is one, and nowhere else.
const CANARY: &str = "canary0f0payloads";

/// A payload with the canary in it; `place` says where it was put.
fn canary(place: &str) -> Value {
    json!({ "place": place, "secret": CANARY })
}

fn payload(place: &str) -> Payload {
    Payload::from_value(&canary(place)).expect("it is JSON")
}
