//! The sets that clients' calls are gathered into.

use std::sync::Arc;

use async_trait::async_trait;

use super::acting::no_audit;
use super::gather::Ask;
use crate::persistence::model::{
    AuditNote, AuditNotes, SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun,
};
use crate::persistence::{StoreResult, WorkflowEventStore};

/// One item of a set, and whoever asks for it, if that is to be noted.
#[derive(Clone)]
pub(super) struct Asked<T> {
    pub(super) item: T,
    pub(super) note: Option<AuditNote>,
}

/// The items of a set, and the store that notes who asks for which.
fn noting<T>(
    store: &Arc<dyn WorkflowEventStore>,
    asked: Vec<Asked<T>>,
) -> StoreResult<(Vec<T>, Arc<dyn WorkflowEventStore>)> {
    let (items, notes): (Vec<T>, Vec<Option<AuditNote>>) = asked
        .into_iter()
        .map(|asked| (asked.item, asked.note))
        .unzip();
    if notes.iter().all(Option::is_none) {
        return Ok((items, Arc::clone(store)));
    }
    let view = store.audited(AuditNotes::Each(notes))?;
    Ok((items, view.ok_or_else(no_audit)?))
}

/// Starts.
pub(super) struct Starts(pub(super) Arc<dyn WorkflowEventStore>);

#[async_trait]
impl Ask for Starts {
    type Item = Asked<StartRun>;
    type Answer = StartOutcome;

    async fn ask(&self, starts: Vec<Self::Item>) -> StoreResult<Vec<StartOutcome>> {
        let (starts, store) = noting(&self.0, starts)?;
        store.start_runs(starts, None).await
    }
}

/// Signals.
pub(super) struct Signals(pub(super) Arc<dyn WorkflowEventStore>);

#[async_trait]
impl Ask for Signals {
    type Item = Asked<SendSignal>;
    type Answer = SendOutcome;

    async fn ask(&self, signals: Vec<Self::Item>) -> StoreResult<Vec<SendOutcome>> {
        let (signals, store) = noting(&self.0, signals)?;
        store.send_signals(signals, None).await
    }
}

/// Updates.
pub(super) struct Updates(pub(super) Arc<dyn WorkflowEventStore>);

#[async_trait]
impl Ask for Updates {
    type Item = Asked<SendUpdate>;
    type Answer = SendOutcome;

    async fn ask(&self, updates: Vec<Self::Item>) -> StoreResult<Vec<SendOutcome>> {
        let (updates, store) = noting(&self.0, updates)?;
        store.send_updates(updates, None).await
    }
}
