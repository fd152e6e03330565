//! What a token may reach, and starts that would be refused elsewhere too.

use std::collections::BTreeSet;

use everruns_durable::Client;
use everruns_durable::persistence::model::StartRun;
use everruns_durable::persistence::{StoreError, StoreResult};
use everruns_durable::remote::{Method, Permit, Touched};
use tonic::async_trait;

use crate::auth::{Denied, Principal};
use crate::scope::{self, Scope, ScopeError};

/// What one caller may reach.
pub(super) struct Reach {
    client: Client,
    principal: Principal,
    accepts_now: bool,
}

impl Reach {
    pub(super) const fn new(client: Client, principal: Principal, accepts_now: bool) -> Self {
        Self {
            client,
            principal,
            accepts_now,
        }
    }
}

#[async_trait]
impl Permit for Reach {
    fn fence(&self, start: &mut StartRun) {
        scope::fence(&self.principal, start);
    }

    fn accepts_now(&self) -> bool {
        self.accepts_now
    }

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
            return within(principal.require_unscoped(method.name()));
        }
        let store = self.client.store().as_ref();
        let scope = Scope::new(store, principal);
        let (mut runs, mut workers) = (Vec::new(), BTreeSet::new());
        for touched in touched {
            match *touched {
                Touched::WorkflowType(name) => within(principal.require_type(name))?,
                Touched::Start(start) => {
                    let workflow_id = start.business_id.as_deref();
                    scope.start(&start.workflow_type, workflow_id).await?;
                }
                Touched::Queue(name) => within(principal.require_queue(name))?,
                Touched::Run(run_id) | Touched::Turn { run_id, .. } => runs.push(run_id),
                Touched::Letter(id) => scope.letter(id).await?,
                Touched::Schedule(id) => scope.schedule(id).await?,
                Touched::Worker(id) => {
                    workers.insert(id);
                }
                Touched::Registration(worker) => {
                    scope.hosts(worker)?;
                    // Nor may it take the name of a worker that is out of scope.
                    workers.insert(&*worker.id);
                }
                Touched::Breaker(key) if method == Method::reset_breaker => scope.breaker(key)?,
                Touched::Breaker(key) => scope.breaker_of_tasks(key)?,
                Touched::OnceKey(key) => scope.once(key).await?,
                Touched::Tasks { queue, run_id } => scope.tasks(queue, run_id).await?,
                Touched::AllRuns if principal.scopes.workflow_types.is_some() => {
                    within(Err(principal.too_wide("a list over all workflow types")))?;
                }
                Touched::Name(_) | Touched::AllRuns | Touched::All => {}
            }
        }
        scope.workers(&workers).await?;
        Ok(scope.runs(&runs).await?)
    }
}

fn within(answer: Result<(), Denied>) -> StoreResult<()> {
    Ok(answer.map_err(ScopeError::from)?)
}
