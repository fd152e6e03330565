//! The one place where errors become gRPC statuses.

use axum::response::Response;
use durable_proto::convert::Malformed;
use everruns_durable::Error;
use everruns_durable::persistence::StoreError;
use tonic::metadata::AsciiMetadataKey;
use tonic::{Code, Status};

use crate::auth::Denied;

/// After how many milliseconds to try again: gRPC clients with a retry policy keep to it by themselves.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// How the transport begins to say that bytes are no message.
const NO_MESSAGE: &str = "failed to decode Protobuf message";

/// Somebody is turned away.
pub(super) fn denied(denied: &Denied) -> Status {
    let code = if denied.is_unauthenticated() {
        Code::Unauthenticated
    } else {
        Code::PermissionDenied
    };
    Status::new(code, format!("{denied}; {}", denied.hint()))
}

/// A message is not what the contract says.
pub(super) fn malformed(mistake: &Malformed) -> Status {
    Status::invalid_argument(mistake.to_string())
}

/// What the transport says of a message that it could not read, in the codes that the contract names. It has others for these: OUT_OF_RANGE for one that is too
/// large, and INTERNAL for one that is no message, as if the server were at fault.
pub(super) fn received(status: Status) -> Status {
    let code = match status.code() {
        Code::OutOfRange => Code::ResourceExhausted,
        Code::Internal if status.message().starts_with(NO_MESSAGE) => Code::InvalidArgument,
        _ => return status,
    };
    Status::new(code, status.message())
}

/// [`received`] for calls that were answered before they reached a service: there the status is all of the answer.
pub(super) async fn of_call(response: Response) -> Response {
    let Some(status) = Status::from_header_map(response.headers()) else {
        return response;
    };
    let code = status.code();
    let status = received(status);
    if status.code() == code {
        return response;
    }
    status.into_http()
}

/// The store's refusals and troubles.
pub(super) fn store(error: &StoreError) -> Status {
    let code = match error {
        StoreError::Conflict(_) => Code::Aborted,
        StoreError::LeaseLost(_) | StoreError::RunFinished { .. } => Code::FailedPrecondition,
        StoreError::NotFound { .. } => Code::NotFound,
        StoreError::Invalid(_) => Code::InvalidArgument,
        StoreError::Limit { .. } | StoreError::Overloaded { .. } | StoreError::TooBroad { .. } => {
            Code::ResourceExhausted
        }
        error if error.is_retryable() => Code::Unavailable,
        StoreError::Corrupt { .. } => Code::DataLoss,
        _ => Code::Internal,
    };
    Status::new(code, error.to_string())
}

/// The library's errors.
pub(super) fn library(error: &Error) -> Status {
    let code = if error.is_not_found() {
        Code::NotFound
    } else if error.is_conflict() {
        Code::AlreadyExists
    } else if error.is_run_finished() {
        Code::FailedPrecondition
    } else if error.is_invalid() {
        Code::InvalidArgument
    } else if error.is_overloaded() {
        Code::ResourceExhausted
    } else if error.is_retryable() {
        Code::Unavailable
    } else {
        Code::Internal
    };
    let mut status = Status::new(code, error.to_string());
    if let Some(after) = error.retry_after() {
        let name = AsciiMetadataKey::from_static(PUSHBACK);
        let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        status.metadata_mut().insert(name, millis.into());
    }
    status
}

/// This process has no engine that could serve workers, or not any more.
pub(super) fn stopped() -> Status {
    Status::unavailable("this server is stopping; connect again, to another one perhaps")
}
