//! What a test's world is made of.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use durable_core::{ActivityError, Timestamp};
use parking_lot::Mutex;

use super::calls::{Calls, Noted};
use super::driver::Driver;
use super::env::TestEnv;
use super::thread::{Passing, Thread};
use crate::activity::{Activity, ActivityContext, ActivityRegistry, ActivityResult, IntoActivity};
use crate::engine::{DetailRetention, Settings};
use crate::workflow::{WorkflowDefinition, WorkflowRegistry};

/// Virtual time begins here unless a test says otherwise: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600;
/// How long, in real time, somebody may wait for what cannot happen before the test is told so.
const PATIENCE: Duration = Duration::from_secs(5);

/// A [`TestEnv`] about to be started.
#[must_use = "nothing runs before it is started"]
pub struct TestEnvBuilder {
    pub(super) setup: Setup,
    passing: Passing,
    patience: Duration,
}

/// What engines are made of, again and again.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) workflows: WorkflowRegistry,
    pub(super) activities: ActivityRegistry,
    pub(super) settings: Settings,
    pub(super) calls: Calls,
    pub(super) seed: u64,
    pub(super) beginning: Timestamp,
}

impl TestEnvBuilder {
    pub(super) fn new() -> Self {
        Self {
            setup: Setup {
                workflows: WorkflowRegistry::new(),
                activities: ActivityRegistry::new(),
                settings: settings(),
                calls: Calls::default(),
                seed: 0,
                beginning: Timestamp::from_second(BEGINNING).expect("a year in this century"),
            },
            passing: Passing::ByItself,
            patience: PATIENCE,
        }
    }

    /// Hosts a workflow.
    pub fn workflow<W: WorkflowDefinition>(mut self) -> Self {
        self.setup.workflows.register::<W>();
        self
    }

    /// Hosts a workflow that takes every type that is not hosted by name.
    pub fn dynamic_workflow<W: WorkflowDefinition>(mut self) -> Self {
        self.setup.workflows.register_dynamic::<W>();
        self
    }

    /// Answers in an activity's place. Called for every attempt; an error is retried by the activity's policy, in virtual time.
    pub fn mock<A: Activity>(
        mut self,
        answer: impl FnMut(A::Input) -> ActivityResult<A::Output> + Send + 'static,
    ) -> Self {
        let calls = self.setup.calls.clone();
        let answer = Mutex::new(answer);
        let mocked = move |_ctx: ActivityContext, input: A::Input| {
            calls.note::<A>(&input);
            let answered = (answer.lock())(input);
            async move { answered }
        };
        self.setup.activities.register_fn(A::TYPE, mocked);
        self
    }

    /// [`TestEnvBuilder::mock`] for a mock that takes (virtual) time, sends heartbeats, or notices that it is cancelled.
    pub fn mock_async<A, F, Fut>(mut self, answer: F) -> Self
    where
        A: Activity,
        F: Fn(ActivityContext, A::Input) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<A::Output, ActivityError>> + Send + 'static,
    {
        let calls = self.setup.calls.clone();
        let mocked = move |ctx: ActivityContext, input: A::Input| {
            calls.note::<A>(&input);
            answer(ctx, input)
        };
        self.setup.activities.register_fn(A::TYPE, mocked);
        self
    }

    /// Runs a real activity. Time is virtual for it, too: what it waits for by `tokio::time` takes no time.
    pub fn activity<M>(mut self, activity: impl IntoActivity<M>) -> Self {
        self.setup.activities.register(Noted {
            activity: activity.into_activity(),
            calls: self.setup.calls.clone(),
        });
        self
    }

    /// Runs an activity that takes every type that has none of its own; its calls are noted as its own type's.
    pub fn dynamic_activity<M>(mut self, activity: impl IntoActivity<M>) -> Self {
        self.setup.activities.register_dynamic(Noted {
            activity: activity.into_activity(),
            calls: self.setup.calls.clone(),
        });
        self
    }

    /// Changes the engine's settings.
    pub fn configure(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.setup.settings);
        self
    }

    /// Drops a run's program after every turn, so that each turn replays its history: finds code that is not deterministic.
    pub fn always_replay(mut self) -> Self {
        self.setup.settings.turns.always_replay = true;
        self
    }

    /// When virtual time begins.
    pub const fn starting_at(mut self, beginning: Timestamp) -> Self {
        self.setup.beginning = beginning;
        self
    }

    /// Chooses ids and the order of what happens at the same time; the same seed gives the same test.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.setup.seed = seed;
        self
    }

    /// Time passes only by [`TestEnv::advance`]. Otherwise it also passes while somebody waits for a result, up to what is due next.
    pub const fn time_by_hand(mut self) -> Self {
        self.passing = Passing::ByHand;
        self
    }

    /// How long, in real time, a wait for what cannot happen lasts before it fails; 5 seconds.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts the world.
    ///
    /// # Panics
    /// When its engine does not start: the settings cannot be.
    pub async fn start(self) -> TestEnv {
        let Self {
            setup,
            passing,
            patience,
        } = self;
        let calls = setup.calls.clone();
        let thread = Thread::start(setup, passing, patience).await;
        TestEnv {
            thread: Arc::new(thread),
            calls,
        }
    }

    /// Starts the world in the hands of a [`Driver`]: nothing is committed and no time passes unless it says so.
    ///
    /// # Panics
    /// As [`TestEnvBuilder::start`].
    pub async fn driver(mut self) -> Driver {
        self.passing = Passing::Pumped;
        self.setup.settings.turns.set_max = 1;
        Driver {
            env: self.start().await,
        }
    }
}

/// The only engine of a world knows by itself of everything that happens: looking around once a day will do, and a month passes at
/// once. Leases need not run out either: whoever brings the next engine up takes back what the last one had.
fn settings() -> Settings {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let mut settings = Settings {
        build: "test".to_owned(),
        ..Settings::default()
    };
    settings.worker.lease = DAY;
    settings.worker.lease_renewal = DAY / 3;
    settings.worker.heartbeat_interval = DAY;
    settings.worker.stale_after = 30 * DAY;
    settings.turns.owner_lease = DAY;
    settings.chores.fallback_poll = DAY;
    settings.chores.reap_interval = DAY;
    settings.chores.retention = None;
    settings.chores.details = DetailRetention::KEEP;
    settings.chores.retention_interval = 365 * DAY;
    settings
}
