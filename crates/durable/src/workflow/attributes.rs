//! Search attributes from inside.

use std::collections::BTreeMap;
use std::panic::Location;

use durable_core::{AttributeValue, WorkflowAction};

use super::WorkflowContext;

impl WorkflowContext {
    /// Sets a search attribute of the run, by which it can be found and filtered.
    #[track_caller]
    pub fn set_attribute(&self, name: impl Into<String>, value: impl Into<AttributeValue>) {
        let attributes = BTreeMap::from([(name.into(), Some(value.into()))]);
        self.upsert(attributes, Location::caller());
    }

    /// Removes a search attribute of the run.
    #[track_caller]
    pub fn remove_attribute(&self, name: impl Into<String>) {
        self.upsert(BTreeMap::from([(name.into(), None)]), Location::caller());
    }

    /// Sets several search attributes at once; None removes one.
    #[track_caller]
    pub fn upsert_attributes(&self, attributes: BTreeMap<String, Option<AttributeValue>>) {
        self.upsert(attributes, Location::caller());
    }

    fn upsert(
        &self,
        attributes: BTreeMap<String, Option<AttributeValue>>,
        place: &'static Location<'static>,
    ) {
        let ticket = self.core.ticket(place);
        ticket.tell(WorkflowAction::UpsertSearchAttributes { attributes });
    }
}
