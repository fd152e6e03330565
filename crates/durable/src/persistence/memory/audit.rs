//! Audit rows: written under the lock of the change.

use std::sync::Arc;

use durable_core::Timestamp;

use super::MemoryStore;
use super::state::State;
use crate::persistence::StoreResult;
use crate::persistence::audit::{Beside, Change, Noting};
use crate::persistence::limits::{AUDIT_DAYS, BATCH_ITEMS_MAX};
use crate::persistence::model::{AuditFilter, AuditNotes, AuditRecord, after};

impl MemoryStore {
    /// The same store for somebody whose changes leave rows.
    pub(crate) fn audited_view(&self, notes: AuditNotes) -> StoreResult<Self> {
        Ok(Self {
            shards: self.shards,
            inner: Arc::clone(&self.inner),
            listeners: Arc::clone(&self.listeners),
            noting: Some(Arc::new(Noting::new(notes)?)),
        })
    }

    /// [`MemoryStore::write_each`]; what an item changed is noted, if anybody is. `changed` is also told what happened beside the answer.
    pub(super) fn note_each<I: Clone, T>(
        &self,
        items: Vec<I>,
        now: Option<Timestamp>,
        mut write: impl FnMut(&mut State, I, Timestamp) -> T,
        changed: impl Fn(&I, &T, Beside) -> Option<Change>,
    ) -> Vec<T> {
        let Some(noting) = &self.noting else {
            return self.write_each(items, now, write);
        };
        let first = noting.reserve(items.len());
        let mut place = 0;
        self.write_each(items, now, |state, item, now| {
            let asked = item.clone();
            let delivered = state.delivered;
            state.replaced = None;
            let answer = write(state, item, now);
            let beside = Beside {
                heard: state.delivered > delivered,
                replaced: state.replaced,
            };
            if let Some(change) = changed(&asked, &answer, beside) {
                state.put_audit(noting.row(first, place, change, now));
            }
            place += 1;
            answer
        })
    }

    /// [`MemoryStore::write_at`]; what it changed is noted, if anybody is.
    pub(super) fn note_at<T>(
        &self,
        now: Option<Timestamp>,
        write: impl FnOnce(&mut State, Timestamp) -> T,
        changed: impl FnOnce(&T) -> Option<Change>,
    ) -> T {
        self.write_at(now, |state, now| {
            let answer = write(state, now);
            if let Some(noting) = &self.noting
                && let Some(change) = changed(&answer)
            {
                state.put_audit(noting.row(noting.reserve(1), 0, change, now));
            }
            answer
        })
    }
}

impl State {
    fn put_audit(&mut self, row: Option<AuditRecord>) {
        self.audit.extend(row.map(|row| (row.id, row)));
    }

    /// Rows that pass, newest first.
    pub(super) fn filter_audit(&self, filter: &AuditFilter) -> impl Iterator<Item = &AuditRecord> {
        let rows = self.audit.values().rev();
        rows.filter(move |row| filter.passes(row))
    }

    /// Forgets the oldest rows whose time of keeping is over; answers whether there may be more.
    pub(super) fn forget_audit(&mut self, now: Timestamp) -> bool {
        let kept = std::time::Duration::from_secs(AUDIT_DAYS.unsigned_abs() * 24 * 60 * 60);
        let old = self.audit.values().filter(|row| after(row.at, kept) < now);
        let old: Vec<_> = old.take(BATCH_ITEMS_MAX).map(|row| row.id).collect();
        for id in &old {
            self.audit.remove(id);
        }
        old.len() >= BATCH_ITEMS_MAX
    }
}
