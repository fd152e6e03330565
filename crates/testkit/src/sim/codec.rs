//! The codec of the seeds that have one: every output differs, half of the actors write with the key that is being replaced, and
//! in a storm the keys cannot always be reached.

use std::sync::Arc;

use async_trait::async_trait;
use durable_core::Payload;
use everruns_durable::codec::{CodecError, CodecStore, PayloadCodec, envelope};
use everruns_durable::persistence::WorkflowEventStore;
use parking_lot::Mutex;

use super::tally::Happening;
use super::world::World;
use crate::differential::Random;

/// Both keys by name: everybody can read with both.
const KEYS: [(&str, u64); 2] = [
    ("sim-old", 0x0dd0_15ea_5e0f_c0de),
    ("sim-new", 0x00ab_1e0b_5cab_1e05),
];
/// In a storm of errors, one call in so many does not reach the keys.
const UNREACHABLE_ONE_IN: u64 = 150;

/// The store as actors see it: behind a codec of their own, if the seed has one.
pub(super) fn over(
    store: Arc<dyn WorkflowEventStore>,
    world: &Arc<World>,
    seed: u64,
) -> Arc<dyn WorkflowEventStore> {
    let world = Some(Arc::clone(world)).filter(|world| world.extras.codec);
    match world {
        Some(world) => Arc::new(CodecStore::new(store, SimCodec::new(seed, Some(world)))),
        None => store,
    }
}

/// The store as the checks see it: everything can be read, always.
pub(super) fn reading(
    store: Arc<dyn WorkflowEventStore>,
    world: &World,
) -> Arc<dyn WorkflowEventStore> {
    if world.extras.codec {
        Arc::new(CodecStore::new(store, SimCodec::new(0, None)))
    } else {
        store
    }
}

struct SimCodec {
    /// The place of the key that it writes with.
    writes_with: usize,
    dice: Mutex<Random>,
    /// Where its calls may fail, if they may.
    weather: Option<Arc<World>>,
}

impl SimCodec {
    fn new(seed: u64, weather: Option<Arc<World>>) -> Arc<Self> {
        let mut dice = Random::new(seed ^ 0xc0dec);
        Arc::new(Self {
            writes_with: dice.index(KEYS.len()),
            dice: Mutex::new(dice),
            weather,
        })
    }

    fn reach_keys(&self) -> Result<(), CodecError> {
        let Some(world) = &self.weather else {
            return Ok(());
        };
        let fails = world.climate.fails() && !world.is_calm();
        if fails && self.dice.lock().one_in(UNREACHABLE_ONE_IN) {
            world.count(Happening::KeysUnreachable, 1);
            let source = "the connection was lost on purpose";
            return Err(CodecError::unavailable(
                "the keys cannot be reached",
                source,
            ));
        }
        Ok(())
    }
}

/// The same again undoes it. No cipher: it only has to hide text from a reader who does not know it.
fn masked(bytes: &[u8], key: u64, nonce: u64) -> Vec<u8> {
    let mut stream = Random::new(key ^ nonce);
    let mask = |byte: &u8| byte ^ stream.bits().to_le_bytes()[0];
    bytes.iter().map(mask).collect()
}

#[async_trait]
impl PayloadCodec for SimCodec {
    fn name(&self) -> String {
        "sim".to_owned()
    }

    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError> {
        self.reach_keys()?;
        let (name, key) = KEYS[self.writes_with];
        let nonce = self.dice.lock().bits();
        let mut body = nonce.to_le_bytes().to_vec();
        body.extend(masked(payload.as_bytes(), key, nonce));
        envelope::seal(name, &body)
    }

    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError> {
        self.reach_keys()?;
        let damaged = |what: &str| CodecError::Damaged(what.to_owned());
        for (name, key) in KEYS {
            let Some(body) = envelope::open(name, &payload) else {
                continue;
            };
            let (nonce, rest) = body
                .split_first_chunk()
                .ok_or_else(|| damaged("no nonce"))?;
            let plain = masked(rest, key, u64::from_le_bytes(*nonce));
            return Payload::from_json_text(plain).map_err(|error| damaged(&error.to_string()));
        }
        Ok(payload)
    }

    fn fingerprints(&self, plain: i64) -> Vec<i64> {
        let hidden = |(_, key): (&str, u64)| plain ^ key.cast_signed();
        let other = 1 - self.writes_with;
        vec![hidden(KEYS[self.writes_with]), hidden(KEYS[other])]
    }
}
