//! A store whose payloads pass through a codec.
//!
//! What is encoded on the way in and decoded on the way out is said in two tables: [`super::payloads`] has the places
//! in each type, [`contract`] the types of each call.
//!
//! A payload that cannot be decoded is never lost and never takes others with it. A read of one thing fails with
//! [`StoreError::Codec`]; a list or a claim leaves the payload in its stored form, which nobody takes for JSON: the engine
//! blocks such a run and puts such a task back, for a process that has the key. What is encoded already is stored as it is.

mod contract;
mod starts;
mod tasks;
mod transactions;

use std::sync::Arc;

use durable_core::Payload;
use futures_util::stream::{self, TryStreamExt as _};
use tracing::warn;

#[cfg(feature = "postgres")]
pub(crate) use self::starts::known_as;

use super::payloads::HoldsPayloads;
use super::{CodecError, PayloadCodec};
use crate::persistence::{StoreError, StoreResult, WorkflowEventStore};

/// Payloads of one call that are encoded or decoded side by side, for codecs that wait for others.
const SIDE_BY_SIDE: usize = 32;

/// Any store, with a codec between it and its callers. Cheap to clone.
#[derive(Clone)]
pub struct CodecStore {
    inner: Arc<dyn WorkflowEventStore>,
    codec: Arc<dyn PayloadCodec>,
}

impl CodecStore {
    /// Puts a codec over a store. All processes that share the database need one that can decode what the others encode.
    #[must_use]
    pub fn new(inner: Arc<dyn WorkflowEventStore>, codec: Arc<dyn PayloadCodec>) -> Self {
        Self { inner, codec }
    }

    /// All payloads of a request, encoded.
    async fn encoded<T: HoldsPayloads>(&self, value: T) -> StoreResult<T> {
        encoded(&*self.codec, value).await
    }

    /// All payloads of one answer, decoded.
    async fn decoded<T: HoldsPayloads>(&self, value: T) -> StoreResult<T> {
        self.decoded_unless(value, |_| false).await
    }

    /// Those payloads of a set, decoded, that can be.
    async fn decoded_each<T: HoldsPayloads>(&self, value: T) -> StoreResult<T> {
        let stays = |error: &CodecError| {
            if error.is_temporary() {
                return false;
            }
            warn!(%error, "a payload stays encoded");
            true
        };
        self.decoded_unless(value, stays).await
    }

    /// Not about payloads.
    async fn as_is<T>(&self, value: T) -> StoreResult<T> {
        Ok(value)
    }

    async fn decoded_unless<T: HoldsPayloads>(
        &self,
        mut value: T,
        stays_encoded: impl Fn(&CodecError) -> bool,
    ) -> StoreResult<T> {
        let places = places(&mut value, Payload::is_encoded);
        let stays_encoded = &stays_encoded;
        let decoding = stream::iter(places).try_for_each_concurrent(SIDE_BY_SIDE, |place| async {
            match self.codec.decode(place.clone()).await {
                Ok(plain) => *place = plain,
                Err(error) if stays_encoded(&error) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        });
        decoding.await.map_err(|source| StoreError::Codec {
            step: "decoded",
            source,
        })?;
        Ok(value)
    }
}

/// All payloads of a request, encoded.
pub(crate) async fn encoded<T: HoldsPayloads>(
    codec: &dyn PayloadCodec,
    mut value: T,
) -> StoreResult<T> {
    let places = places(&mut value, |payload| {
        !payload.is_absent() && !payload.is_encoded()
    });
    let encoding = stream::iter(places).try_for_each_concurrent(SIDE_BY_SIDE, |place| async {
        *place = codec.encode(place.clone()).await?;
        Ok(())
    });
    encoding.await.map_err(|source| StoreError::Codec {
        step: "encoded",
        source,
    })?;
    Ok(value)
}

/// The places of the payloads that are meant.
fn places<T: HoldsPayloads>(
    value: &mut T,
    meant: impl Fn(&Payload) -> bool,
) -> Vec<Result<&mut Payload, CodecError>> {
    let mut places = Vec::new();
    value.each_payload(&mut |place| {
        if meant(place) {
            places.push(Ok(place));
        }
    });
    places
}
