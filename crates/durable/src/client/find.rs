//! Finding runs: lists, counts, and what was attached to them.

use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::Client;
use crate::persistence::limits::PAGE_ROWS_MAX;
use crate::persistence::model::{Attributes, Page, RunFilter, RunRecord};
use crate::{Error, Result};

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// Where the next page begins: put it into [`RunFilter::before`]. None: this was the last.
    pub next: Option<Uuid>,
}

impl Client {
    /// Runs, newest first, a page at a time: 50 unless `page` says otherwise, at most 1,000.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self, filter: RunFilter, page: Page) -> Result<RunPage> {
        let store = self.store();
        let runs = store.list_runs(filter.clone(), page).await?;
        let mut next = None;
        if runs.len() == page.rows() {
            // Asked for, so that the last page says that it is the last.
            let before = runs.last().map(|run| run.id);
            let rest = RunFilter { before, ..filter };
            let one = Page {
                limit: 1,
                offset: 0,
            };
            let more = !store.list_runs(rest, one).await?.is_empty();
            next = before.filter(|_| more);
        }
        Ok(RunPage { runs, next })
    }

    /// How many runs.
    ///
    /// # Errors
    /// The store's.
    pub async fn count(&self, filter: RunFilter) -> Result<u64> {
        Ok(self.store().count_runs(filter).await?)
    }

    /// The runs that were started under a workflow id of yours, newest first; the last thousand, if there are more.
    ///
    /// # Errors
    /// The store's.
    pub async fn runs_of(&self, workflow_id: impl Into<String>) -> Result<Vec<RunRecord>> {
        let filter = RunFilter::default().business_id(workflow_id);
        let page = Page {
            limit: PAGE_ROWS_MAX,
            offset: 0,
        };
        Ok(self.store().list_runs(filter, page).await?)
    }

    /// A run's search attributes as they stand.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; the store's.
    pub async fn attributes(&self, run_id: Uuid) -> Result<Attributes> {
        let attributes = self.store().get_attributes(run_id).await?;
        if attributes.is_empty() {
            self.get(run_id).await?;
        }
        Ok(attributes)
    }

    /// What the run was given as its memo; a run without one reads as `null`, which is `None` for an `Option`.
    ///
    /// # Errors
    /// [`Error::is_not_found`]; [`Error::is_invalid`] where it does not fit `T`; the store's.
    pub async fn memo<T: DeserializeOwned>(&self, run_id: Uuid) -> Result<T> {
        let run = self.get(run_id).await?;
        let memo = run.memo.to_value();
        memo.map_err(|error| Error::payload(format!("the memo of run {run_id}"), error))
    }
}
