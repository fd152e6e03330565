//! The form of calls and answers on the wire.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::persistence::model::WorkflowStatus;
use crate::persistence::{Ring, StoreError, StoreResult};

/// Version of the form; raised whenever an end could misread the other. Fields that are added with a default do not need it.
pub const WIRE_VERSION: u32 = 5;

/// Deepest nesting of a document. Failures have causes, which have causes; nothing else nests.
const DEPTH_MAX: usize = 256;

/// A document is not what the contract says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be read: {problem}; both ends have to be of the same version of Durable")]
pub struct Mistake {
    what: String,
    problem: String,
}

impl Mistake {
    pub(super) fn new(what: &str, problem: &str) -> Self {
        Self {
            what: what.to_owned(),
            problem: problem.to_owned(),
        }
    }

    pub(super) fn unknown_method(name: &str) -> Self {
        let name: String = name.chars().take(100).collect();
        Self {
            what: format!("a call of {name:?}"),
            problem: "the contract has no such method".to_owned(),
        }
    }
}

/// Writes a document.
pub(super) fn write<T: Serialize>(value: &T) -> StoreResult<Vec<u8>> {
    rmp_serde::to_vec_named(value)
        .map_err(|error| StoreError::Invalid(format!("a call cannot be written: {error}")))
}

/// Reads a document.
pub(super) fn read<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, Mistake> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut reader).map_err(|error| Mistake {
        what: what.to_owned(),
        problem: error.to_string(),
    })
}

/// Writes a ring.
///
/// # Errors
/// None that can happen: every ring has a form.
pub fn write_ring(ring: &Ring) -> StoreResult<Vec<u8>> {
    write(ring)
}

/// Reads a ring.
///
/// # Errors
/// [`Mistake`] where it is none.
pub fn read_ring(bytes: &[u8]) -> Result<Ring, Mistake> {
    let mut ring = Ring::default();
    // Bounds the names, whoever sent them.
    ring.merge(read("a ring", bytes)?);
    Ok(ring)
}

/// A store's error on the wire. Its source stays behind; the text has it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failed {
    Conflict(String),
    LeaseLost(Uuid),
    NotFound {
        what: String,
        id: String,
    },
    Invalid(String),
    Limit {
        what: String,
        found: u64,
        limit: u64,
    },
    RunFinished {
        run_id: Uuid,
        status: WorkflowStatus,
    },
    Unavailable(String),
    Corrupt(String),
    Schema(String),
    Denied(String),
    Overloaded {
        pending: u64,
        capacity: u64,
        retry_after_ms: u64,
    },
    Busy {
        runs: Vec<Uuid>,
    },
    TooBroad {
        limit_ms: u64,
    },
    /// One that this version has no word for.
    Other(String),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        let text = with_causes(&error);
        match error {
            StoreError::Conflict(text) => Self::Conflict(text),
            StoreError::Busy { runs } => Self::Busy { runs },
            StoreError::LeaseLost(task) => Self::LeaseLost(task),
            StoreError::NotFound { what, id } => Self::NotFound {
                what: what.to_owned(),
                id,
            },
            StoreError::Invalid(text) => Self::Invalid(text),
            StoreError::Limit { what, found, limit } => Self::Limit {
                what: what.to_owned(),
                found: found as u64,
                limit: limit as u64,
            },
            StoreError::RunFinished { run_id, status } => Self::RunFinished { run_id, status },
            StoreError::Unavailable { .. } => Self::Unavailable(text),
            StoreError::Corrupt { .. } => Self::Corrupt(text),
            StoreError::Schema(text) => Self::Schema(text),
            StoreError::Denied(text) => Self::Denied(text),
            StoreError::Overloaded {
                pending,
                capacity,
                retry_after_ms,
            } => Self::Overloaded {
                pending,
                capacity,
                retry_after_ms,
            },
            StoreError::TooBroad { limit_ms } => Self::TooBroad { limit_ms },
            error if error.is_retryable() => Self::Unavailable(text),
            _ => Self::Other(text),
        }
    }
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        match failed {
            Failed::Conflict(text) => Self::Conflict(text),
            Failed::Busy { runs } => Self::Busy { runs },
            Failed::LeaseLost(task) => Self::LeaseLost(task),
            Failed::NotFound { what, id } => Self::NotFound {
                what: kept(&what),
                id,
            },
            Failed::Invalid(text) => Self::Invalid(text),
            Failed::Limit { what, found, limit } => Self::Limit {
                what: kept(&what),
                found: size(found),
                limit: size(limit),
            },
            Failed::RunFinished { run_id, status } => Self::RunFinished { run_id, status },
            Failed::Unavailable(message) => Self::Unavailable {
                message,
                source: None,
            },
            Failed::Corrupt(message) | Failed::Other(message) => Self::Corrupt {
                message,
                source: None,
            },
            Failed::TooBroad { limit_ms } => Self::TooBroad { limit_ms },
            Failed::Schema(text) => Self::Schema(text),
            Failed::Denied(text) => Self::Denied(text),
            Failed::Overloaded {
                pending,
                capacity,
                retry_after_ms,
            } => Self::Overloaded {
                pending,
                capacity,
                retry_after_ms,
            },
        }
    }
}

