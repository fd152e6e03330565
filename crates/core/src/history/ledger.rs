//! Items of one kind, each of which is opened once and closed once.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{HistoryProblem, Subject};

/// The open and the closed items of one kind, by id. An id is never used twice within an iteration.
///
/// The two are kept apart: a turn looks through the open items, of which a run has few at a time,
/// and the closed ones grow with the iteration. Of a closed item only the id is kept. The id is
/// needed to recognise a duplicate and a late fact.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ledger<T> {
    subject: Subject,
    open: BTreeMap<String, T>,
    /// No id of this set is in `open`.
    closed: BTreeSet<String>,
}

impl<T> Ledger<T> {
    pub(super) const fn new(subject: Subject) -> Self {
        Self {
            subject,
            open: BTreeMap::new(),
            closed: BTreeSet::new(),
        }
    }

    pub(super) fn open(&mut self, id: &str, item: T) -> Result<(), HistoryProblem> {
        self.check_new(id)?;
        self.open.insert(id.to_owned(), item);
        Ok(())
    }

    /// Enters an item that begins and ends with one event.
    pub(super) fn enter_closed(&mut self, id: &str) -> Result<(), HistoryProblem> {
        self.check_new(id)?;
        self.closed.insert(id.to_owned());
        Ok(())
    }

    fn check_new(&self, id: &str) -> Result<(), HistoryProblem> {
        if id.is_empty() {
            return Err(HistoryProblem::EmptyId);
        }
        if self.knows(id) {
            return Err(HistoryProblem::Duplicate {
                subject: self.subject,
                id: id.to_owned(),
            });
        }
        Ok(())
    }

    pub(super) fn close(&mut self, id: &str) -> Result<(), HistoryProblem> {
        let Some((id, _)) = self.open.remove_entry(id) else {
            return Err(self.not_open(id));
        };
        self.closed.insert(id);
        Ok(())
    }

    pub(super) fn get_open(&self, id: &str) -> Result<&T, HistoryProblem> {
        self.open.get(id).ok_or_else(|| self.not_open(id))
    }

    pub(super) fn get_open_mut(&mut self, id: &str) -> Result<&mut T, HistoryProblem> {
        self.get_open(id)?;
        Ok(self.open.get_mut(id).expect("found open a line above"))
    }

    /// Why an id that is not open is not.
    fn not_open(&self, id: &str) -> HistoryProblem {
        let (subject, over) = (self.subject, self.is_over(id));
        let id = id.to_owned();
        if over {
            HistoryProblem::AlreadyOver { subject, id }
        } else {
            HistoryProblem::Unknown { subject, id }
        }
    }

    /// Whether an item of this id is open, without the text of what is wrong otherwise.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// Whether the id was ever used.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.is_open(id) || self.is_over(id)
    }

    pub(super) fn is_over(&self, id: &str) -> bool {
        self.closed.contains(id)
    }

    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The open items by id. Closed items are not walked.
    pub(super) fn iter_open(&self) -> impl ExactSizeIterator<Item = (&str, &T)> {
        self.open.iter().map(|(id, item)| (id.as_str(), item))
    }
}
