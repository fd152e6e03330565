//! Handlers that a workflow sets up: for queries, signals and updates.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::failure::Failure;
use crate::payload::Payload;

/// Answers a query: looks at the workflow's state and changes nothing.
pub type QueryHandler = Arc<dyn Fn(&Payload) -> Result<Payload, Failure> + Send + Sync>;

/// Takes a signal as it arrives. False: it could not be read, and stays for whoever waits for it.
pub type SignalHandler = Arc<dyn Fn(&Payload) -> bool + Send + Sync>;

/// Refuses an update before anything of it is recorded.
pub type UpdateValidator = Arc<dyn Fn(&Payload) -> Result<(), Failure> + Send + Sync>;

/// An update being handled.
pub type UpdateFuture = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;

/// Handles an update.
#[derive(Clone)]
pub struct UpdateHandler {
    /// Begins to handle one.
    pub run: Arc<dyn Fn(Payload) -> UpdateFuture + Send + Sync>,
    /// Asked first.
    pub validate: Option<UpdateValidator>,
}

#[derive(Default)]
pub(super) struct Handlers {
    pub(super) queries: BTreeMap<String, QueryHandler>,
    pub(super) signals: BTreeMap<String, SignalHandler>,
    pub(super) updates: BTreeMap<String, UpdateHandler>,
}
