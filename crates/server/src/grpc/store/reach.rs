//! What a token may reach, and starts that would be refused elsewhere too.

use std::collections::BTreeSet;

use everruns_durable::Client;
use everruns_durable::persistence::{StoreError, StoreResult};
use everruns_durable::remote::{Method, Permit, Touched};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tonic::async_trait;
use uuid::Uuid;

use crate::auth::{Denied, Principal};
use crate::namesake;

/// Runs whose types are looked up side by side.
const SIDE_BY_SIDE: usize = 16;

/// What one caller may reach.
pub(super) struct Reach {
    client: Client,
    principal: Principal,
}

impl Reach {
    pub(super) const fn new(client: Client, principal: Principal) -> Self {
        Self { client, principal }
    }

    /// A run of a type that is out of scope; one that does not exist is nobody's.
    async fn require_run(&self, run_id: Uuid) -> StoreResult<()> {
        let found = self.client.store().summarize_runs(&[run_id]).await?.pop();
        match found.flatten() {
            Some(run) => within(self.principal.require_type(&run.workflow_type)),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Permit for Reach {
    async fn permit(&self, method: Method, touched: &[Touched<'_>]) -> StoreResult<()> {
        let is_start = |touched: &Touched<'_>| matches!(touched, Touched::Start(_));
        if touched.iter().any(is_start) {
            self.client.admit()?;
        }
        for touched in touched {
            if let Touched::Start(start) = touched
                && start.workflow_type == durable_program::PROGRAM_TYPE
                && !start.input.is_encoded()
            {
                durable_program::check(&start.input)
                    .map_err(|mistake| StoreError::Invalid(mistake.to_string()))?;
            }
        }
        let principal = &self.principal;
        if principal.is_unscoped() {
            return Ok(());
        }
        if method.is_beyond_scopes() || touched.contains(&Touched::All) {
            return Err(StoreError::Denied(format!(
                "token {} is limited to some queues and workflow types, and {} is about all of them; use a token without scopes",
                principal.name,
                method.name()
            )));
        }
        let mut runs = BTreeSet::new();
        for touched in touched {
            match *touched {
                Touched::WorkflowType(name) => within(principal.require_type(name))?,
                Touched::Start(start) => {
                    within(principal.require_type(&start.workflow_type))?;
                    let store = self.client.store().as_ref();
                    let workflow_id = start.business_id.as_deref();
                    within(namesake::check(store, principal, workflow_id).await?)?;
                }
                Touched::Queue(name) => within(principal.require_queue(name))?,
                Touched::Run(run_id) | Touched::Turn { run_id, .. } => {
                    runs.insert(run_id);
                }
                Touched::All => {}
            }
        }
        stream::iter(runs)
            .map(|run_id| self.require_run(run_id))
            .buffer_unordered(SIDE_BY_SIDE)
            .try_collect()
            .await
    }
}

fn within(answer: Result<(), Denied>) -> StoreResult<()> {
    answer.map_err(|denied| StoreError::Denied(format!("{denied}; {}", denied.hint())))
}
