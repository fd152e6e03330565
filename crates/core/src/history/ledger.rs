//! Things of one kind that are asked for once and end once.

use std::collections::BTreeMap;

use super::error::{HistoryProblem, Subject};

/// What is open and what is over, by id. An id is never used twice within an iteration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ledger<T> {
    subject: Subject,
    /// None: over.
    entries: BTreeMap<String, Option<T>>,
}

impl<T> Ledger<T> {
    pub(super) const fn new(subject: Subject) -> Self {
        Self {
            subject,
            entries: BTreeMap::new(),
        }
    }

    pub(super) fn open(&mut self, id: &str, item: T) -> Result<(), HistoryProblem> {
        self.enter(id, Some(item))
    }

    /// Enters something that begins and ends at once.
    pub(super) fn enter_closed(&mut self, id: &str) -> Result<(), HistoryProblem> {
        self.enter(id, None)
    }

    fn enter(&mut self, id: &str, entry: Option<T>) -> Result<(), HistoryProblem> {
        if id.is_empty() {
            return Err(HistoryProblem::EmptyId);
        }
        if self.entries.contains_key(id) {
            return Err(HistoryProblem::Duplicate {
                subject: self.subject,
                id: id.to_owned(),
            });
        }
        self.entries.insert(id.to_owned(), entry);
        Ok(())
    }

    pub(super) fn close(&mut self, id: &str) -> Result<(), HistoryProblem> {
        self.get_open(id)?;
        self.entries.insert(id.to_owned(), None);
        Ok(())
    }

    pub(super) fn get_open(&self, id: &str) -> Result<&T, HistoryProblem> {
        let subject = self.subject;
        match self.entries.get(id) {
            Some(Some(item)) => Ok(item),
            Some(None) => Err(HistoryProblem::AlreadyOver {
                subject,
                id: id.to_owned(),
            }),
            None => Err(HistoryProblem::Unknown {
                subject,
                id: id.to_owned(),
            }),
        }
    }

    pub(super) fn get_open_mut(&mut self, id: &str) -> Result<&mut T, HistoryProblem> {
        self.get_open(id)?;
        let entry = self.entries.get_mut(id).and_then(Option::as_mut);
        Ok(entry.expect("found open a line above"))
    }

    /// Whether the id was ever used.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    pub(super) fn is_over(&self, id: &str) -> bool {
        matches!(self.entries.get(id), Some(None))
    }

    pub(super) fn iter_open(&self) -> impl Iterator<Item = (&str, &T)> {
        self.entries
            .iter()
            .filter_map(|(id, item)| Some((id.as_str(), item.as_ref()?)))
    }
}
