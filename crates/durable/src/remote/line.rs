//! The connection to a server, and calls on it.

use bytes::{Bytes, BytesMut};
use durable_proto::v1::store_client::StoreClient;
use durable_proto::v1::{StoreAnswer, StoreHello, StoreOffer, StorePart, StoreRing, StoreWelcome};
use futures_util::stream::{self, Stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

use super::calls::{Door, Method};
use super::connect::Connect;
use super::touch::Touched;
use super::wire::{Failed, Mistake, WIRE_VERSION, read, write};
use crate::persistence::limits::{BATCH_BYTES_MAX, check_len};
use crate::persistence::{StoreError, StoreResult};

/// Bytes of one part of a call.
const PART_BYTES: usize = 1 << 20;
/// Most bytes of a whole call: what the contract allows, and as much again for what is around it.
pub(super) const CALL_BYTES_MAX: usize = 2 * BATCH_BYTES_MAX;

type Caller = StoreClient<InterceptedService<Channel, Bearer>>;

/// Calls to one server. Connects again by itself: a call on a connection that is gone fails, the next one finds another.
#[derive(Clone)]
pub(super) struct Line {
    caller: Caller,
    /// The doors that are open to us.
    doors: Vec<Door>,
}

/// Shows the token with every call.
#[derive(Clone)]
struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(header) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", header.clone());
        }
        Ok(request)
    }
}

impl Line {
    /// Connects at the first call. To be called within a tokio runtime.
    pub(super) fn to(connect: &Connect) -> crate::Result<Self> {
        let channel = connect.endpoint()?.connect_lazy();
        let bearer = Bearer(connect.authorization()?);
        Ok(Self {
            caller: StoreClient::with_interceptor(channel, bearer),
            doors: Vec::new(),
        })
    }

