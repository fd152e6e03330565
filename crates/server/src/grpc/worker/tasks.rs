//! The operations on tasks, for workers that claim by themselves.

use std::time::Duration;

use durable_proto::convert::payload;
use durable_proto::v1;
use everruns_durable::hosting::Hosting;
use everruns_durable::persistence::model::{LeaseExtension, LeaseState, TaskLease, TaskOutcome};
use futures_util::Stream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::convert::{
    completed, failed, lease, outcome, release_outcome, task_message, unreadable,
};
use crate::App;
use crate::auth::{Principal, WatchedPass};
use crate::grpc::status;

/// How long a lease holds where the caller does not say.
const LEASE_DEFAULT: Duration = Duration::from_secs(15);
/// Most tasks of one claim.
const CLAIM_MAX: u32 = 1_000;

pub(super) async fn claim(
    hosting: &Hosting,
    principal: &Principal,
    request: v1::ClaimDurableTasksRequest,
) -> Result<v1::ClaimDurableTasksResponse, Status> {
    if request.worker_id.is_empty() {
        return Err(Status::invalid_argument("worker_id: it must not be empty"));
    }
    if request.activity_types.is_empty() {
        return Err(Status::invalid_argument(
            "activity_types: name at least one",
        ));
    }
    for activity_type in &request.activity_types {
        let allowed = principal.require_queue(activity_type);
        allowed.map_err(|error| status::denied(&error))?;
    }
    let max = request.max_tasks.clamp(1, CLAIM_MAX) as usize;
    let lease = lease_time(request.lease_ms);
    let tasks = hosting.claim_tasks(&request.worker_id, request.activity_types, max, lease);
    let tasks = tasks.await.map_err(|error| status::store(&error))?;
    Ok(v1::ClaimDurableTasksResponse {
        tasks: tasks.into_iter().map(task_message).collect(),
        lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
    })
}

pub(super) async fn complete(
    hosting: &Hosting,
    request: v1::CompleteDurableTaskRequest,
) -> Result<v1::TaskOutcomes, Status> {
    let tasks = request.tasks.into_iter();
    let ended = tasks.map(|task| (task.lease, completed(task.result)));
    finish(hosting, leased(ended)?).await
}

pub(super) async fn fail(
    hosting: &Hosting,
    request: v1::FailDurableTaskRequest,
) -> Result<v1::TaskOutcomes, Status> {
    let tasks = request.tasks.into_iter();
    let ended = tasks.map(|task| (task.lease, failed(task.failure)));
    finish(hosting, leased(ended)?).await
}

/// Items with their leases read. One whose lease cannot be read is nobody's: the call is refused before anything is done.
fn leased<T>(
    items: impl Iterator<Item = (Option<v1::Lease>, T)>,
) -> Result<Vec<(TaskLease, T)>, Status> {
    let read = |(index, (message, item))| {
        let read = lease(message).map_err(|mistake| mistake.within(&format!("tasks[{index}]")));
        Ok((read.map_err(|mistake| status::malformed(&mistake))?, item))
    };
    items.enumerate().map(read).collect()
}

async fn finish(
    hosting: &Hosting,
    ended: Vec<(TaskLease, TaskOutcome)>,
) -> Result<v1::TaskOutcomes, Status> {
    let leases: Vec<TaskLease> = ended.iter().map(|(lease, _)| lease.clone()).collect();
    let stored = hosting.finish_tasks(ended).await;
    let stored = stored.map_err(|error| status::store(&error))?;
    let outcomes = leases.iter().zip(&stored);
    Ok(v1::TaskOutcomes {
        outcomes: outcomes
            .map(|(lease, stored)| outcome(lease, stored))
            .collect(),
    })
}

