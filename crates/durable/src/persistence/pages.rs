//! Histories, page by page.

use durable_core::Payload;
use uuid::Uuid;

use super::limits::{HISTORY_READ_BYTES_MAX, HISTORY_READ_EVENTS_MAX, check_len};
use super::model::{History, HistoryEvent};
use super::{StoreResult, WorkerPort};

/// All events of a run with a sequence number above `after`, read page by page, and the run as the
/// last page found it. None: no such run.
///
/// # Errors
/// [`StoreError::Limit`](super::StoreError::Limit) for a history beyond
/// [`HISTORY_READ_EVENTS_MAX`] or [`HISTORY_READ_BYTES_MAX`], since all of it is held in memory at
/// once; the store's.
pub async fn whole_history<P: WorkerPort + ?Sized>(
    store: &P,
    run_id: Uuid,
    after: i64,
) -> StoreResult<Option<History>> {
    read(store, run_id, after, |_| {}).await
}

/// The same without the payloads of the events.
///
/// # Errors
/// Those of [`whole_history`]; payloads do not count.
pub(crate) async fn history_without_payloads<P: WorkerPort + ?Sized>(
    store: &P,
    run_id: Uuid,
    after: i64,
) -> StoreResult<Option<History>> {
    read(store, run_id, after, |event| {
        if let Some(payload) = event.event.payload_mut() {
            *payload = Payload::ABSENT;
        }
    })
    .await
}

/// Reads page by page and keeps of each event what `reduce` leaves.
async fn read<P: WorkerPort + ?Sized>(
    store: &P,
    run_id: Uuid,
    after: i64,
    reduce: impl Fn(&mut HistoryEvent) + Send,
) -> StoreResult<Option<History>> {
    let Some(mut page) = store.load_history(run_id, after).await? else {
        return Ok(None);
    };
    let (mut events, mut bytes) = (Vec::new(), 0);
    loop {
        let last = page.events.last().map(|event| event.sequence_num);
        for mut event in page.events {
            reduce(&mut event);
            bytes += event.event.payload().map_or(0, Payload::len);
            events.push(event);
        }
        check_len(
            "events of the history",
            events.len(),
            HISTORY_READ_EVENTS_MAX,
        )?;
        check_len("bytes of the history", bytes, HISTORY_READ_BYTES_MAX)?;
        let run = page.run;
        let Some(last) = last.filter(|last| *last < run.sequence) else {
            return Ok(Some(History { run, events }));
        };
        match store.load_history(run_id, last).await? {
            Some(next) => page = next,
            None => return Ok(None),
        }
    }
}
