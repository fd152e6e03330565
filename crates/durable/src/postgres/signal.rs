//! Signals.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use durable_core::{Payload, PayloadError};
use serde::Serialize;
use uuid::Uuid;

use super::Within;
use crate::codec::{PayloadCodec, encoded};
use crate::error::Kind;
use crate::persistence::model::{NewSignal, SendOutcome, SendSignal};
use crate::persistence::postgres::{DEFAULT_SCHEMA, send_signal};
use crate::{Error, Result};

/// A signal about to be sent inside a transaction: a builder that is awaited. A run that does not exist, has ended or is full
/// refuses it.
#[must_use = "a signal is not sent unless it is awaited"]
pub struct SignalIn<'t> {
    within: Within<'t>,
    schema: String,
    codec: Option<Arc<dyn PayloadCodec>>,
    run_id: Uuid,
    signal_id: Uuid,
    signal_type: String,
    payload: Result<Payload, PayloadError>,
}

/// Sends a signal inside a transaction.
pub fn signal_in<'t, T: Serialize + ?Sized>(
    transaction: impl Into<Within<'t>>,
    run_id: Uuid,
    signal_type: impl Into<String>,
    payload: &T,
) -> SignalIn<'t> {
    SignalIn {
        within: transaction.into(),
        schema: DEFAULT_SCHEMA.to_owned(),
        codec: None,
        run_id,
        signal_id: Uuid::now_v7(),
        signal_type: signal_type.into(),
        payload: Payload::from_value(payload),
    }
}

impl SignalIn<'_> {
    /// The schema of the engine's tables, where it is not `durable`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// The codec that the engines have: the payload is stored as they store it.
    pub fn codec(mut self, codec: Arc<dyn PayloadCodec>) -> Self {
        self.codec = Some(codec);
        self
    }

    /// An id of your own: sending it twice is one signal.
    pub fn signal_id(mut self, signal_id: Uuid) -> Self {
        self.signal_id = signal_id;
        self
    }

    async fn send(self) -> Result<()> {
        let Self {
            run_id,
            signal_type,
            ..
        } = self;
        let payload = self.payload.map_err(|error| {
            Error::payload(format!("the payload of signal {signal_type}"), error)
        })?;
        let signal = NewSignal {
            signal_id: self.signal_id,
            signal_type,
            payload,
        };
        let mut request = SendSignal { run_id, signal };
        if let Some(codec) = &self.codec {
            request = encoded(&**codec, request).await?;
        }
        match send_signal(self.within, &self.schema, request).await? {
            SendOutcome::Accepted { .. } | SendOutcome::Duplicate { .. } => Ok(()),
            SendOutcome::Rejected(rejection) => Err(Kind::Send { run_id, rejection }.into()),
        }
    }
}

impl<'t> IntoFuture for SignalIn<'t> {
    type Output = Result<()>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 't>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
