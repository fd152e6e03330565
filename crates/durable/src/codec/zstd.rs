//! Compression.

use std::io::Read;

use async_trait::async_trait;
use durable_core::Payload;

use super::{CodecError, PayloadCodec, envelope};

/// Name in the stored form.
const NAME: &str = "zstd";
/// Payloads below this are not worth a frame's header.
const THRESHOLD_BYTES: usize = 1024;
/// Largest payload that is taken, and given back, unless told otherwise.
const PLAIN_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The library's own default: a good part of the gain at a small part of the cost.
const LEVEL: i32 = 3;

/// Compresses payloads with Zstandard.
///
/// The store's limit on payloads holds for what is stored, so that a larger payload fits if it is compressed well enough.
#[derive(Debug, Clone)]
pub struct ZstdCodec {
    threshold_bytes: usize,
    plain_bytes_max: usize,
    level: i32,
}

impl Default for ZstdCodec {
    fn default() -> Self {
        Self {
            threshold_bytes: THRESHOLD_BYTES,
            plain_bytes_max: PLAIN_BYTES_MAX,
            level: LEVEL,
        }
    }
}

impl ZstdCodec {
    /// Payloads smaller than this many bytes are left as they are; 1024 by default.
    #[must_use]
    pub const fn threshold_bytes(mut self, threshold: usize) -> Self {
        self.threshold_bytes = threshold;
        self
    }

    /// Largest payload, 64 MiB by default: larger ones are not encoded, and bytes that grow past it are not decoded. A few
    /// bytes can be made to grow into gigabytes; this is what stops them.
    #[must_use]
    pub const fn plain_bytes_max(mut self, max: usize) -> Self {
        self.plain_bytes_max = max;
        self
    }

    /// How hard it tries, 1 to 22; 3 by default.
    #[must_use]
    pub const fn level(mut self, level: i32) -> Self {
        self.level = level;
        self
    }

    fn grown(&self, body: &[u8]) -> Result<Vec<u8>, CodecError> {
        let damaged = |error: std::io::Error| CodecError::Damaged(error.to_string());
        let limit = self.plain_bytes_max;
        let one_too_many = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(damaged)?;
        let mut plain = Vec::new();
        let read = decoder.take(one_too_many).read_to_end(&mut plain);
        match read.map_err(damaged)? {
            bytes if bytes > limit => Err(CodecError::TooLarge { limit }),
            _ => Ok(plain),
        }
    }
}

#[async_trait]
impl PayloadCodec for ZstdCodec {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError> {
        if payload.len() < self.threshold_bytes {
            return Ok(payload);
        }
        if payload.len() > self.plain_bytes_max {
            let limit = self.plain_bytes_max;
            return Err(CodecError::TooLarge { limit });
        }
        let body = zstd::bulk::compress(payload.as_bytes(), self.level)
            .map_err(|error| CodecError::Failed(error.to_string()))?;
        let sealed = envelope::seal(NAME, &body)?;
        Ok(if sealed.len() < payload.len() {
            sealed
        } else {
            payload
        })
    }

    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError> {
        match envelope::open(NAME, &payload) {
            Some(body) => Ok(Payload::from_stored(self.grown(body)?)),
            None => Ok(payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> Payload {
        Payload::from_json_text(format!("\"{}\"", "ab".repeat(bytes / 2))).unwrap()
    }

    #[tokio::test]
    async fn what_is_worth_it_is_compressed_and_comes_back() {
        let codec = ZstdCodec::default();
        let plain = text(100_000);
        let encoded = codec.encode(plain.clone()).await.unwrap();
        assert!(encoded.is_encoded() && encoded.len() < 1_000);
        assert_eq!(codec.decode(encoded).await.unwrap(), plain);
    }

    #[tokio::test]
    async fn small_and_incompressible_payloads_are_left_alone() {
        let small = text(1_000);
        let codec = ZstdCodec::default();
        assert_eq!(codec.encode(small.clone()).await.unwrap(), small);
        assert_eq!(codec.decode(small.clone()).await.unwrap(), small);
        let eager = codec.threshold_bytes(0);
        let dense = Payload::from_json_text("[1,2]").unwrap();
        assert_eq!(eager.encode(dense.clone()).await.unwrap(), dense);
    }

    #[tokio::test]
    async fn what_could_not_be_read_back_is_not_written() {
        let codec = ZstdCodec::default().plain_bytes_max(2_000);
        let error = codec.encode(text(3_000)).await.unwrap_err();
        assert!(matches!(error, CodecError::TooLarge { limit: 2_000 }));
    }

    #[tokio::test]
    async fn bytes_that_grow_past_the_bound_are_refused() {
        let bomb = ZstdCodec::default().encode(text(1_000_000)).await.unwrap();
        let wary = ZstdCodec::default().plain_bytes_max(10_000);
        let error = wary.decode(bomb.clone()).await.unwrap_err();
        assert!(matches!(error, CodecError::TooLarge { limit: 10_000 }));
        let exact = ZstdCodec::default().plain_bytes_max(1_000_002);
        assert!(exact.decode(bomb).await.is_ok());
    }

    #[tokio::test]
    async fn damage_is_told() {
        let encoded = ZstdCodec::default().encode(text(10_000)).await.unwrap();
        let cut = Payload::from_codec(encoded.as_bytes()[..encoded.len() - 4].to_vec()).unwrap();
        let error = ZstdCodec::default().decode(cut).await.unwrap_err();
        assert!(matches!(error, CodecError::Damaged(_)), "{error}");
    }
}
