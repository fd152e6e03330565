//! The guard before every route: who calls, and may they?

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use everruns_durable::Client;
use everruns_durable::persistence::model::{RunRecord, RunSummary};
use uuid::Uuid;

use super::extract::key_of;
use super::problem::{Code, Problem};
use crate::App;
use crate::auth::{Pass, Permission, Principal};

/// Lets a request through if its token permits it, and leaves a note of who it is and what they do.
pub(super) async fn admit(
    app: App,
    permission: Permission,
    action: Arc<str>,
    mut request: Request,
    next: Next,
) -> Response {
    let header = request.headers().get(AUTHORIZATION);
    // What is no text is no token; it is refused like any other that is not known.
    let header = header.map(|value| value.to_str().unwrap_or_default().to_owned());
    match app.access().admit(header.as_deref(), Some(permission)) {
        Ok(pass) => {
            // A key that cannot be used is refused by the routes that use one; the others never look at it.
            let idempotency_key = key_of(request.headers()).unwrap_or_default();
            let caller = Caller {
                pass,
                action,
                idempotency_key,
            };
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(denied) => Problem::from(denied).into_response(),
    }
}

/// Who calls, and which operation. A handler without it still runs behind [`admit`].
#[derive(Clone)]
pub(super) struct Caller {
    pass: Pass,
    /// The operation's id in the description.
    action: Arc<str>,
    idempotency_key: Option<String>,
}

impl Deref for Caller {
    type Target = Principal;

    fn deref(&self) -> &Principal {
        self.pass.principal()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        // Only a route outside the table could lack it, and there must be none that asks.
        caller.ok_or_else(|| Problem::new(Code::Internal, "nobody stood guard before this route"))
    }
}

impl Caller {
    /// The right to go on, for a stream that stays open.
    pub(super) fn into_pass(self) -> Pass {
        self.pass
    }

    /// A run that is within the caller's scope.
    pub(super) async fn run(&self, app: &App, id: Uuid) -> Result<RunRecord, Problem> {
        let run = app.client().get(id).await?;
        self.require_type(&run.workflow_type)?;
        Ok(run)
    }

    /// The client for what the caller does: what it changes leaves an audit row.
    pub(super) fn acting(&self, app: &App) -> Result<Client, Problem> {
        let key = self.idempotency_key.clone();
        Ok(app.acting(self.pass.principal(), &self.action, key)?)
    }

    /// The same for what they do to a run, if it is within their scope.
    pub(super) async fn acting_on(&self, app: &App, id: Uuid) -> Result<Client, Problem> {
        self.within_scope(app, id).await?;
        self.acting(app)
    }

    /// Those of these runs that are of types within the caller's scope. What is said of a run (its tasks, its letters) is in scope with it.
    pub(super) async fn runs_in_scope(
        &self,
        app: &App,
        runs: &[Uuid],
    ) -> Result<BTreeMap<Uuid, bool>, Problem> {
        if self.scopes.workflow_types.is_none() {
            return Ok(runs.iter().map(|id| (*id, true)).collect());
        }
        let found = app.store().summarize_runs(runs).await?;
        let inside = |run: RunSummary| self.may_use_type(&run.workflow_type);
        let seen = found.into_iter().map(|run| run.is_some_and(inside));
        Ok(runs.iter().copied().zip(seen).collect())
    }

    /// Refuses what concerns everybody to a token that is limited to some.
    pub(super) fn require_unscoped(&self, what: &str) -> Result<(), Problem> {
        if self.is_unscoped() {
            return Ok(());
        }
        let detail = format!(
            "token {:?} is limited to some types, and {what} is not",
            self.name
        );
        Err(Problem::new(Code::Forbidden, detail).hint("use a token without scopes"))
    }

    /// Looks at the run only where the token is limited to some types.
    pub(super) async fn within_scope(&self, app: &App, id: Uuid) -> Result<(), Problem> {
        if !self.is_unscoped() {
            self.run(app, id).await?;
        }
        Ok(())
    }
}
