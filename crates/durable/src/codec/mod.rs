//! Codecs: what happens to a payload between the program and the database.
//!
//! A [`PayloadCodec`] compresses, encrypts or offloads; [`CodecStore`] applies one to every payload that a store is handed
//! and undoes it in every answer. Engines and clients above it see plain JSON, the database below it never does.
//! [`EngineBuilder::codec`](crate::engine::EngineBuilder::codec) and
//! [`OpenOptions::codec`](crate::persistence::OpenOptions::codec) set one.
//!
//! Encoded bytes are told from plain JSON by their first byte ([`durable_core::payload::CODEC_MARK`]) and from other codecs'
//! by the name that follows it ([`envelope`]). So a database may hold both: what was stored before a codec was set is
//! read as it is.

#[cfg(feature = "aes-gcm")]
mod aes_gcm;
pub mod envelope;
pub(crate) mod payloads;
mod store;
mod then;
#[cfg(feature = "zstd")]
mod zstd;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use durable_core::Payload;

#[cfg(feature = "aes-gcm")]
pub use self::aes_gcm::AesGcmCodec;
pub use self::store::CodecStore;
#[cfg(feature = "postgres")]
pub(crate) use self::store::{encoded, known_as};
pub use self::then::Then;
#[cfg(feature = "zstd")]
pub use self::zstd::ZstdCodec;

/// Turns payloads into what is stored, and back.
///
/// It is never given the payload that is not there ([`Payload::ABSENT`]), nor to encode what is encoded already.
#[async_trait]
pub trait PayloadCodec: Send + Sync + 'static {
    /// What it is and what it can read, such as the ids of its keys. A run that was blocked for want of a key is tried
    /// again by an engine whose codec has another name.
    fn name(&self) -> String;

    /// What is stored for a payload: the output of [`envelope::seal`], or the payload itself where there is nothing to do.
    ///
    /// # Errors
    /// [`CodecError`]; nothing is written then.
    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError>;

    /// The payload again. What this codec has not made, plain JSON or another codec's output, it gives back as it is.
    ///
    /// # Errors
    /// [`CodecError`]; what is stored stays as it is.
    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError>;

    /// The numbers that may stand for a start in the database, the one to write first. A start's fingerprint tells a
    /// repeated start from another one; it is a hash of the input, by which an input could be guessed, so a codec that
    /// encrypts hides it: with its current key first, then with each older one.
    fn fingerprints(&self, plain: i64) -> Vec<i64> {
        vec![plain]
    }

    /// This codec first, then another on what it made: `ZstdCodec::default().then(encryption)`.
    fn then<C: PayloadCodec>(self, next: C) -> Then<Self, C>
    where
        Self: Sized,
    {
        Then::new(self, next)
    }
}

/// Why a payload could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The key it was encrypted with is not among those at hand.
    #[error("it was encrypted with key {0:?}, which is not in the key ring")]
    UnknownKey(String),
    /// The bytes are not what was stored, or were made with another key of the same id.
    #[error("its bytes are damaged or were changed: {0}")]
    Damaged(String),
    /// It is larger than the codec takes or gives back.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// Most bytes.
        limit: usize,
    },
    /// Something the codec needs cannot be reached; it may go better later.
    #[error("{message}")]
    Unavailable {
        /// What was tried.
        message: String,
        /// What went wrong.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The codec cannot be set up, or cannot do it for a reason of its own.
    #[error("{0}")]
    Failed(String),
}

impl CodecError {
    /// Whether the same may succeed later without any change.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Something that cannot be reached for now.
    pub fn unavailable(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable {
            message: message.into(),
            source: Some(source.into()),
        }
    }
}

impl fmt::Debug for dyn PayloadCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// One codec for an engine and its clients.
#[async_trait]
impl<C: PayloadCodec + ?Sized> PayloadCodec for Arc<C> {
    fn name(&self) -> String {
        (**self).name()
    }

    async fn encode(&self, payload: Payload) -> Result<Payload, CodecError> {
        (**self).encode(payload).await
    }

    async fn decode(&self, payload: Payload) -> Result<Payload, CodecError> {
        (**self).decode(payload).await
    }

    fn fingerprints(&self, plain: i64) -> Vec<i64> {
        (**self).fingerprints(plain)
    }
}
