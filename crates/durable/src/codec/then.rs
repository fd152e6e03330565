//! One codec after another.

use async_trait::async_trait;
use durable_core::Payload;

use super::{CodecError, PayloadCodec};

/// Encodes with the first, then with the second; decodes the other way round.
///
/// Either may be added to a database that has payloads of the other alone: each leaves alone what it has not made.
#[derive(Debug, Clone)]
pub struct Then<A, B> {
    first: A,
    second: B,
}

impl<A, B> Then<A, B> {
    pub(super) const fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

#[async_trait]
impl<A: PayloadCodec, B: PayloadCodec> PayloadCodec for Then<A, B> {
    fn name(&self) -> String {
        format!("{}, {}", self.first.name(), self.second.name())
    }

    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError> {
        self.second.encode(self.first.encode(payload).await?).await
    }

    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError> {
        self.first.decode(self.second.decode(payload).await?).await
    }

    fn fingerprints(&self, plain: i64) -> Vec<i64> {
        let first = self.first.fingerprints(plain).into_iter();
        first
            .flat_map(|form| self.second.fingerprints(form))
            .collect()
    }
}