pub(super) async fn heartbeat(
    app: &App,
    hosting: &Hosting,
    request: v1::HeartbeatDurableTaskRequest,
) -> Result<v1::HeartbeatDurableTaskResponse, Status> {
    let extend = lease_time(request.lease_ms);
    let beats = request.tasks.into_iter();
    let beats = leased(beats.map(|beat| (beat.lease, beat.details)))?;
    let (mut extensions, mut unread) = (Vec::new(), Vec::new());
    let mut is_read = Vec::with_capacity(beats.len());
    for (lease, details) in beats {
        let details = details.map(|details| payload("details", details));
        is_read.push(!matches!(details, Some(Err(_))));
        match details.transpose() {
            Ok(heartbeat) => extensions.push(LeaseExtension {
                lease,
                extend,
                heartbeat,
            }),
            Err(mistake) => unread.push((lease, unreadable(&mistake))),
        }
    }
    let states = app.store().extend_leases(extensions, None).await;
    let states = states.map_err(|error| status::store(&error))?;
    if !unread.is_empty() {
        finish(hosting, unread).await?;
    }
    let mut states = states.into_iter();
    // A task that another transaction has for the moment is still the worker's: the next heartbeat tells.
    let held =
        |is_read: bool| is_read && states.next().is_some_and(|state| state != LeaseState::Lost);
    Ok(v1::HeartbeatDurableTaskResponse {
        held: is_read.into_iter().map(held).collect(),
    })
}

pub(super) async fn release(
    hosting: &Hosting,
    request: v1::ReleaseDurableTaskRequest,
) -> Result<v1::TaskOutcomes, Status> {
    let leases: Result<Vec<TaskLease>, _> = request
        .leases
        .into_iter()
        .map(|message| lease(Some(message)))
        .collect();
    let leases = leases.map_err(|mistake| status::malformed(&mistake))?;
    let released = hosting.release_tasks(leases.clone()).await;
    let released = released.map_err(|error| status::store(&error))?;
    let outcomes = leases.iter().zip(released);
    Ok(v1::TaskOutcomes {
        outcomes: outcomes
            .map(|(lease, released)| release_outcome(lease, released))
            .collect(),
    })
}

/// News until the client goes or the server is about to.
pub(super) fn subscribe(
    hosting: &Hosting,
    pass: WatchedPass,
    request: v1::SubscribeTaskNotificationsRequest,
    draining: CancellationToken,
) -> Result<impl Stream<Item = Result<v1::TaskNotification, Status>> + use<>, Status> {
    for activity_type in &request.activity_types {
        let allowed = pass.principal().require_queue(activity_type);
        allowed.map_err(|error| status::denied(&error))?;
    }
    let news = hosting.task_news().ok_or_else(status::stopped)?;
    let (wanted, principal) = (request.activity_types, pass.principal().clone());
    let of_interest = move |name: &String| {
        (wanted.is_empty() || wanted.contains(name)) && principal.may_use_queue(name)
    };
    let first = v1::TaskNotification::default();
    let state = Some((news, pass, draining, of_interest));
    let later = futures_util::stream::unfold(state, |state| async {
        let (mut news, mut pass, draining, of_interest) = state?;
        loop {
            let told = tokio::select! {
                biased;
                () = draining.cancelled() => return None,
                denied = pass.lost() => return Some((Err(status::denied(&denied)), None)),
                told = news.next() => told,
            };
            let activity_types = match told {
                None => Vec::new(),
                Some(types) => {
                    let types: Vec<String> = types.into_iter().filter(&of_interest).collect();
                    if types.is_empty() {
                        continue;
                    }
                    types
                }
            };
            let notification = v1::TaskNotification { activity_types };
            return Some((Ok(notification), Some((news, pass, draining, of_interest))));
        }
    });
    let first = futures_util::stream::once(async { Ok(first) });
    Ok(futures_util::StreamExt::chain(first, later))
}

fn lease_time(ms: u64) -> Duration {
    if ms == 0 {
        LEASE_DEFAULT
    } else {
        Duration::from_millis(ms)
    }
}
