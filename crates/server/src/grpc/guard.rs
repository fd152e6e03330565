//! Who may call what, decided before anything of the message is read.

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tonic::Status;

use super::status;
use crate::App;
use crate::auth::{Denied, Pass, Permission, Principal, WatchedPass};

/// Who is let in to a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Everybody.
    Public,
    /// Whoever holds a token.
    Known,
    /// Whoever holds a token that permits this.
    Needs(Permission),
}

/// Every method that is served, by its path. One that is not here is not served: a new method gets its line by decision.
pub const METHODS: &[(&str, Admission)] = &[
    (
        "/durable.v1.Worker/Session",
        Admission::Needs(Permission::RunTasks),
    ),
    (
        "/durable.v1.Worker/ClaimDurableTasks",
        Admission::Needs(Permission::RunTasks),
    ),
    (
        "/durable.v1.Worker/CompleteDurableTask",
        Admission::Needs(Permission::RunTasks),
    ),
    (
        "/durable.v1.Worker/FailDurableTask",
        Admission::Needs(Permission::RunTasks),
    ),
    (
        "/durable.v1.Worker/HeartbeatDurableTask",
        Admission::Needs(Permission::RunTasks),
    ),
    (
        "/durable.v1.Worker/ReleaseDurableTask",
        Admission::Needs(Permission::RunTasks),
    ),
    (
        "/durable.v1.Worker/SubscribeTaskNotifications",
        Admission::Needs(Permission::RunTasks),
    ),
    (
        "/durable.v1.Worker/CreateDurableWorkflow",
        Admission::Needs(Permission::Start),
    ),
    (
        "/durable.v1.Worker/GetDurableWorkflowStatus",
        Admission::Needs(Permission::Read),
    ),
    ("/durable.v1.Store/Connect", Admission::Known),
    (
        "/durable.v1.Store/Work",
        Admission::Needs(Permission::RunTasks),
    ),
    ("/durable.v1.Store/Read", Admission::Needs(Permission::Read)),
    (
        "/durable.v1.Store/Start",
        Admission::Needs(Permission::Start),
    ),
    (
        "/durable.v1.Store/Signal",
        Admission::Needs(Permission::Signal),
    ),
    (
        "/durable.v1.Store/Operate",
        Admission::Needs(Permission::Operate),
    ),
    (
        "/durable.v1.Store/Offers",
        Admission::Needs(Permission::RunTasks),
    ),
    ("/durable.v1.Store/Ring", Admission::Known),
    ("/grpc.health.v1.Health/Check", Admission::Public),
    ("/grpc.health.v1.Health/List", Admission::Public),
    ("/grpc.health.v1.Health/Watch", Admission::Public),
    (
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        Admission::Known,
    ),
    (
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        Admission::Known,
    ),
];

/// Whoever was let in.
pub(super) fn principal<T>(request: &tonic::Request<T>) -> Result<Principal, Status> {
    pass(request).map(|pass| pass.principal().clone())
}

/// Whoever was let in, watched for as long as a stream is open.
pub(super) fn watched<T>(app: &App, request: &tonic::Request<T>) -> Result<WatchedPass, Status> {
    pass(request).map(|pass| app.watched(pass.clone()))
}

/// It stands before every method; should it ever not, nobody comes in.
fn pass<T>(request: &tonic::Request<T>) -> Result<&Pass, Status> {
    let pass = request.extensions().get::<Pass>();
    pass.ok_or_else(|| Status::unauthenticated("nobody has said who is calling"))
}

/// Lets a request in with its [`Pass`], or answers why not.
pub(super) async fn admit(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let admission = METHODS.iter().find(|(method, _)| *method == path);
    let Some((_, admission)) = admission else {
        let unknown = format!("there is no method {path}; server reflection lists those there are");
        return refused(Status::unimplemented(unknown));
    };
    if *admission != Admission::Public {
        match let_in(&app, &request, *admission) {
            Ok(pass) => {
                request.extensions_mut().insert(pass);
            }
            Err(denied) => return refused(status::denied(&denied)),
        }
    }
    next.run(request).await
}

fn let_in(app: &App, request: &Request, admission: Admission) -> Result<Pass, Denied> {
    let header = request.headers().get(AUTHORIZATION);
    let header = match header.map(|value| value.to_str()) {
        Some(Err(_)) => return Err(Denied::Malformed),
        Some(Ok(text)) => Some(text),
        None => None,
    };
    let permission = match admission {
        Admission::Needs(permission) => Some(permission),
        Admission::Public | Admission::Known => None,
    };
    app.access().admit(header, permission)
}

/// An answer in gRPC's own form: HTTP 200, the status in the headers.
fn refused(status: Status) -> Response {
    status.into_http::<axum::body::Body>().into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The services of the contract, from the descriptor that reflection serves.
    #[test]
    fn every_method_of_the_contract_has_its_line() {
        use tonic_prost::prost::Message as _;
        let set = prost_types::FileDescriptorSet::decode(durable_proto::FILE_DESCRIPTOR_SET);
        let set = set.expect("a descriptor");
        let mut found = 0;
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    assert!(METHODS.iter().any(|(known, _)| *known == path), "{path}");
                    found += 1;
                }
            }
        }
        assert!(found >= 9, "{found} methods");
    }
}
