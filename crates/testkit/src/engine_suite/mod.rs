//! What the engine must do on every store, with its programs kept and with every turn replayed.
//!
//! A claim is an async function over an [`Arena`]; it panics when the engine breaks it. The arena's store is audited afterwards.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use everruns_durable::Engine;
use everruns_durable::client::RunHandle;
use everruns_durable::engine::EngineBuilder;
use everruns_durable::persistence::WorkflowEventStore;
use everruns_durable::persistence::model::Blocked;

mod activities;
mod apart;
mod backlogs;
mod cancelling;
mod children;
mod chores;
mod cleaning;
mod dynamic;
mod families;
mod faults;
mod finding;
mod foreign;
mod functions;
mod listeners;
mod locals;
mod looking;
mod once;
mod races;
mod recovering;
mod reliability;
mod schedules;
mod scripted;
mod sharp;
mod signals;
mod stopping;
mod surface;
mod timeouts;
mod timers;
mod turns;
mod updates;
mod wake_ups;

pub use scripted::{Effects, Script, Scripted, Step, scripted_activities};

/// Where a claim runs engines.
pub struct Arena {
    /// The store they share.
    pub store: Arc<dyn WorkflowEventStore>,
    /// Whether every turn replays.
    pub always_replay: bool,
}

impl Arena {
    /// An engine with the scripted workflow and its activities, not started; timings are short so that nothing waits for long.
    pub fn engine(&self, effects: &Effects) -> EngineBuilder {
        scripted_activities(self.bare().workflow::<Scripted>(), effects)
    }

    /// Such an engine that hosts nothing yet.
    fn bare(&self) -> EngineBuilder {
        Engine::on(Arc::clone(&self.store))
            .always_replay(self.always_replay)
            .configure(|settings| {
                settings.worker.lease = Duration::from_secs(2);
                settings.worker.lease_renewal = Duration::from_millis(500);
                settings.turns.owner_lease = Duration::from_secs(2);
                settings.chores.fallback_poll = Duration::from_millis(500);
                settings.chores.reap_interval = Duration::from_millis(250);
                settings.shutdown_grace = Duration::from_secs(10);
            })
    }
}

impl Arena {
    /// The same arena on a store that wraps this one.
    #[must_use]
    pub fn on(&self, store: Arc<dyn WorkflowEventStore>) -> Self {
        Self {
            store,
            always_replay: self.always_replay,
        }
    }

    /// Such an engine that never looks for work by itself: what nobody rings for is not done.
    pub fn blind_engine(&self, effects: &Effects) -> EngineBuilder {
        blind(self.engine(effects))
    }

    /// A blind engine that takes turns and runs no activity.
    pub fn blind_decider(&self) -> EngineBuilder {
        blind(self.bare().workflow::<Scripted>())
    }

    /// A blind engine that runs activities and takes no turn.
    pub fn blind_doer(&self, effects: &Effects) -> EngineBuilder {
        blind(scripted_activities(self.bare(), effects))
    }
}

fn blind(builder: EngineBuilder) -> EngineBuilder {
    let never = Duration::from_secs(60 * 60);
    builder.configure(|settings| {
        settings.chores.fallback_poll = never;
        settings.worker.lease = never;
        settings.turns.owner_lease = never;
    })
}

/// How long a claim about wake-ups waits for what must come by itself; only a failure takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for what must come without anybody looking for it.
pub(crate) async fn comes<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: nobody rang"),
    }
}

/// Waits until a run is blocked. Another run's whole life passes between two looks: no sleep is needed.
pub(crate) async fn blocked(engine: &Engine, run: &RunHandle<Scripted>) -> Blocked {
    loop {
        let other = engine.run::<Scripted>(Script::default());
        other.await.expect("completes");
        if let Some(blocked) = run.get().await.expect("there").blocked {
            return blocked;
        }
    }
}

/// The body of a claim.
pub type Body = for<'a> fn(&'a Arena) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A named claim.
#[derive(Clone, Copy)]
pub struct Claim {
    /// Subject, which is the file it is in.
    pub subject: &'static str,
    /// What is claimed.
    pub name: &'static str,
    /// The test.
    pub body: Body,
}

/// Lists the claims of a file: `claims! { "subject": first_claim, second_claim }`.
macro_rules! claims {
    ($subject:literal: $($name:ident),+ $(,)?) => {
        /// The claims of this subject.
        pub(super) const CLAIMS: &[$crate::engine_suite::Claim] = &[$($crate::engine_suite::Claim {
            subject: $subject,
            name: stringify!($name),
            body: |arena| Box::pin($name(arena)),
        }),+];
    };
}
pub(crate) use claims;

/// Every claim.
#[must_use]
pub fn all() -> Vec<Claim> {
    [
        activities::CLAIMS,
        apart::CLAIMS,
        backlogs::CLAIMS,
        cancelling::CLAIMS,
        children::CLAIMS,
        chores::CLAIMS,
        cleaning::CLAIMS,
        dynamic::CLAIMS,
        families::CLAIMS,
        faults::CLAIMS,
        foreign::CLAIMS,
        functions::CLAIMS,
        finding::CLAIMS,
        listeners::CLAIMS,
        locals::CLAIMS,
        looking::CLAIMS,
        once::CLAIMS,
        races::CLAIMS,
        recovering::CLAIMS,
        reliability::CLAIMS,
        schedules::CLAIMS,
        sharp::CLAIMS,
        signals::CLAIMS,
        stopping::CLAIMS,
        surface::CLAIMS,
        timeouts::CLAIMS,
        timers::CLAIMS,
        turns::CLAIMS,
        updates::CLAIMS,
        wake_ups::CLAIMS,
    ]
    .concat()
}
