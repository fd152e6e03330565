//! What a worker says first, checked.

use std::collections::BTreeSet;

use durable_proto::convert::Malformed;
use durable_proto::v1;
use everruns_durable::hosting::WorkerProfile;
use everruns_durable::persistence::limits::NAME_BYTES_MAX;
use everruns_durable::persistence::model::{HostedType, TaskLease};
use tonic::Status;

use super::convert::lease;
use crate::auth::Principal;
use crate::grpc::status;

/// Most tasks that a worker may take at once.
pub(super) const TASK_SLOTS_MAX: u32 = 10_000;
/// Activations at once where the worker does not say.
const TURN_SLOTS_DEFAULT: u32 = 100;
/// Most activations that a worker may take at once.
const TURN_SLOTS_MAX: u32 = 10_000;
/// Most types of either kind.
const TYPES_MAX: usize = 10_000;

/// A worker that has introduced itself.
#[derive(Debug)]
pub(super) struct Introduced {
    pub(super) profile: WorkerProfile,
    pub(super) hosted: BTreeSet<HostedType>,
    pub(super) turn_slots: usize,
    pub(super) holding: Vec<TaskLease>,
}

/// Reads what a worker says of itself, and whether it may.
///
/// # Errors
/// INVALID_ARGUMENT or PERMISSION_DENIED.
pub(super) fn introduced(hello: v1::Hello, principal: &Principal) -> Result<Introduced, Status> {
    let read = read(hello).map_err(|mistake| status::malformed(&mistake.within("hello")))?;
    for activity_type in &read.profile.activity_types {
        let allowed = principal.require_queue(activity_type);
        allowed.map_err(|denied| status::denied(&denied))?;
    }
    for workflow_type in &read.profile.workflow_types {
        let allowed = principal.require_type(workflow_type);
        allowed.map_err(|denied| status::denied(&denied))?;
    }
    Ok(read)
}

fn read(hello: v1::Hello) -> Result<Introduced, Malformed> {
    let id = name("worker_id", hello.worker_id)?;
    if hello.activity_types.is_empty() && hello.workflow_types.is_empty() {
        return Err(Malformed::new(
            "activity_types",
            "a worker needs at least one activity type or workflow type",
        ));
    }
    let types = hello.activity_types.len().max(hello.workflow_types.len());
    if types > TYPES_MAX {
        let problem = format!("{types} types, the limit is {TYPES_MAX}");
        return Err(Malformed::new("activity_types", problem));
    }
    let activity_types: Result<BTreeSet<String>, Malformed> = hello
        .activity_types
        .into_iter()
        .map(|activity_type| name("activity_types", activity_type))
        .collect();
    let hosted: Result<BTreeSet<HostedType>, Malformed> = hello
        .workflow_types
        .into_iter()
        .map(|hosted| {
            Ok(HostedType {
                workflow_type: name("workflow_types.workflow_type", hosted.workflow_type)?,
                version: hosted.version,
            })
        })
        .collect();
    let hosted = hosted?;
    let workflow_types = hosted.iter().map(|hosted| hosted.workflow_type.clone());
    let holding: Result<Vec<TaskLease>, Malformed> = hello
        .holding
        .into_iter()
        .map(|held| lease(Some(held)))
        .collect();
    let group = if hello.group.is_empty() {
        "default".to_owned()
    } else {
        name("group", hello.group)?
    };
    let build = if hello.build.is_empty() {
        "unnamed".to_owned()
    } else {
        name("build", hello.build)?
    };
    Ok(Introduced {
        profile: WorkerProfile {
            id,
            group,
            build,
            hostname: Some(hello.hostname).filter(|name| !name.is_empty()),
            activity_types: activity_types?,
            workflow_types: workflow_types.collect(),
            slots: hello.task_slots.min(TASK_SLOTS_MAX) as usize,
        },
        hosted,
        turn_slots: match hello.turn_slots {
            0 => TURN_SLOTS_DEFAULT,
            slots => slots.min(TURN_SLOTS_MAX),
        } as usize,
        holding: holding.map_err(|mistake| mistake.within("holding"))?,
    })
}

fn name(place: &str, text: String) -> Result<String, Malformed> {
    let text = durable_proto::convert::named(place, text)?;
    if text.len() > NAME_BYTES_MAX {
        let problem = format!("{} bytes, the limit is {NAME_BYTES_MAX}", text.len());
        return Err(Malformed::new(place, problem));
    }
    Ok(text)
}
