//! The sets that clients' calls are gathered into.

use std::slice;
use std::sync::Arc;

use async_trait::async_trait;
use durable_core::Payload;
use uuid::Uuid;

use super::acting::no_audit;
use super::gather::Ask;
use crate::persistence::model::{
    AuditNote, AuditNotes, SendOutcome, SendSignal, SendUpdate, StartOutcome, StartRun,
};
use crate::persistence::{StoreResult, WorkflowEventStore, check};

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

/// Checks a start as the store will. What a codec makes of its payloads is known only afterwards.
///
/// # Errors
/// What the store would refuse the start for.
pub(super) fn check_start(store: &dyn WorkflowEventStore, start: &StartRun) -> StoreResult<()> {
    if !store.encodes_payloads() {
        return check::start(start);
    }
    let mut start = start.clone();
    (start.input, start.memo) = (Payload::null(), Payload::null());
    for signal in &mut start.signals {
        signal.payload = Payload::null();
    }
    for update in &mut start.updates {
        update.input = Payload::null();
    }
    check::start(&start)
}

/// Starts.
pub(super) struct Starts(pub(super) Arc<dyn WorkflowEventStore>);

#[async_trait]
impl Ask for Starts {
    type Item = Asked<StartRun>;
    type Answer = StartOutcome;

    fn check(&self, asked: &Self::Item) -> StoreResult<()> {
        asked.note.as_ref().map_or(Ok(()), check::note)?;
        check_start(&*self.0, &asked.item)
    }

    fn bytes(&self, asked: &Self::Item) -> usize {
        check::bytes_of_starts(slice::from_ref(&asked.item))
    }

    fn run_of(start: &Self::Item) -> Uuid {
        start.item.run_id
    }

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

    fn check(&self, asked: &Self::Item) -> StoreResult<()> {
        asked.note.as_ref().map_or(Ok(()), check::note)?;
        if self.0.encodes_payloads() {
            let mut sent = asked.item.clone();
            sent.signal.payload = Payload::null();
            return check::signals(slice::from_ref(&sent));
        }
        check::signals(slice::from_ref(&asked.item))
    }

    fn bytes(&self, asked: &Self::Item) -> usize {
        check::bytes_of_signals(slice::from_ref(&asked.item))
    }

    fn run_of(signal: &Self::Item) -> Uuid {
        signal.item.run_id
    }

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

    fn check(&self, asked: &Self::Item) -> StoreResult<()> {
        asked.note.as_ref().map_or(Ok(()), check::note)?;
        if self.0.encodes_payloads() {
            let mut sent = asked.item.clone();
            sent.update.input = Payload::null();
            return check::updates(slice::from_ref(&sent));
        }
        check::updates(slice::from_ref(&asked.item))
    }

    fn bytes(&self, asked: &Self::Item) -> usize {
        check::bytes_of_updates(slice::from_ref(&asked.item))
    }

    fn run_of(update: &Self::Item) -> Uuid {
        update.item.run_id
    }

    async fn ask(&self, updates: Vec<Self::Item>) -> StoreResult<Vec<SendOutcome>> {
        let (updates, store) = noting(&self.0, updates)?;
        store.send_updates(updates, None).await
    }
}