/// An error and its causes, each said once.
fn with_causes(error: &StoreError) -> String {
    let mut text = match error {
        // Their words are said again by whoever reads this.
        StoreError::Unavailable { message, .. } | StoreError::Corrupt { message, .. } => {
            message.clone()
        }
        error => error.to_string(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// Most names that are kept.
const NAMES_MAX: usize = 256;
/// Longest of them.
const NAME_BYTES_MAX: usize = 100;

/// The name for good: an error's `what` is one of the few that the other end's code has, so that each is kept once.
fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return known;
    }
    if names.len() >= NAMES_MAX || name.len() > NAME_BYTES_MAX {
        return "something";
    }
    let name = &*Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}

#[cfg(test)]
mod tests {
    use durable_core::{Failure, Payload, WorkflowEvent};

    use super::*;
    use crate::persistence::model::{NewSignal, NewUpdate, Next, Rejection, RunRecord, StartRun};

    fn there_and_back<T: Serialize + DeserializeOwned>(value: &T) -> T {
        read("it", &write(value).expect("written")).expect("read")
    }

    #[test]
    fn payloads_cross_as_they_are_stored() {
        let json = Payload::from_json_text(r#" {"a":9007199254740993,"a":"\u0000"} "#).unwrap();
        let codec = Payload::from_codec(vec![0, 255, 1]).unwrap();
        for payload in [Payload::ABSENT, Payload::null(), json, codec] {
            assert_eq!(there_and_back(&payload), payload);
            let event = WorkflowEvent::ActivityFailed {
                activity_id: "a".to_owned(),
                error: Failure::new("X", "y").with_details(payload.clone()),
                will_retry: true,
            };
            assert_eq!(there_and_back(&event), event);
            let event = WorkflowEvent::WorkflowStarted {
                input: payload.clone(),
            };
            assert_eq!(there_and_back(&event), event);
            let mut start = StartRun::new(Uuid::from_u128(1), "order", payload.clone());
            start.signals = vec![NewSignal {
                signal_id: Uuid::from_u128(2),
                signal_type: "s".to_owned(),
                payload: payload.clone(),
            }];
            start.updates = vec![NewUpdate {
                update_id: "u".to_owned(),
                name: "n".to_owned(),
                input: payload.clone(),
            }];
            assert_eq!(there_and_back(&start), start);
        }
        let bytes = write(&Payload::null()).unwrap();
        assert_eq!(&bytes[bytes.len() - 4..], b"null");
    }

    #[test]
    fn bytes_that_are_no_payload_are_refused() {
        for bad in [&b"{"[..], b"\"\\ud800\"", b"\xff"] {
            let mut document = vec![0xc4, u8::try_from(bad.len()).unwrap()];
            document.extend(bad);
            assert!(read::<Payload>("it", &document).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
            read::<Vec<StartRun>>("it", &bytes).ok();
            read::<(Vec<RunRecord>, Next)>("it", &bytes).ok();
            read_ring(&bytes).ok();
        }
        let deep = vec![0x91; 100_000];
        assert!(read::<Failure>("it", &deep).is_err());
    }

    #[test]
    fn errors_keep_what_callers_ask_them() {
        let cross = |error: StoreError| StoreError::from(there_and_back(&Failed::from(error)));
        assert!(cross(StoreError::Conflict("x".to_owned())).is_retryable());
        let lost = StoreError::unavailable("no answer", "the wire is cut");
        let crossed = cross(lost);
        assert!(crossed.is_outcome_unknown());
        assert_eq!(
            crossed.to_string(),
            "the store is unavailable: no answer: the wire is cut"
        );
        let limit = cross(StoreError::Limit {
            what: "a payload",
            found: 2,
            limit: 1,
        });
        assert_eq!(limit.to_string(), "a payload is 2, the limit is 1");
        assert!(limit.is_refusal());
        let overloaded = crate::Error::from(cross(StoreError::Overloaded {
            pending: 11,
            capacity: 1,
            retry_after_ms: 5_000,
        }));
        assert!(overloaded.is_overloaded() && overloaded.is_retryable());
        assert_eq!(overloaded.retry_after().map(|time| time.as_secs()), Some(5));
        let rejection = Rejection::IdInUse {
            what: "timer",
            id: "t".to_owned(),
        };
        assert_eq!(there_and_back(&rejection), rejection);
    }
}
