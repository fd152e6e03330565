//! The activities that a turn gives up, to be asked to stop once it is committed.

use tokio_util::sync::CancellationToken;

use super::node::Node;
use crate::persistence::model::{Next, TurnCommit};

/// What runs here of a run whose turn is about to be committed.
///
/// Looked up before the commit is sent. When its answer comes late, another process may have begun the run's next iteration, and its
/// activities may run here: they were not given up, although they belong to the same run and may have the same ids.
pub(super) struct Stops(Vec<RunningActivity>);

/// An activity that runs here.
pub(crate) struct RunningActivity {
    /// Not known of a task that was taken over from an earlier connection.
    pub(crate) activity_id: Option<String>,
    /// Asks it to stop.
    pub(crate) cancel: CancellationToken,
}

impl Stops {
    pub(super) fn of(node: &Node, commit: &TurnCommit) -> Self {
        let gives_up_none =
            matches!(commit.next, Next::Wait) && commit.cancelled_activities.is_empty();
        Self(if gives_up_none {
            Vec::new()
        } else {
            node.running_of(commit.run_id)
        })
    }

    /// Asks one of them to stop.
    pub(super) fn activity(&self, activity_id: &str) {
        for running in &self.0 {
            if running.activity_id.as_deref() == Some(activity_id) {
                running.cancel.cancel();
            }
        }
    }

    /// Asks all of them to stop.
    pub(super) fn all(&self) {
        for running in &self.0 {
            running.cancel.cancel();
        }
    }
}
