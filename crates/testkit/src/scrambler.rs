//! A codec for tests: what it makes is not the same twice, and not what it was given.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use durable_core::Payload;
use everruns_durable::codec::{CodecError, PayloadCodec, envelope};

const NAME: &str = "scrambled";

/// Numbers each payload and turns its bytes around by the number.
#[derive(Debug, Default)]
pub struct Scrambler(AtomicU64);

fn turned(bytes: &[u8], number: [u8; 8]) -> impl Iterator<Item = u8> {
    let turns = number.into_iter().cycle();
    bytes
        .iter()
        .zip(turns)
        .map(|(byte, turn)| byte ^ turn ^ 0xa5)
}

#[async_trait]
impl PayloadCodec for Scrambler {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError> {
        let number = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let mut body = number.to_vec();
        body.extend(turned(payload.as_bytes(), number));
        envelope::seal(NAME, &body)
    }

    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError> {
        let Some(body) = envelope::open(NAME, &payload) else {
            return Ok(payload);
        };
        let (number, bytes) = body
            .split_first_chunk()
            .ok_or_else(|| CodecError::Damaged("it is cut off".to_owned()))?;
        let plain: Vec<u8> = turned(bytes, *number).collect();
        Ok(Payload::from_stored(plain))
    }
}
