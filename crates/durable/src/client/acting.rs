//! A client for somebody whose changes leave audit rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Client;
use super::sets::Asked;
use crate::Result;
use crate::persistence::model::{AuditFilter, AuditNote, AuditRecord, Page};
use crate::persistence::{StoreError, WorkflowEventStore};

/// Whoever a client acts for.
pub(super) struct Acting {
    note: AuditNote,
    /// Rows of what was gathered with what others ask for.
    rows: AtomicU32,
    /// The store that notes everything else.
    pub(super) store: Arc<dyn WorkflowEventStore>,
}

impl Client {
    /// This client for one request of somebody's: whatever it changes leaves an audit row with this note, in the commit of the change.
    ///
    /// ```
    /// # use everruns_durable::{Client, persistence::model::AuditNote};
    /// # async fn terminate(client: Client, run_id: uuid::Uuid) -> everruns_durable::Result<()> {
    /// let note = AuditNote::new(uuid::Uuid::now_v7(), "alice", "operator", "terminate_workflow");
    /// client.acting(note)?.terminate(run_id, "no longer needed").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::is_invalid`] for a note that cannot be stored, and for a store that keeps no audit, such as a server's.
    pub fn acting(&self, note: AuditNote) -> Result<Self> {
        let view = self.shared.store.audited(note.clone().into())?;
        let store = view.ok_or_else(no_audit)?;
        Ok(Self {
            shared: Arc::clone(&self.shared),
            acting: Some(Arc::new(Acting {
                note,
                rows: AtomicU32::new(0),
                store,
            })),
        })
    }

    /// Audit rows, newest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn list_audit(&self, filter: AuditFilter, page: Page) -> Result<Vec<AuditRecord>> {
        Ok(self.store().list_audit(filter, page).await?)
    }

    /// An item to be gathered with what others ask for, under a row number of its own.
    pub(super) fn asked<T>(&self, item: T) -> Asked<T> {
        let note = self.acting.as_ref().map(|acting| AuditNote {
            row: acting.rows.fetch_add(1, Ordering::Relaxed),
            ..acting.note.clone()
        });
        Asked { item, note }
    }
}

pub(super) fn no_audit() -> StoreError {
    let message = "this store keeps no audit, and what is to be noted must not be done unnoted; act on the database's own store";
    StoreError::Invalid(message.to_owned())
}
