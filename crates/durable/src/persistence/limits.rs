//! Every limit of the stores, in one place, checked at the edge and the same on all of them.

use durable_core::Payload;

use super::StoreError;

/// Largest payload: input, result, signal, details.
pub const PAYLOAD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest id or key that a user chooses.
pub const ID_BYTES_MAX: usize = 512;
/// Longest type name (workflow, activity, signal, attribute).
pub const NAME_BYTES_MAX: usize = 200;
/// Longest reason, message or other text for people.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Most items in one call of a set-based intent.
pub const BATCH_ITEMS_MAX: usize = 10_000;
/// Most bytes in one call: payloads, failures, logs. All of a call is one transaction and one set of statements, which have to
/// fit in memory on both sides, and in PostgreSQL's largest message (1 GiB) with room to spare.
pub const BATCH_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most stored bytes (inputs, details, messages) that one transaction of a chore or one claim takes
/// up, but for a single item that has more.
/// What does not fit is left to the next transaction.
pub const CHORE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Most children that are told in one transaction that their parent has ended.
pub const CLOSED_CHILDREN_MAX: usize = 1_000;
/// Most tasks, timers or children that one turn may add.
pub const TURN_ITEMS_MAX: usize = 20_000;
/// Most events of one turn, and most updates that it answers: more than the facts that may wait for a run ([`INBOX_FACTS_MAX`]) can bring, each
/// with the attempts it tells of, and what the turn adds itself. A run must not be stopped by what others sent to it.
pub const TURN_EVENTS_MAX: usize = 500_000;
/// Most search attributes of one run: those of its start and of all its turns. One turn removes no
/// more either.
pub const ATTRIBUTES_MAX: usize = 100;
/// Longest text of a search attribute: it has to fit an index entry.
pub const ATTRIBUTE_TEXT_BYTES_MAX: usize = 1024;
/// Facts that may wait for one run; a sender is told to slow down past it.
pub const INBOX_FACTS_MAX: i64 = 100_000;
/// Most facts that one turn takes. A run with more waiting facts takes them in several turns.
pub const TURN_FACTS_MAX: usize = 1_000;
/// Bytes of facts after which a turn takes no further fact: a fact is taken while the facts before
/// it are below this. One fact is always taken, so that a turn's facts exceed this by one fact at
/// most.
pub const TURN_FACTS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The same for all runs of one call that reads turns: runs beyond it come without facts, and are
/// read again by a later call.
pub const SET_FACTS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most events of one page of a history.
pub const HISTORY_PAGE_EVENTS_MAX: usize = 10_000;
/// Bytes of events after which a page of a history ends: an event belongs to it while those before
/// it are below this.
pub const HISTORY_PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most events of a history that is read as a whole: by a query, a reset, an export. The engine
/// itself replays page by page and has no such limit.
pub const HISTORY_READ_EVENTS_MAX: usize = 1_000_000;
/// Most bytes of payloads of such a history.
pub const HISTORY_READ_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of waiting signals that one statement moves into a history when a run ends, or one signal
/// if that is larger. A statement of this size takes well under the statement timeout of the pools.
pub const UNREAD_SLICE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Times a task is handed out without an answer before it is a dead letter.
pub const DELIVERIES_MAX: u32 = 10;
/// Bytes of a failure as it is kept in a list of attempts. A larger one is kept there without its
/// details and causes; the last error of an activity is whole in its event and its dead letter.
pub const ATTEMPT_FAILURE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the message that is left of such a failure.
pub const ATTEMPT_MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Failed attempts of a task that are kept from its beginning; see [`ATTEMPTS_LAST_KEPT`].
pub const ATTEMPTS_FIRST_KEPT: usize = 5;
/// Failed attempts of a task that are kept from its end. While a task has no more than both
/// together, it keeps all; of those in between the
/// number is kept ([`durable_core::AttemptRecord::omitted_before`]).
pub const ATTEMPTS_LAST_KEPT: usize = 20;
/// Longest lease.
pub const LEASE_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Longest timer, delay or timeout: a hundred years.
pub const DURATION_MS_MAX: u64 = 100 * 365 * 24 * 60 * 60 * 1000;
/// Most rows of one page of a list; also the clamp of [`super::model::Page`].
pub const PAGE_ROWS_MAX: usize = 1000;
/// Most rows that one figure of [`super::WorkflowEventStore::counts`] counts: beyond it the figure
/// is a lower bound.
pub const COUNT_ROWS_MAX: u64 = 10_000;
/// Most rows that [`super::WorkflowEventStore::count_waiting`] counts, whatever the caller asks
/// for.
pub const COUNT_WAITING_MAX: u64 = 1_000_000;
/// Most rows of totals that one read answers; a caller that gets so many reads on from the last
/// hour.
pub const ROLLUP_ROWS_MAX: usize = 50_000;
/// Most rows that a page may pass over; a list that goes further takes its cursor.
pub const PAGE_OFFSET_MAX: usize = 10_000;
/// Most bytes of one page of events or log lines; the first row of a page is in it however large
/// it is.
pub const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Runs that one call of a list examines at most, where no index answers all of its filters.
pub const LIST_EXAMINED_MAX: usize = 20_000;
/// How far a count goes unless it is asked to be exact.
pub const COUNT_MAX: usize = 10_000;
/// Most of a text that a list repeats, such as an error's message.
pub const LISTED_TEXT_BYTES_MAX: usize = 1024;
/// Of a stored failure, what a list reads: enough for [`LISTED_TEXT_BYTES_MAX`] of its message even
/// where every character is escaped.
pub const FAILURE_HEAD_BYTES: usize = 12 * 1024;
/// Failed attempts of a task are read by a list if all of them together are no larger than this.
pub const ATTEMPTS_LISTED_BYTES_MAX: usize = 16 * 1024;
/// How long the id of a deleted run stays refused.
pub const TOMBSTONE_DAYS: i64 = 30;
/// Totals older than that are kept as one row for all days, not by the day.
pub const ROLLUP_DAYS: i64 = 400;
/// How long an audit row is kept: a year and some, so that a yearly review finds all of its year.
pub const AUDIT_DAYS: i64 = 400;
/// Most of a text that an audit row repeats, such as a reason.
pub const AUDIT_TEXT_BYTES_MAX: usize = 1024;
/// Most shards of one database.
pub const SHARDS_MAX: u16 = 1024;

