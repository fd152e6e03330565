//! Calls and answers in parts.

use bytes::{Bytes, BytesMut};
use durable_proto::v1::StorePart;
use everruns_durable::persistence::limits::BATCH_BYTES_MAX;
use futures_util::StreamExt as _;
use futures_util::stream;
use tonic::{Status, Streaming};

use super::{Answer, same_version};

/// Bytes of one part of an answer.
const PART_BYTES: usize = 1 << 20;
/// Most bytes of a whole call: what the contract allows, and as much again for what is around it.
const CALL_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX;

/// A call, put together.
pub(super) struct Call {
    pub(super) method: String,
    pub(super) body: Bytes,
}

/// Puts a call together.
pub(super) async fn gather(mut parts: Streaming<StorePart>) -> Result<Call, Status> {
    let empty = || Status::invalid_argument("the call has no parts");
    let first = parts.message().await?.ok_or_else(empty)?;
    same_version(first.version)?;
    let mut body = first.body;
    let mut more = BytesMut::new();
    while let Some(part) = parts.message().await? {
        if more.is_empty() {
            more.extend_from_slice(&body);
        }
        if more.len() + part.body.len() > CALL_BYTES_MAX {
            let text = format!("the call is larger than {CALL_BYTES_MAX} bytes; send fewer items");
            return Err(Status::invalid_argument(text));
        }
        more.extend_from_slice(&part.body);
    }
    if !more.is_empty() {
        body = more.freeze();
    }
    Ok(Call {
        method: first.method,
        body,
    })
}

/// Cuts an answer up.
pub(super) fn spread(answer: Vec<u8>) -> Answer<StorePart> {
    let mut next = Some(Bytes::from(answer));
    let parts = std::iter::from_fn(move || {
        let mut body = next.take()?;
        let rest = body.split_off(body.len().min(PART_BYTES));
        next = Some(rest).filter(|rest| !rest.is_empty());
        Some(Ok(StorePart {
            body,
            ..StorePart::default()
        }))
    });
    stream::iter(parts).boxed()
}