    /// Introduces us, and learns which doors are open.
    pub(super) async fn introduce(&mut self) -> StoreResult<StoreWelcome> {
        let hello = StoreHello {
            version: WIRE_VERSION,
            agent: concat!("everruns-durable ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let welcome = self.caller.connect(hello).await;
        let welcome = welcome
            .map_err(|status| failed("connect", status))?
            .into_inner();
        if welcome.version != WIRE_VERSION {
            return Err(StoreError::Schema(format!(
                "the server speaks version {} of the store protocol and this library version {WIRE_VERSION}; use the same release of Durable on both ends",
                welcome.version
            )));
        }
        let doors = welcome.doors.iter();
        self.doors = doors.filter_map(|name| Door::parse(name)).collect();
        Ok(welcome)
    }

    /// Whether a door is open to us, as the server said when we came.
    pub(super) fn is_open(&self, door: Door) -> bool {
        self.doors.contains(&door)
    }

    /// The way that a call goes: the first that is open to us. Where none is, the server says so best.
    pub(super) fn door(&self, method: Method, touched: &[Touched<'_>]) -> Door {
        let resets = |touched: &Touched<'_>| matches!(touched, Touched::Turn { resets: true, .. });
        if touched.iter().any(resets) {
            return Door::Operate;
        }
        let mut ways = method.doors().iter().filter(|door| match method {
            // Only resets go the other way.
            Method::commit_turns => **door == Door::Work,
            _ => true,
        });
        let first = ways.clone().next().copied().unwrap_or(Door::Operate);
        ways.find(|door| self.is_open(**door))
            .copied()
            .unwrap_or(first)
    }

    /// Calls a method of the contract.
    pub(super) async fn call<A: Serialize + Sync, T: DeserializeOwned>(
        &self,
        door: Door,
        method: Method,
        arguments: &A,
    ) -> StoreResult<T> {
        let body = write(arguments)?;
        check_len("the bytes of one call", body.len(), CALL_BYTES_MAX)?;
        let answer = self.carry(door, parts(method, body.into())).await;
        let answer = answer.map_err(|status| failed(method.name(), status))?;
        let unreadable = |mistake: Mistake| StoreError::corrupt("the server's answer", mistake);
        let answer: Result<T, Failed> = read(method.name(), &answer).map_err(unreadable)?;
        answer.map_err(StoreError::from)
    }

    async fn carry(
        &self,
        door: Door,
        parts: impl Stream<Item = StorePart> + Send + 'static,
    ) -> Result<Bytes, Status> {
        let mut caller = self.caller.clone();
        let answer = match door {
            Door::Work => caller.work(parts).await,
            Door::Read => caller.read(parts).await,
            Door::Start => caller.start(parts).await,
            Door::Signal => caller.signal(parts).await,
            Door::Operate => caller.operate(parts).await,
        };
        whole(answer?.into_inner()).await
    }

    /// Offers and their answers, until one end goes.
    pub(super) async fn offers(
        &self,
        answers: impl Stream<Item = StoreAnswer> + Send + 'static,
    ) -> Result<Streaming<StoreOffer>, Status> {
        let mut caller = self.caller.clone();
        caller.offers(answers).await.map(Response::into_inner)
    }

    /// Rings both ways until one end goes.
    pub(super) async fn ring(
        &self,
        rings: impl Stream<Item = StoreRing> + Send + 'static,
    ) -> Result<Streaming<StoreRing>, Status> {
        let mut caller = self.caller.clone();
        caller.ring(rings).await.map(Response::into_inner)
    }
}

/// A call, cut up.
fn parts(method: Method, body: Bytes) -> impl Stream<Item = StorePart> + Send + 'static {
    let mut next = Some((method.name().to_owned(), body));
    stream::iter(std::iter::from_fn(move || {
        let (method, mut body) = next.take()?;
        let rest = body.split_off(body.len().min(PART_BYTES));
        let version = if method.is_empty() { 0 } else { WIRE_VERSION };
        if !rest.is_empty() {
            next = Some((String::new(), rest));
        }
        Some(StorePart {
            version,
            method,
            body,
        })
    }))
}

/// An answer, put together.
async fn whole(mut parts: Streaming<StorePart>) -> Result<Bytes, Status> {
    let cut_off = || Status::unavailable("the answer was cut off");
    let first = parts.message().await?.ok_or_else(cut_off)?.body;
    let mut more = BytesMut::new();
    while let Some(part) = parts.message().await? {
        if more.is_empty() {
            more.extend_from_slice(&first);
        }
        more.extend_from_slice(&part.body);
    }
    Ok(if more.is_empty() {
        first
    } else {
        more.freeze()
    })
}

/// A status is not the store's: the call did not get there, or its answer not back.
fn failed(what: &str, status: Status) -> StoreError {
    let said = || status.message().to_owned();
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => StoreError::Denied(said()),
        Code::InvalidArgument | Code::FailedPrecondition => StoreError::Schema(said()),
        Code::Unimplemented => StoreError::Schema(format!(
            "this server does not serve Durable's store ({}); is it one, and of the same release?",
            said()
        )),
        _ => StoreError::unavailable(format!("{what}: the server gave no answer"), status),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;

    #[test]
    fn a_call_is_cut_into_parts_of_which_the_first_says_what_it_is() {
        for (bytes, expected) in [
            (0, 1),
            (PART_BYTES, 1),
            (PART_BYTES + 1, 2),
            (3 * PART_BYTES, 3),
        ] {
            let body = Bytes::from(vec![7; bytes]);
            let parts: Vec<StorePart> = parts(Method::commit_turns, body.clone())
                .collect()
                .now_or_never()
                .expect("at once");
            assert_eq!(parts.len(), expected);
            assert_eq!(
                (parts[0].version, &*parts[0].method),
                (WIRE_VERSION, "commit_turns")
            );
            assert!(parts[1..].iter().all(|part| part.method.is_empty()));
            let together: Vec<u8> = parts.iter().flat_map(|part| part.body.to_vec()).collect();
            assert_eq!(together, body);
        }
    }
}
