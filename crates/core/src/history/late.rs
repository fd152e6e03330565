//! Facts that come too late.

use uuid::Uuid;

use super::ledger::Ledger;
use super::open_items::OpenItems;
use crate::fact::Fact;

impl OpenItems {
    /// Whether what the fact belongs to is over already. What was never asked for is not.
    pub(super) fn is_late(&self, fact: &Fact) -> bool {
        match fact {
            Fact::ActivityCompleted { activity_id, .. }
            | Fact::ActivityFailed { activity_id, .. }
            | Fact::ActivityTimedOut { activity_id, .. }
            | Fact::LocalActivityCompleted { activity_id, .. }
            | Fact::LocalActivityFailed { activity_id, .. } => self.activities.is_over(activity_id),
            Fact::TimerFired { timer_id } => self.timers.is_over(timer_id),
            Fact::ChildCompleted {
                workflow_id,
                child_id,
                ..
            }
            | Fact::ChildFailed {
                workflow_id,
                child_id,
                ..
            } => is_of_former_child(&self.children, child_id, *workflow_id),
            Fact::UpdateAccepted { update_id, .. } => self.updates.knows(update_id),
            Fact::HumanTaskDecided { task_id, .. } => self.human_tasks.is_over(task_id),
            Fact::Started { .. } | Fact::SignalReceived { .. } | Fact::CancelRequested { .. } => {
                false
            }
        }
    }
}

/// A reset starts a child of the same name as another run; the former one may still report.
fn is_of_former_child(children: &Ledger<Uuid>, child_id: &str, run_id: Uuid) -> bool {
    children.knows(child_id) && children.get_open(child_id) != Ok(&run_id)
}
