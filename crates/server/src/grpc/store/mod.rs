//! `durable.v1.Store`: the store contract for engines and clients of Durable's own Rust library.
//!
//! The methods of the service are permissions, which [`super::guard`] has looked at before anything is read. What a call is, which way it
//! may come and what it touches is the library's ([`everruns_durable::remote`]); what a token may reach is in [`reach`].

mod offers;
mod parts;
mod reach;
mod rings;

use durable_proto::v1::store_server::Store;
use durable_proto::v1::{StoreAnswer, StoreHello, StoreOffer, StorePart, StoreRing, StoreWelcome};
use everruns_durable::remote::{Answerer, Door, Method, WIRE_VERSION};
use futures_util::stream::BoxStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use self::reach::Reach;
use crate::App;
use crate::auth::{Permission, Principal};
use crate::grpc::guard::{principal, watched};
use crate::grpc::status;

/// Largest part of a call, after decompression.
pub(super) const PART_BYTES_MAX: usize = 4 << 20;

/// The service.
pub(super) struct Service {
    app: App,
    answerer: Answerer,
}

type Answer<T> = BoxStream<'static, Result<T, Status>>;

impl Service {
    pub(super) fn new(app: App) -> Self {
        let answerer = Answerer::of(app.client().clone());
        Self { app, answerer }
    }

    async fn answer(
        &self,
        door: Door,
        request: Request<Streaming<StorePart>>,
    ) -> Result<Response<Answer<StorePart>>, Status> {
        let principal = principal(&request)?;
        let call = parts::gather(request.into_inner()).await?;
        let answerer = self.answerer_for(door, &call.method, &principal)?;
        let reach = Reach::new(self.app.client().clone(), principal);
        let waits = call.method == Method::await_run.name();
        let answer = async move {
            let (method, body) = (&*call.method, &*call.body);
            answerer.answer(door, method, body, &reach).await
        };
        let answer = if waits {
            // It only waits: for nobody any more when the caller goes away, and not longer than the server is there.
            tokio::select! {
                answer = answer => Ok(answer),
                () = self.app.draining().cancelled() => {
                    return Err(Status::unavailable("the server is about to go; ask again"));
                }
            }
        } else if door == Door::Read {
            // A read whose caller goes away is given up, and cancelled in the database.
            Ok(answer.await)
        } else {
            // On a task of its own: a caller that goes away does not stop the store half way.
            tokio::spawn(answer).await
        };
        match answer {
            Ok(Ok(answer)) => Ok(Response::new(parts::spread(answer))),
            Ok(Err(mistake)) => Err(Status::invalid_argument(mistake.to_string())),
            // Whether it was carried out is not known.
            Err(error) => Err(Status::unknown(format!("the call came to no end: {error}"))),
        }
    }
}

impl Service {
    /// What workers do and what is only read goes to the store as it is; what somebody changes through any other door is noted.
    fn answerer_for(
        &self,
        door: Door,
        method: &str,
        principal: &Principal,
    ) -> Result<Answerer, Status> {
        // A method that there is not is refused by the answerer.
        let method = Method::parse(method);
        match (door, method) {
            (Door::Start | Door::Signal | Door::Operate, Some(method)) => {
                let client = self.app.acting(principal, method.name(), None);
                let client = client.map_err(|error| status::library(&error))?;
                Ok(Answerer::of(client))
            }
            _ => Ok(self.answerer.clone()),
        }
    }
}

const fn permission(door: Door) -> Permission {
    match door {
        Door::Work => Permission::RunTasks,
        Door::Read => Permission::Read,
        Door::Start => Permission::Start,
        Door::Signal => Permission::Signal,
        Door::Operate => Permission::Operate,
    }
}

/// Both ends have to speak the same version.
fn same_version(version: u32) -> Result<(), Status> {
    if version == WIRE_VERSION {
        return Ok(());
    }
    Err(Status::failed_precondition(format!(
        "the caller speaks version {version} of the store protocol and this server version {WIRE_VERSION}; use the same release of Durable on both ends, or worker.proto"
    )))
}

#[async_trait]
impl Store for Service {
    type WorkStream = Answer<StorePart>;
    type ReadStream = Answer<StorePart>;
    type StartStream = Answer<StorePart>;
    type SignalStream = Answer<StorePart>;
    type OperateStream = Answer<StorePart>;
    type OffersStream = Answer<StoreOffer>;
    type RingStream = Answer<StoreRing>;

    async fn connect(
        &self,
        request: Request<StoreHello>,
    ) -> Result<Response<StoreWelcome>, Status> {
        let principal = principal(&request)?;
        same_version(request.get_ref().version)?;
        let open = |door: &Door| principal.role.permits(permission(*door));
        let doors = Door::ALL.into_iter().filter(open);
        let store = self.app.store();
        Ok(Response::new(StoreWelcome {
            version: WIRE_VERSION,
            shards: store.shards().count().into(),
            encodes_payloads: store.encodes_payloads(),
            doors: doors.map(|door| door.name().to_owned()).collect(),
        }))
    }

    async fn work(
        &self,
        request: Request<Streaming<StorePart>>,
    ) -> Result<Response<Self::WorkStream>, Status> {
        self.answer(Door::Work, request).await
    }

    async fn read(
        &self,
        request: Request<Streaming<StorePart>>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        self.answer(Door::Read, request).await
    }

    async fn start(
        &self,
        request: Request<Streaming<StorePart>>,
    ) -> Result<Response<Self::StartStream>, Status> {
        self.answer(Door::Start, request).await
    }

    async fn signal(
        &self,
        request: Request<Streaming<StorePart>>,
    ) -> Result<Response<Self::SignalStream>, Status> {
        self.answer(Door::Signal, request).await
    }

    async fn operate(
        &self,
        request: Request<Streaming<StorePart>>,
    ) -> Result<Response<Self::OperateStream>, Status> {
        self.answer(Door::Operate, request).await
    }

    async fn offers(
        &self,
        request: Request<Streaming<StoreAnswer>>,
    ) -> Result<Response<Self::OffersStream>, Status> {
        let pass = watched(&self.app, &request)?;
        let offers = offers::exchange(&self.app, pass, request.into_inner())?;
        Ok(Response::new(offers))
    }

    async fn ring(
        &self,
        request: Request<Streaming<StoreRing>>,
    ) -> Result<Response<Self::RingStream>, Status> {
        let pass = watched(&self.app, &request)?;
        let rings = rings::exchange(&self.app, pass, request.into_inner())?;
        Ok(Response::new(rings))
    }
}
