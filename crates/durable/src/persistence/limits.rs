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
/// Most tasks, timers or children that one turn may add.
pub const TURN_ITEMS_MAX: usize = 20_000;
/// Most events of one turn, and most updates that it answers: more than the facts that may wait for a run ([`INBOX_FACTS_MAX`]) can bring, each
/// with the attempts it tells of, and what the turn adds itself. A run must not be stopped by what others sent to it.
pub const TURN_EVENTS_MAX: usize = 500_000;
/// Most search attributes of one run.
pub const ATTRIBUTES_MAX: usize = 100;
/// Longest text of a search attribute: it has to fit an index entry.
pub const ATTRIBUTE_TEXT_BYTES_MAX: usize = 1024;
/// Facts that may wait for one run; a sender is told to slow down past it.
pub const INBOX_FACTS_MAX: i64 = 100_000;
/// Times a task is handed out without an answer before it is a dead letter.
pub const DELIVERIES_MAX: u32 = 10;
/// Longest lease.
pub const LEASE_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Longest timer, delay or timeout: a hundred years.
pub const DURATION_MS_MAX: u64 = 100 * 365 * 24 * 60 * 60 * 1000;
/// Most rows of one page of a list; also the clamp of [`super::model::Page`].
pub const PAGE_ROWS_MAX: usize = 1000;
/// How long the id of a deleted run stays refused.
pub const TOMBSTONE_DAYS: i64 = 30;
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
