//! What a worker says first, checked.

use std::collections::BTreeSet;

use durable_proto::convert::Malformed;
use durable_proto::v1;
use everruns_durable::hosting::WorkerProfile;
use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::limits::{
    ID_BYTES_MAX, TEXT_BYTES_MAX, check_batch, check_name, check_text,
};
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
    let counts = [
        ("activity_types", hello.activity_types.len()),
        ("workflow_types", hello.workflow_types.len()),
        ("holding", hello.holding.len()),
    ];
    for (place, count) in counts {
        kept(place, check_batch("of them", count))?;
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
                version: text("workflow_types.version", hosted.version, ID_BYTES_MAX)?,
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
    let hostname = text("hostname", hello.hostname, TEXT_BYTES_MAX)?;
    Ok(Introduced {
        profile: WorkerProfile {
            id,
            group,
            build,
            hostname: Some(hostname).filter(|name| !name.is_empty()),
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
    kept(place, check_name("bytes", &text))?;
    Ok(text)
}

fn text(place: &str, text: String, limit: usize) -> Result<String, Malformed> {
    kept(place, check_text("bytes", &text, limit))?;
    Ok(text)
}

/// What no store keeps is refused here: whoever works for this worker would be refused again and again.
fn kept(place: &str, checked: Result<(), StoreError>) -> Result<(), Malformed> {
    checked.map_err(|error| {
        let problem = match error {
            StoreError::Limit { what, found, limit } => {
                format!("{found} {what}, the limit is {limit}")
            }
            _ => "it holds a NUL character".to_owned(),
        };
        Malformed::new(place, problem)
    })
}

#[cfg(test)]
mod tests {
    use everruns_durable::persistence::limits::{BATCH_ITEMS_MAX, NAME_BYTES_MAX};

    use super::*;

    fn hosted(workflow_type: &str, version: &str) -> v1::WorkflowType {
        v1::WorkflowType {
            workflow_type: workflow_type.to_owned(),
            version: version.to_owned(),
        }
    }

    fn hello() -> v1::Hello {
        v1::Hello {
            worker_id: "w".to_owned(),
            build: "1".to_owned(),
            hostname: "here".to_owned(),
            group: "g".to_owned(),
            activity_types: vec!["greet".to_owned()],
            workflow_types: vec![hosted("trip", "v1")],
            ..v1::Hello::default()
        }
    }

    /// Spoils one part of a hello by a text.
    type Spoil = fn(&mut v1::Hello, String);

    const PARTS: [(&str, usize, Spoil); 7] = [
        ("worker_id", NAME_BYTES_MAX, |hello, text| {
            hello.worker_id = text;
        }),
        ("group", NAME_BYTES_MAX, |hello, text| hello.group = text),
        ("build", NAME_BYTES_MAX, |hello, text| hello.build = text),
        ("hostname", TEXT_BYTES_MAX, |hello, text| {
            hello.hostname = text;
        }),
        ("activity_types", NAME_BYTES_MAX, |hello, text| {
            hello.activity_types.push(text);
        }),
        (
            "workflow_types.workflow_type",
            NAME_BYTES_MAX,
            |hello, text| hello.workflow_types.push(hosted(&text, "")),
        ),
        ("workflow_types.version", ID_BYTES_MAX, |hello, text| {
            hello.workflow_types.push(hosted("trip", &text));
        }),
    ];

    #[test]
    fn what_no_store_keeps_is_refused_by_its_place() {
        for (place, limit, spoil) in PARTS {
            let given = |text: String| {
                let mut hello = hello();
                spoil(&mut hello, text);
                read(hello)
            };
            given("x".repeat(limit)).expect(place);
            for bad in ["x".repeat(limit + 1), "a\0b".to_owned()] {
                let mistake = given(bad).expect_err(place);
                assert_eq!(mistake.place, place, "{mistake}");
            }
        }
    }

    #[test]
    fn more_than_one_claim_can_name_is_refused() {
        let many = |count: usize| v1::Hello {
            workflow_types: (0..count).map(|n| hosted(&format!("t{n}"), "")).collect(),
            ..hello()
        };
        assert!(read(many(BATCH_ITEMS_MAX)).is_ok());
        let mistake = read(many(BATCH_ITEMS_MAX + 1)).expect_err("too many");
        assert_eq!(mistake.place, "workflow_types");
        let mut holding = hello();
        holding.holding = vec![v1::Lease::default(); BATCH_ITEMS_MAX + 1];
        assert_eq!(read(holding).expect_err("too many").place, "holding");
    }
}
