//! Where a list goes on: opaque, and of that list only.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::problem::{Code, Problem};

/// Which list a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum List {
    Runs = 1,
    Events = 2,
    Tasks = 3,
    DeadLetters = 4,
    Schedules = 5,
    Logs = 6,
    Audit = 7,
}

/// Bytes of the checksum: enough against accident and guessing; what a cursor can reach is the caller's to see anyway.
const CHECK_BYTES: usize = 6;

/// A cursor behind a row, by its place in the list's order: rows that come and go meanwhile shift no page.
pub(super) fn after(list: List, place: &impl Serialize) -> String {
    seal(list, &serde_json::to_vec(place).unwrap_or_default())
}

/// The place that a cursor stands behind; without one, none.
pub(super) fn place<P: DeserializeOwned>(
    list: List,
    cursor: Option<&str>,
) -> Result<Option<P>, Problem> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let place = serde_json::from_slice(&open(list, cursor)?);
    place.map(Some).map_err(|_| foreign())
}

fn seal(list: List, what: &[u8]) -> String {
    let mut bytes = vec![list as u8];
    bytes.extend_from_slice(what);
    let check = check(&bytes);
    bytes.extend_from_slice(&check);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(list: List, cursor: &str) -> Result<Vec<u8>, Problem> {
    let bytes = unhex(cursor).ok_or_else(foreign)?;
    let split = bytes.len().checked_sub(CHECK_BYTES).ok_or_else(foreign)?;
    let (sealed, found) = bytes.split_at(split);
    match sealed.split_first() {
        Some((kind, what)) if *kind == list as u8 && found == check(sealed) => Ok(what.to_vec()),
        _ => Err(foreign()),
    }
}

fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hash = Sha256::new();
    hash.update(b"durable cursor");
    hash.update(bytes);
    let digest = hash.finalize();
    std::array::from_fn(|at| digest[at])
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair[1]).ok();
    digits.chunks_exact(2).map(byte).collect()
}

fn foreign() -> Problem {
    Problem::new(
        Code::InvalidCursor,
        "the cursor was not given out by this list",
    )
    .hint("send `next_cursor` of the page before, unchanged, or none to begin")
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn cursor_reads_what_it_writes() {
        let seven = Uuid::from_u128(7);
        let cursor = after(List::Runs, &seven);
        assert_eq!(place(List::Runs, Some(&cursor)).unwrap(), Some(seven));
        assert!(place::<Uuid>(List::Audit, Some(&cursor)).is_err());
        assert!(place::<i64>(List::Runs, Some(&cursor)).is_err());
        assert_eq!(place::<Uuid>(List::Runs, None).unwrap(), None);
        let name = "ä\"\\".to_owned();
        let cursor = after(List::Schedules, &name);
        assert_eq!(place(List::Schedules, Some(&cursor)).unwrap(), Some(name));
    }

    #[test]
    fn changed_and_foreign_cursors_are_refused() {
        let cursor = after(List::Tasks, &9_i64);
        let read = |list, cursor: &str| place::<i64>(list, Some(cursor));
        assert!(read(List::Logs, &cursor).is_err());
        for at in 0..cursor.len() {
            let mut changed: Vec<char> = cursor.chars().collect();
            changed[at] = if changed[at] == '0' { '1' } else { '0' };
            let changed: String = changed.into_iter().collect();
            assert!(read(List::Tasks, &changed).is_err(), "{changed}");
        }
        for bad in ["", "zz", "0", "ä"] {
            assert!(read(List::Tasks, bad).is_err(), "{bad}");
        }
    }
}
