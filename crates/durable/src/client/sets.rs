//! The sets that clients' calls are gathered into.

use std::sync::Arc;

use async_trait::async_trait;

use super::gather::Ask;
use crate::persistence::model::{SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun};
use crate::persistence::{StoreResult, WorkflowEventStore};

/// Starts.
pub(super) struct Starts(pub(super) Arc<dyn WorkflowEventStore>);

#[async_trait]
impl Ask for Starts {
    type Item = StartRun;
    type Answer = StartOutcome;

    async fn ask(&self, starts: Vec<StartRun>) -> StoreResult<Vec<StartOutcome>> {
        self.0.start_runs(starts, None).await
    }
}

/// Signals.
pub(super) struct Signals(pub(super) Arc<dyn WorkflowEventStore>);

#[async_trait]
impl Ask for Signals {
    type Item = SendSignal;
    type Answer = SendOutcome;

    async fn ask(&self, signals: Vec<SendSignal>) -> StoreResult<Vec<SendOutcome>> {
        self.0.send_signals(signals, None).await
    }
}

/// Updates.
pub(super) struct Updates(pub(super) Arc<dyn WorkflowEventStore>);

#[async_trait]
impl Ask for Updates {
    type Item = SendUpdate;
    type Answer = SendOutcome;

    async fn ask(&self, updates: Vec<SendUpdate>) -> StoreResult<Vec<SendOutcome>> {
        self.0.send_updates(updates, None).await
    }
}
