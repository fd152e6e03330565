//! Audit rows: who changed what, written in the commit of the change.

use durable_core::{Payload, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Who asks for a change, and by which operation. All rows that the operation leaves carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditNote {
    /// The request: what it changed has this in common.
    pub request_id: Uuid,
    /// Whoever asks, such as a token's name.
    pub actor: String,
    /// In which role.
    pub role: String,
    /// The operation's name, such as `terminate_workflow`.
    pub action: String,
    /// The key under which the caller may send the request again.
    pub idempotency_key: Option<String>,
    /// The instant that the rows are dated with, absent in production: then it is the commit's.
    pub now: Option<Timestamp>,
    /// Number of the request's row, where it is noted beside others ([`AuditNotes::Each`]): rows of one request that come by several calls are
    /// told apart by it.
    pub row: u32,
}

impl AuditNote {
    /// A request by somebody in a role.
    pub fn new(
        request_id: Uuid,
        actor: impl Into<String>,
        role: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        Self {
            request_id,
            actor: actor.into(),
            role: role.into(),
            action: action.into(),
            idempotency_key: None,
            now: None,
            row: 0,
        }
    }
}

/// Whose changes leave rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditNotes {
    /// Everything is by one request.
    One(AuditNote),
    /// Items of one call for several callers: whoever asks for the first, the second and so on. None leaves no row.
    Each(Vec<Option<AuditNote>>),
}

impl AuditNotes {
    /// The same, of this instant; for worlds that keep their own time.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        let date = |note: &mut AuditNote| note.now = Some(now);
        match &mut self {
            Self::One(note) => date(note),
            Self::Each(each) => each.iter_mut().flatten().for_each(date),
        }
        self
    }
}

impl From<AuditNote> for AuditNotes {
    fn from(note: AuditNote) -> Self {
        Self::One(note)
    }
}

/// What kind of thing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// A run, by its id.
    Run,
    /// A dead letter, by its id.
    DeadLetter,
    /// Dead letters, by what selected them: an activity type, or `*` for all.
    DeadLetters,
    /// A schedule, by its id.
    Schedule,
    /// A worker, by its id.
    Worker,
    /// A circuit breaker, by its key.
    Breaker,
}

impl AuditKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Run,
        Self::DeadLetter,
        Self::DeadLetters,
        Self::Schedule,
        Self::Worker,
        Self::Breaker,
    ];

    /// The stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::DeadLetter => "dead_letter",
            Self::DeadLetters => "dead_letters",
            Self::Schedule => "schedule",
            Self::Worker => "worker",
            Self::Breaker => "breaker",
        }
    }

    /// Reads the stored name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditTarget {
    /// What kind of thing.
    pub kind: AuditKind,
    /// Which one.
    pub id: String,
}

/// One change as it was noted. Only appended: nothing changes a row, and only its age deletes it
/// ([`crate::persistence::limits::AUDIT_DAYS`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its id: a UUIDv7 dated by `at`, so that the order of ids is the order of time to the millisecond.
    pub id: Uuid,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// The request.
    pub request_id: Uuid,
    /// Whoever asked.
    pub actor: String,
    /// In which role.
    pub role: String,
    /// By which operation.
    pub action: String,
    /// The key of the request, if it had one.
    pub idempotency_key: Option<String>,
    /// What was changed.
    pub target: AuditTarget,
    /// More about it: a small JSON object, or nothing. Never a payload of a user's, so that no codec has to pass over it.
    pub detail: Payload,
}

impl AuditRecord {
    /// The smallest id that a row of this instant's millisecond can have.
    #[must_use]
    pub fn first_id_at(at: Timestamp) -> Uuid {
        let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10]).into_uuid()
    }

    /// The id of a request's n-th row. The same for the same arguments, and for no others.
    #[must_use]
    pub fn id_of(at: Timestamp, request_id: Uuid, number: u32) -> Uuid {
        // Twelve bits of the number stand right behind the time, so that the rows of one commit stay in order; the rest of
        // it is mixed into what is random of the request's id.
        let request = u64::from_be_bytes(request_id.as_bytes()[8..].try_into().unwrap_or([0; 8]));
        let rest = (request ^ u64::from(number >> 12)) & ((1 << REST_BITS) - 1);
        dated(at, u64::from(number & 0x0fff) << REST_BITS | rest)
    }
}

