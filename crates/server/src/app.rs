//! What all doors share.

use std::sync::{Arc, Weak};
use std::time::Duration;

use everruns_durable::Client;
use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::AuditNote;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::auth::{Access, Pass, Principal, WatchedPass};
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
