//! Who a run is, and who its children are.

use uuid::Uuid;

/// What tells one stretch of a run's history from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunIdentity {
    /// The run's id.
    pub run_id: Uuid,
    /// Raised by every reset.
    pub epoch: u32,
    /// Raised by every continue-as-new.
    pub iteration: u32,
}

impl RunIdentity {
    /// A run at its beginning.
    #[must_use]
    pub const fn new(run_id: Uuid) -> Self {
        Self {
            run_id,
            epoch: 0,
            iteration: 0,
        }
    }

    /// The run id of a child it starts now.
    #[must_use]
    pub fn child_run_id(&self, child_id: &str) -> Uuid {
        child_run_id(self.run_id, self.epoch, self.iteration, child_id)
    }
}

/// The run id of a child: derived, so that starting it twice is starting it once, and different in
/// every epoch and iteration, so that a name used again is another child.
///
/// ```
/// use durable_core::child_run_id;
/// use uuid::Uuid;
///
/// let parent = Uuid::from_u128(1);
/// assert_eq!(child_run_id(parent, 0, 0, "a"), child_run_id(parent, 0, 0, "a"));
/// assert_ne!(child_run_id(parent, 0, 0, "a"), child_run_id(parent, 1, 0, "a"));
/// assert_ne!(child_run_id(parent, 0, 0, "a"), child_run_id(parent, 0, 1, "a"));
/// ```
#[must_use]
pub fn child_run_id(parent: Uuid, epoch: u32, iteration: u32, child_id: &str) -> Uuid {
    Uuid::new_v5(
        &parent,
        format!("{epoch}/{iteration}/{child_id}").as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_id_never_changes_between_releases() {
        let id = child_run_id(Uuid::from_u128(7), 1, 2, "ship");
        assert_eq!(id.to_string(), "51e0e336-1625-5af6-b10e-48d60b8bbfd4");
    }
}
