//! Runs whose due items or messages a store cannot handle, set aside so that they stop nothing
//! else.

use std::collections::BTreeMap;
use std::time::Duration;

use durable_core::Timestamp;
use parking_lot::Mutex;
use uuid::Uuid;

use super::limits::{AUDIT_TEXT_BYTES_MAX, clip};
use super::model::after;

/// What of a run is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AsideKind {
    /// Its deadline.
    Deadline,
    /// Its timers.
    Timer,
    /// Clocks of its tasks.
    Task,
    /// Leases of its tasks.
    Lease,
    /// Messages that it sent.
    Message,
    /// A turn that was decided and cannot be committed.
    Turn,
    /// Results of its activities.
    Result,
}

impl AsideKind {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Timer => "timer",
            Self::Task => "task",
            Self::Lease => "lease",
            Self::Message => "message",
            Self::Turn => "turn",
            Self::Result => "result",
        }
    }
}

/// A run of which something is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAside {
    /// The run.
    pub run_id: Uuid,
    /// What of it.
    pub kind: AsideKind,
    /// Why: what the store failed with, with this alone.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Since when.
    pub since: Timestamp,
    /// When it is tried again by itself.
    pub next_try: Timestamp,
}

/// First wait before what was set aside is tried again; doubles up to the largest.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
/// Largest such wait.
const AGAIN_MAX: Duration = Duration::from_secs(3600);
/// Most runs that are set aside; beyond that the chore fails as a whole, and is seen to.
const ASIDES_MAX: usize = 1_000;

/// What this process has set aside.
#[derive(Debug, Default)]
pub struct Asides(Mutex<BTreeMap<(AsideKind, Uuid), SetAside>>);

impl Asides {
    /// All of it, by kind and run.
    #[must_use]
    pub fn list(&self) -> Vec<SetAside> {
        self.0.lock().values().cloned().collect()
    }

    /// Lets what is set aside of a run be tried now; false: nothing is.
    pub fn clear(&self, run_id: Uuid) -> bool {
        let mut all = self.0.lock();
        let before = all.len();
        all.retain(|(_, run), _| *run != run_id);
        all.len() < before
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Runs that are not to be tried yet.
    pub(super) fn held(&self, kinds: &[AsideKind], now: Timestamp) -> Vec<Uuid> {
        let all = self.0.lock();
        let held = all
            .values()
            .filter(|a| kinds.contains(&a.kind) && a.next_try > now);
        held.map(|aside| aside.run_id).collect()
    }

    /// When the first of those that are held is tried again.
    pub(super) fn next_try(&self, kinds: &[AsideKind], now: Timestamp) -> Option<Timestamp> {
        let all = self.0.lock();
        let held = all
            .values()
            .filter(|a| kinds.contains(&a.kind) && a.next_try > now);
        held.map(|aside| aside.next_try).min()
    }

    /// A run failed alone; false: too much is set aside already.
    pub(crate) fn note(
        &self,
        kind: AsideKind,
        run_id: Uuid,
        reason: String,
        now: Timestamp,
    ) -> bool {
        let mut all = self.0.lock();
        if all.len() >= ASIDES_MAX && !all.contains_key(&(kind, run_id)) {
            return false;
        }
        let aside = all.entry((kind, run_id)).or_insert_with(|| SetAside {
            run_id,
            kind,
            reason: String::new(),
            attempts: 0,
            since: now,
            next_try: now,
        });
        let doubled = 1_u32
            .checked_shl(aside.attempts.min(31))
            .unwrap_or(u32::MAX);
        aside.attempts = aside.attempts.saturating_add(1);
        aside.next_try = after(now, AGAIN_FIRST.saturating_mul(doubled).min(AGAIN_MAX));
        aside.reason = clip(reason, AUDIT_TEXT_BYTES_MAX);
        true
    }

    /// What failed alone has gone through.
    pub(crate) fn settled(&self, kind: AsideKind, run_id: Uuid) {
        self.0.lock().remove(&(kind, run_id));
    }

    /// A call that tried what was to be tried by then has ended well: that is not at fault any
    /// more.
    pub(super) fn tried(&self, kinds: &[AsideKind], by: Timestamp) {
        let is_tried = |aside: &SetAside| kinds.contains(&aside.kind) && aside.next_try <= by;
        self.0.lock().retain(|_, aside| !is_tried(aside));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_held_ever_longer_and_is_forgotten_once_it_was_tried_or_cleared() {
        let (asides, run, kinds) = (Asides::default(), Uuid::from_u128(1), [AsideKind::Timer]);
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert!(asides.note(AsideKind::Timer, run, "why".to_owned(), at(0)));
        assert_eq!(asides.held(&kinds, at(0)), [run]);
        assert!(asides.held(&[AsideKind::Message], at(0)).is_empty());
        assert_eq!(asides.next_try(&kinds, at(0)), Some(at(1)));
        assert!(asides.held(&kinds, at(1)).is_empty());
        assert!(asides.note(AsideKind::Timer, run, "why".to_owned(), at(1)));
        assert_eq!(asides.next_try(&kinds, at(1)), Some(at(3)));
        for _ in 0..40 {
            asides.note(AsideKind::Timer, run, "why".to_owned(), at(1));
        }
        assert_eq!(asides.next_try(&kinds, at(1)), Some(at(3601)));
        assert_eq!(asides.list()[0].attempts, 42);
        asides.tried(&kinds, at(3600));
        assert!(!asides.is_empty(), "it was held");
        asides.tried(&kinds, at(3601));
        assert!(asides.is_empty());
        assert!(asides.note(AsideKind::Timer, run, "why".to_owned(), at(1)));
        assert!(asides.clear(run) && !asides.clear(run));
    }
}