/// Bits of an id that are neither its time, nor its number, nor UUID's own.
const REST_BITS: u32 = 50;

/// An id of version 7 whose order is that of the instants, to the microsecond.
fn dated(at: Timestamp, rest: u64) -> Uuid {
    let micros = u64::try_from(at.as_microsecond()).unwrap_or(0);
    let within = u16::try_from(micros % 1_000).unwrap_or(0);
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&within.to_be_bytes());
    bytes[2..].copy_from_slice(&rest.to_be_bytes());
    uuid::Builder::from_unix_timestamp_millis(micros / 1_000, &bytes).into_uuid()
}

/// Which audit rows; all conditions must hold. Newest first, which is by id from the largest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFilter {
    /// Only by this actor.
    pub actor: Option<String>,
    /// Only by this operation.
    pub action: Option<String>,
    /// Only of this kind.
    pub kind: Option<AuditKind>,
    /// Only of what has this id.
    pub target_id: Option<String>,
    /// Only of this request.
    pub request_id: Option<Uuid>,
    /// Only at or after.
    pub from: Option<Timestamp>,
    /// Only before.
    pub until: Option<Timestamp>,
    /// Continue after this row: only smaller ids.
    pub before: Option<Uuid>,
}

impl AuditFilter {
    /// The smallest id that can pass, by `from`: ids are in the order of time.
    #[must_use]
    pub fn first_id(&self) -> Option<Uuid> {
        self.from.map(AuditRecord::first_id_at)
    }

    /// The id from which on none can pass, by `until` and `before`.
    #[must_use]
    pub fn end_id(&self) -> Option<Uuid> {
        // The millisecond of `until` may hold rows before it.
        let next = |until: Timestamp| until.checked_add(std::time::Duration::from_millis(1));
        let by_time = self.until.and_then(|until| next(until).ok());
        let by_time = by_time.map(AuditRecord::first_id_at);
        [by_time, self.before].into_iter().flatten().min()
    }

    /// Whether a row passes.
    #[must_use]
    pub fn passes(&self, record: &AuditRecord) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        is(self.actor.as_ref(), &record.actor)
            && is(self.action.as_ref(), &record.action)
            && is(self.kind.as_ref(), &record.target.kind)
            && is(self.target_id.as_ref(), &record.target.id)
            && is(self.request_id.as_ref(), &record.request_id)
            && self.from.is_none_or(|from| record.at >= from)
            && self.until.is_none_or(|until| record.at < until)
            && self.before.is_none_or(|before| record.id < before)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn ids_are_in_order_of_time_then_of_the_call() {
        let request = Uuid::from_u128(7);
        let ids: Vec<Uuid> = [(5, 0), (5, 1), (5, 4095), (6, 0)]
            .map(|(millis, number)| AuditRecord::id_of(at(millis), request, number))
            .into();
        assert!(ids.is_sorted(), "{ids:?}");
        assert_eq!(ids[0].get_version_num(), 7);
        assert!(AuditRecord::first_id_at(at(5)) <= ids[0]);
        assert!(AuditRecord::first_id_at(at(6)) > ids[2]);
    }

    #[test]
    fn ids_of_different_requests_are_in_order_of_time() {
        let instant = |micros: i64| Timestamp::from_microsecond(5_000 + micros).unwrap();
        let earlier = AuditRecord::id_of(instant(1), Uuid::max(), 4095);
        let later = AuditRecord::id_of(instant(2), Uuid::nil(), 0);
        assert!(earlier < later, "{earlier} {later}");
    }

    #[test]
    fn no_two_rows_of_a_request_share_an_id() {
        let request = Uuid::from_u128(7);
        let ids: BTreeSet<Uuid> = (0..20_000)
            .map(|number| AuditRecord::id_of(at(5), request, number))
            .collect();
        assert_eq!(ids.len(), 20_000);
    }

    #[test]
    fn bounds_of_ids_leave_out_no_row_that_passes() {
        let until = Timestamp::from_microsecond(5_500).unwrap();
        let filter = AuditFilter {
            from: Some(until),
            until: Some(until),
            ..AuditFilter::default()
        };
        let within = AuditRecord::id_of(until, Uuid::max(), 4095);
        assert!(filter.first_id().unwrap() <= within && within < filter.end_id().unwrap());
        let cut = AuditFilter {
            before: Some(within),
            ..filter
        };
        assert_eq!(cut.end_id(), Some(within));
    }
}
