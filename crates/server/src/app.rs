//! What all doors share.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use everruns_durable::Client;
use everruns_durable::core::Payload;
use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::{AuditKind, AuditNote, AuditTarget};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::auth::{Access, Pass, Principal, Role, Scopes, TokenChange, WatchedPass};
use crate::http::{Followed, Samples};
use crate::measures::Measures;

/// What the doors open onto: a client of the store, who may come in, and whether the process is about to go. Cheap to clone.
#[derive(Clone)]
pub struct App {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    access: Access,
    settings: AppSettings,
    draining: CancellationToken,
    samples: Samples,
    followed: Followed,
}

/// An [`App`] that does not keep it alive.
pub(crate) struct WeakApp(Weak<Shared>);

impl WeakApp {
    pub(crate) fn upgrade(&self) -> Option<App> {
        self.0.upgrade().map(|shared| App { shared })
    }
}

/// What the doors can be told.
#[derive(Debug, Clone)]
pub struct AppSettings {
    /// Largest body of a request over HTTP.
    pub body_bytes_max: usize,
    /// For how long a request may wait for a result.
    pub wait_max: Duration,
    /// From so long without a sign of life on, a worker counts as gone.
    pub worker_stale_after: Duration,
    /// How far the samples for dashboards are apart.
    pub sample_interval: Duration,
    /// How often the tokens of streams and sessions that stay open are looked at again.
    pub recheck_interval: Duration,
    /// Whether callers of the store may say what time it is: only for tests that hold the clock.
    pub accepts_now: bool,
    /// What passes through the store, where a [`MeasuredStore`](crate::measures::MeasuredStore) counts it.
    pub measures: Arc<Measures>,
}

impl Default for AppSettings {
    fn default() -> Self {
        Self {
            body_bytes_max: 4 << 20,
            wait_max: Duration::from_secs(60),
            worker_stale_after: Duration::from_secs(60),
            sample_interval: Duration::from_secs(10),
            recheck_interval: Duration::from_secs(30),
            accepts_now: false,
            measures: Arc::default(),
        }
    }
}

impl App {
    /// Doors onto the store of this client. With [`everruns_durable::Engine::client`] what is started here runs beside.
    #[must_use]
    pub fn new(client: Client, access: Access, settings: AppSettings) -> Self {
        let shared = Arc::new(Shared {
            client,
            access,
            settings,
            draining: CancellationToken::new(),
            samples: Samples::default(),
            followed: Followed::default(),
        });
        Self { shared }
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// A client for one request of this principal's: whatever it changes leaves an audit row that names them and the action, in
    /// the same commit.
    ///
    /// # Errors
    /// [`everruns_durable::Error::is_invalid`] where the store keeps no audit: nothing is done unnoted.
    pub fn acting(
        &self,
        principal: &Principal,
        action: &str,
        idempotency_key: Option<String>,
    ) -> everruns_durable::Result<Client> {
        let role = principal.role.as_str();
        let note = AuditNote::new(Uuid::now_v7(), &*principal.name, role, action);
        self.shared.client.acting(AuditNote {
            idempotency_key,
            ..note
        })
    }

    /// Leaves an audit row for each token that appeared in the token file, or went from it, since the
    /// last call. The file is changed by a command that does not know the store: the server that
    /// reads it says what it has seen.
    ///
    /// # Errors
    /// Those of the store; what is not noted is noted by the next call.
    pub async fn note_token_changes(&self) -> everruns_durable::Result<()> {
        let mut changes = VecDeque::from(self.access().take_changes());
        while let Some(change) = changes.pop_front() {
            if let Err(error) = self.note_token_change(&change).await {
                changes.push_front(change);
                self.access().put_back(changes.into());
                return Err(error);
            }
        }
        Ok(())
    }

    async fn note_token_change(&self, change: &TokenChange) -> everruns_durable::Result<()> {
        let (action, token) = match change {
            TokenChange::Created(token) => ("create_token", token),
            TokenChange::Revoked(token) => ("revoke_token", token),
        };
        let target = AuditTarget {
            kind: AuditKind::Token,
            id: token.name.clone(),
        };
        let detail = Payload::from_value(&serde_json::json!({
            "role": token.role,
            "scoped": token.scopes() != Scopes::default(),
            "expires_at": token.expires_at,
        }));
        let detail = detail.unwrap_or(Payload::ABSENT);
        let role = Role::Admin.as_str();
        let note = AuditNote::new(Uuid::now_v7(), "token file", role, action);
        let acting = self.shared.client.acting(note)?;
        Ok(acting.store().note_change(target, detail).await?)
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn WorkflowEventStore> {
        self.shared.client.store()
    }

    /// Who may come in.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.shared.access
    }

    /// Watches the pass of somebody whose stream stays open.
    pub(crate) fn watched(&self, pass: Pass) -> WatchedPass {
        pass.watched(self.shared.settings.recheck_interval)
    }

    /// What the doors were told.
    #[must_use]
    pub fn settings(&self) -> &AppSettings {
        &self.shared.settings
    }

    /// Cancelled once the process is about to go: it is not ready any more, and streams are told to go elsewhere.
    #[must_use]
    pub fn draining(&self) -> &CancellationToken {
        &self.shared.draining
    }

    /// What was sampled.
    pub(crate) fn samples(&self) -> &Samples {
        &self.shared.samples
    }

    /// The runs that streams follow.
    pub(crate) fn followed(&self) -> &Followed {
        &self.shared.followed
    }

    pub(crate) fn downgrade(&self) -> WeakApp {
        WeakApp(Arc::downgrade(&self.shared))
    }
}
