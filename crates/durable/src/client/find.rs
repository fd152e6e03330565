//! Finding runs: lists, counts, and what was attached to them.

use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::Client;
use crate::persistence::limits::PAGE_ROWS_MAX;
use crate::persistence::model::{
    Attributes, CountLimit, Page, RunCount, RunFilter, RunPage, RunSummary,
};
use crate::{Error, Result};

impl Client {
    /// Runs, newest first, a page at a time: 50 unless `page` says otherwise, at most 1,000. They
    /// come without their payloads: [`Client::get`] has those.
    ///
    /// A page may end early ([`RunPage::partial`]) where a combination of filters finds little
    /// among many runs; go on at [`RunPage::next`].
    ///
    /// # Errors
    /// [`Error::is_query_too_broad`]; the store's.
    pub async fn list(&self, filter: RunFilter, page: Page) -> Result<RunPage> {
        Ok(self.store().list_runs(filter, page).await?)
    }

    /// How many runs, up to 10,000 unless asked for an exact count.
    ///
    /// # Errors
    /// [`Error::is_query_too_broad`] for an exact count that takes too long; the store's.
    pub async fn count(&self, filter: RunFilter, limit: CountLimit) -> Result<RunCount> {
        Ok(self.store().count_runs(filter, limit).await?)
    }

    /// The runs that were started under a workflow id of yours, newest first; the last thousand, if there are more.
    ///
    /// # Errors
    /// The store's.
    pub async fn runs_of(&self, workflow_id: impl Into<String>) -> Result<Vec<RunSummary>> {
        let filter = RunFilter::default().business_id(workflow_id);
        let page = Page::first(PAGE_ROWS_MAX);
        Ok(self.store().list_runs(filter, page).await?.runs)
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
