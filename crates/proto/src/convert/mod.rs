//! Between the wire and the core: every kind of thing has its two directions in one file.
//!
//! What goes out is always possible; what comes in is checked, and the first mistake is named by the place where it stands.

mod action;
mod attribute;
mod failure;
mod item;
mod payload;

pub use action::step_actions;
pub use attribute::{attribute, attributes};
pub use failure::{failure, failure_message};
pub use item::{item, memories, query_item};
pub use payload::{payload, payload_bytes};

use uuid::Uuid;

/// What came in is not what the contract says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Malformed {
    /// The field, such as `lease.task_id`.
    pub place: String,
    /// What is wrong with it, and how to mend it.
    pub problem: String,
}

impl Malformed {
    /// A mistake at a place.
    pub fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            problem: problem.into(),
        }
    }

    /// The same within something larger.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.place = format!("{place}.{}", self.place);
        self
    }
}

/// A field that must be there.
///
/// # Errors
/// Where it is not.
pub fn required<T>(place: &str, value: Option<T>) -> Result<T, Malformed> {
    value.ok_or_else(|| Malformed::new(place, "it is missing"))
}

/// An id that is a UUID.
///
/// # Errors
/// Where it is not.
pub fn uuid(place: &str, text: &str) -> Result<Uuid, Malformed> {
    Uuid::try_parse(text).map_err(|_| Malformed::new(place, format!("{text:?} is not a UUID")))
}

/// A text that must not be empty.
///
/// # Errors
/// Where it is.
pub fn named(place: &str, text: String) -> Result<String, Malformed> {
    if text.is_empty() {
        return Err(Malformed::new(place, "it must not be empty"));
    }
    Ok(text)
}
