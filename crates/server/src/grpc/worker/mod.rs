//! `durable.v1.Worker`: workers and clients in any language.

mod activation;
mod convert;
mod hello;
mod outbox;
mod pace;
mod runs;
mod session;
mod tasks;
mod turns;

use std::pin::Pin;

use durable_proto::v1;
use everruns_durable::hosting::Hosting;
use futures_util::Stream;
use tonic::{Request, Response, Status, Streaming};

use super::status;
use crate::App;
use crate::grpc::guard::{principal, watched};

/// The service.
#[derive(Clone)]
pub(super) struct Service {
    app: App,
}

impl Service {
    pub(super) const fn new(app: App) -> Self {
        Self { app }
    }

    fn hosting(&self) -> Result<Hosting, Status> {
        self.app.client().hosting().ok_or_else(status::stopped)
    }
}

type Outgoing<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl v1::worker_server::Worker for Service {
    type SessionStream = Outgoing<v1::ServerMessage>;
    type SubscribeTaskNotificationsStream = Outgoing<v1::TaskNotification>;

    async fn session(
        &self,
        request: Request<Streaming<v1::WorkerMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let pass = watched(&self.app, &request)?;
        let hosting = self.hosting()?;
        let draining = self.app.draining().clone();
        if draining.is_cancelled() {
            return Err(status::stopped());
        }
        let outgoing = session::open(hosting, pass, request.into_inner(), draining);
        Ok(Response::new(Box::pin(outgoing)))
    }

    async fn claim_durable_tasks(
        &self,
        request: Request<v1::ClaimDurableTasksRequest>,
    ) -> Result<Response<v1::ClaimDurableTasksResponse>, Status> {
        let principal = principal(&request)?;
        if self.app.draining().is_cancelled() {
            return Err(status::stopped());
        }
        let hosting = self.hosting()?;
        let claimed = tasks::claim(&hosting, &principal, request.into_inner());
        Ok(Response::new(claimed.await?))
    }

    async fn complete_durable_task(
        &self,
        request: Request<v1::CompleteDurableTaskRequest>,
    ) -> Result<Response<v1::TaskOutcomes>, Status> {
        let hosting = self.hosting()?;
        let stored = tasks::complete(&hosting, request.into_inner());
        Ok(Response::new(stored.await?))
    }

    async fn fail_durable_task(
        &self,
        request: Request<v1::FailDurableTaskRequest>,
    ) -> Result<Response<v1::TaskOutcomes>, Status> {
        let hosting = self.hosting()?;
        let stored = tasks::fail(&hosting, request.into_inner());
        Ok(Response::new(stored.await?))
    }

    async fn heartbeat_durable_task(
        &self,
        request: Request<v1::HeartbeatDurableTaskRequest>,
    ) -> Result<Response<v1::HeartbeatDurableTaskResponse>, Status> {
        let hosting = self.hosting()?;
        let beaten = tasks::heartbeat(&self.app, &hosting, request.into_inner());
        Ok(Response::new(beaten.await?))
    }

    async fn release_durable_task(
        &self,
        request: Request<v1::ReleaseDurableTaskRequest>,
    ) -> Result<Response<v1::TaskOutcomes>, Status> {
        let hosting = self.hosting()?;
        let released = tasks::release(&hosting, request.into_inner());
        Ok(Response::new(released.await?))
    }

    async fn create_durable_workflow(
        &self,
        request: Request<v1::CreateDurableWorkflowRequest>,
    ) -> Result<Response<v1::CreateDurableWorkflowResponse>, Status> {
        let principal = principal(&request)?;
        let created = runs::create(&self.app, &principal, request.into_inner());
        Ok(Response::new(created.await?))
    }

    async fn get_durable_workflow_status(
        &self,
        request: Request<v1::GetDurableWorkflowStatusRequest>,
    ) -> Result<Response<v1::GetDurableWorkflowStatusResponse>, Status> {
        let principal = principal(&request)?;
        let found = runs::status(&self.app, &principal, request.into_inner());
        Ok(Response::new(found.await?))
    }

    async fn subscribe_task_notifications(
        &self,
        request: Request<v1::SubscribeTaskNotificationsRequest>,
    ) -> Result<Response<Self::SubscribeTaskNotificationsStream>, Status> {
        let pass = watched(&self.app, &request)?;
        let draining = self.app.draining().clone();
        let news = tasks::subscribe(&self.hosting()?, pass, request.into_inner(), draining)?;
        Ok(Response::new(Box::pin(news)))
    }
}