/// Refuses a payload that is too large.
///
/// # Errors
/// [`StoreError::Limit`].
pub fn check_payload(what: &'static str, payload: &Payload) -> Result<(), StoreError> {
    check_len(what, payload.len(), PAYLOAD_BYTES_MAX)
}

/// Refuses an id that is empty, too long, or holds a NUL (which PostgreSQL's text cannot).
///
/// # Errors
/// [`StoreError::Limit`] or [`StoreError::Invalid`].
pub fn check_id(what: &'static str, id: &str) -> Result<(), StoreError> {
    check_text(what, id, ID_BYTES_MAX)?;
    if id.is_empty() {
        return Err(StoreError::Invalid(format!("{what} is empty")));
    }
    Ok(())
}

/// Refuses a type name that is empty, too long, or holds a NUL.
///
/// # Errors
/// [`StoreError::Limit`] or [`StoreError::Invalid`].
pub fn check_name(what: &'static str, name: &str) -> Result<(), StoreError> {
    check_len(what, name.len(), NAME_BYTES_MAX)?;
    check_id(what, name)
}

/// Refuses a text that is too long or holds a NUL.
///
/// # Errors
/// [`StoreError::Limit`] or [`StoreError::Invalid`].
pub fn check_text(what: &'static str, text: &str, limit: usize) -> Result<(), StoreError> {
    check_len(what, text.len(), limit)?;
    if text.contains('\0') {
        return Err(StoreError::Invalid(format!("{what} holds a NUL character")));
    }
    Ok(())
}

/// Makes a text for people one that [`check_text`] takes: cut at a character's end, every NUL replaced.
#[must_use]
pub fn clip(text: String, limit: usize) -> String {
    let mut text = if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text
    };
    text.truncate(text.floor_char_boundary(limit));
    text
}

/// Refuses a page that passes over too many rows.
///
/// # Errors
/// [`StoreError::Limit`].
pub fn check_page(page: super::model::Page) -> Result<(), StoreError> {
    check_len("the offset of a page", page.offset, PAGE_OFFSET_MAX)
}

/// Refuses a call with too many items.
///
/// # Errors
/// [`StoreError::Limit`].
pub fn check_batch(what: &'static str, items: usize) -> Result<(), StoreError> {
    check_len(what, items, BATCH_ITEMS_MAX)
}

/// Refuses a call that brings too many bytes.
///
/// # Errors
/// [`StoreError::Limit`].
pub fn check_batch_bytes(bytes: usize) -> Result<(), StoreError> {
    check_len("the bytes of one call", bytes, BATCH_BYTES_MAX)
}

/// Refuses what is larger than its limit.
///
/// # Errors
/// [`StoreError::Limit`].
pub fn check_len(what: &'static str, found: usize, limit: usize) -> Result<(), StoreError> {
    if found > limit {
        Err(StoreError::Limit { what, found, limit })
    } else {
        Ok(())
    }
}

/// Refuses a duration that is not kept exactly: they are stored in whole milliseconds.
///
/// # Errors
/// [`StoreError::Limit`] or [`StoreError::Invalid`].
pub fn check_stored_duration(
    what: &'static str,
    duration: std::time::Duration,
) -> Result<(), StoreError> {
    check_duration(what, duration)?;
    if !duration.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(StoreError::Invalid(format!(
            "{what} is not in whole milliseconds; round it"
        )));
    }
    Ok(())
}

/// Refuses a duration past a hundred years.
///
/// # Errors
/// [`StoreError::Limit`].
pub fn check_duration(what: &'static str, duration: std::time::Duration) -> Result<(), StoreError> {
    let millis = usize::try_from(duration.as_millis()).unwrap_or(usize::MAX);
    check_len(
        what,
        millis,
        usize::try_from(DURATION_MS_MAX).unwrap_or(usize::MAX),
    )
}

/// How many of these items, taken in order, have no more than [`CHORE_BYTES_MAX`] bytes together;
/// the first in any case.
#[must_use]
pub fn fitting(bytes: impl IntoIterator<Item = u64>) -> usize {
    let mut total = 0_u64;
    let fits = |bytes: &u64| {
        let is_first = total == 0;
        total = total.saturating_add((*bytes).max(1));
        is_first || total <= CHORE_BYTES_MAX
    };
    bytes.into_iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clipped_text_is_one_that_is_taken() {
        assert_eq!(clip("short".to_owned(), 16), "short");
        assert_eq!(clip("a\0b".to_owned(), 16), "a\u{fffd}b");
        assert_eq!(clip("ööö".to_owned(), 3), "ö", "no character is cut in two");
        for hostile in ["\0".repeat(20_000), "ü".repeat(20_000)] {
            check_text("text", &clip(hostile, TEXT_BYTES_MAX), TEXT_BYTES_MAX).unwrap();
        }
    }
}
