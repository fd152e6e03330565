//! The simulator for your own workflows: does a run survive a crash anywhere?

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use durable_core::{Payload, Timestamp, WorkflowEvent};
use jiff::SignedDuration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

use super::Verifier;
use super::compare;
use super::fault::{Call, Fault};
use super::gate::Gate;
use super::setup::{Setup, TestEnvBuilder};
use super::watch::Watch;
use super::world::World;
use crate::client::RunHandle;
use crate::workflow::WorkflowDefinition;

/// Runs a workflow once undisturbed, and then again and again with one thing going wrong: the process dies before or after each call of
/// the store and at each await, each call of the store fails or seems to. Every run has to end as the undisturbed one did, every history
/// has to replay, and where two runs were told the same they have to have done the same, in the same order. A seed chooses how what
/// happens at the same time is interleaved, and how the engine is set up.
///
/// ```
/// use everruns_durable::prelude::*;
/// use everruns_durable::testing::simulate;
///
/// #[activity]
/// async fn charge(cents: u64) -> ActivityResult<u64> { Ok(cents) }
///
/// #[workflow]
/// async fn order(ctx: WorkflowContext, cents: u64) -> WorkflowResult<u64> {
///     ctx.activity::<charge>(cents).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), everruns_durable::testing::Divergence> {
/// let simulated = simulate::<order>(100, 0..2).world(|env| env.mock::<charge>(Ok)).await?;
/// assert!(simulated.runs > 50);
/// # Ok(())
/// # }
/// ```
#[allow(
    clippy::needless_pass_by_value,
    reason = "a call site reads better without a reference"
)]
pub fn simulate<W: WorkflowDefinition>(
    input: W::Input,
    seeds: impl IntoIterator<Item = u64>,
) -> Simulation<W> {
    Simulation {
        plan: Plan {
            input: Payload::from_value(&input).unwrap_or_default(),
            seeds: seeds.into_iter().collect(),
            world: Box::new(|env| env),
            meanwhile: None,
            only: None,
            faults_max: usize::MAX,
            outcome_may_differ: false,
            workflow: PhantomData,
        },
    }
}

/// A simulation about to be run: a builder that is awaited.
#[must_use = "a simulation does nothing unless it is awaited"]
pub struct Simulation<W> {
    plan: Plan<W>,
}

type Meanwhile<W> =
    Box<dyn Fn(RunHandle<W>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

struct Plan<W> {
    input: Payload,
    seeds: Vec<u64>,
    world: Box<dyn Fn(TestEnvBuilder) -> TestEnvBuilder + Send + Sync>,
    meanwhile: Option<Meanwhile<W>>,
    only: Option<Fault>,
    faults_max: usize,
    outcome_may_differ: bool,
    workflow: PhantomData<fn() -> W>,
}

impl<W: WorkflowDefinition> Simulation<W> {
    /// Mocks and activities, and further workflows. Called for every run, so that no mock remembers the last one.
    pub fn world(
        mut self,
        world: impl Fn(TestEnvBuilder) -> TestEnvBuilder + Send + Sync + 'static,
    ) -> Self {
        self.plan.world = Box::new(world);
        self
    }

    /// What a client does to the run, from its start on: its signals, its updates. It is not crashed.
    pub fn meanwhile<F, Fut>(mut self, script: F) -> Self
    where
        F: Fn(RunHandle<W>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.plan.meanwhile = Some(Box::new(move |run| Box::pin(script(run))));
        self
    }

    /// For workflows that end differently depending on who comes first: outcomes are not compared, everything else is.
    pub const fn outcome_may_differ(mut self) -> Self {
        self.plan.outcome_may_differ = true;
        self
    }

    /// At most so many faults for each seed, spread evenly; each seed begins at another one. For runs of many steps.
    pub const fn faults_max(mut self, max: usize) -> Self {
        self.plan.faults_max = max;
        self
    }

    /// Only this fault: to repeat what a [`Divergence`] told.
    pub const fn only(mut self, fault: Fault) -> Self {
        self.plan.only = Some(fault);
        self
    }
}

/// What a simulation went through without finding anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Simulated {
    /// Runs, undisturbed ones included.
    pub runs: usize,
    /// Crashes among what was done to them.
    pub crashes: usize,
}

/// The first run that went another way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// Which workflow.
    pub workflow_type: &'static str,
    /// The seed.
    pub seed: u64,
    /// What was done to the run; none: it goes wrong undisturbed.
    pub fault: Option<Fault>,
    /// That in words, and where the runs part.
    pub place: String,
    /// What the undisturbed run has there.
    pub undisturbed: String,
    /// What the disturbed run has there.
    pub disturbed: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.workflow_type;
        writeln!(f, "workflow {name:?}, seed {}: {}", self.seed, self.place)?;
        let (one, other) = match self.fault {
            Some(_) => ("undisturbed:", "disturbed:"),
            None => ("one run:", "another:"),
        };
        writeln!(f, "  {one:<12} {}", self.undisturbed)?;
        writeln!(f, "  {other:<12} {}", self.disturbed)?;
        write!(
            f,
            "  repeat it:   simulate::<{name}>(input, [{}])",
            self.seed
        )?;
        match self.fault {
            Some(fault) => write!(f, ".only(Fault::{fault:?})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Divergence {}

impl<W: WorkflowDefinition> IntoFuture for Simulation<W> {
    type Output = Result<Simulated, Divergence>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Runs on a thread of its own: every run has its own time.
    ///
    /// # Panics
    /// Where a mock or the workflow's registration panics.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (done, result) = oneshot::channel();
            std::thread::Builder::new()
                .name("simulation".to_owned())
                // Nobody waits any more: then nobody is told.
                .spawn(move || drop(done.send(self.plan.carry_out())))
                .expect("a thread can be started");
            result
                .await
                .expect("the simulation panicked; its message is above")
        })
    }
}

/// A run that was played to its end.
struct Played {
    /// Its history.
    events: Vec<WorkflowEvent>,
    /// Calls of the store and steps of the engine, up to its end.
    calls: Vec<Call>,
    steps: u64,
    /// Why it is wrong whatever the others did.
    problem: Option<String>,
}

impl<W: WorkflowDefinition> Plan<W> {
    fn carry_out(&self) -> Result<Simulated, Divergence> {
        let mut simulated = Simulated::default();
        for seed in &self.seeds {
            self.try_seed(*seed, &mut simulated)?;
        }
        Ok(simulated)
    }

    fn try_seed(&self, seed: u64, simulated: &mut Simulated) -> Result<(), Divergence> {
        let undisturbed = self.play(seed, None, SignedDuration::ZERO);
        let later = self.play(seed, None, LATER);
        simulated.runs += 2;
        for played in [&undisturbed, &later] {
            self.judge(seed, None, &undisturbed, played)?;
        }
        // What depends on the time of day is no reason to complain that a crash took some.
        let outcome_is_fixed = !self.outcome_may_differ
            && compare::outcome(&undisturbed.events) == compare::outcome(&later.events);
        for fault in self.faults(seed, &undisturbed) {
            let played = self.play(seed, Some(fault), SignedDuration::ZERO);
            simulated.runs += 1;
            let crashes = !matches!(fault, Fault::FailBefore(_) | Fault::FailAfter(_));
            simulated.crashes += usize::from(crashes);
            self.judge(seed, Some(fault), &undisturbed, &played)?;
            self.compare_outcomes(seed, fault, &undisturbed, &played, outcome_is_fixed)?;
        }
        Ok(())
    }

    fn faults(&self, seed: u64, undisturbed: &Played) -> Vec<Fault> {
        if let Some(only) = self.only {
            return vec![only];
        }
        let all = Fault::all(&undisturbed.calls, undisturbed.steps);
        let stride = all.len().div_ceil(self.faults_max.max(1)).max(1);
        let first = usize::try_from(seed).unwrap_or(0) % stride;
        all.into_iter().skip(first).step_by(stride).collect()
    }

    fn judge(
        &self,
        seed: u64,
        fault: Option<Fault>,
        undisturbed: &Played,
        played: &Played,
    ) -> Result<(), Divergence> {
        let what = fault.map_or_else(
            || "without any fault".to_owned(),
            |fault| fault.describe(&undisturbed.calls),
        );
        let divergence = |place, undisturbed, disturbed| Divergence {
            workflow_type: W::TYPE,
            seed,
            fault,
            place,
            undisturbed,
            disturbed,
        };
        if let Some(problem) = &played.problem {
            let well = compare::outcome(&undisturbed.events);
            return Err(divergence(what, well, problem.clone()));
        }
        match compare::actions(&undisturbed.events, &played.events) {
            None => Ok(()),
            Some(found) => Err(divergence(
                format!("{what}; then the runs part at {}", found.place),
                found.undisturbed,
                found.disturbed,
            )),
        }
    }

    fn compare_outcomes(
        &self,
        seed: u64,
        fault: Fault,
        undisturbed: &Played,
        played: &Played,
        fixed: bool,
    ) -> Result<(), Divergence> {
        let [one, other] = [undisturbed, played].map(|played| &played.events[..]);
        let same = if fixed {
            compare::outcome(one) == compare::outcome(other)
        } else {
            self.outcome_may_differ
                || compare::kind_of_outcome(one) == compare::kind_of_outcome(other)
        };
        if same {
            return Ok(());
        }
        Err(Divergence {
            workflow_type: W::TYPE,
            seed,
            fault: Some(fault),
            place: format!(
                "{}; then the run ends differently",
                fault.describe(&undisturbed.calls)
            ),
            undisturbed: compare::outcome(one),
            disturbed: compare::outcome(other),
        })
    }

    fn play(&self, seed: u64, fault: Option<Fault>, later: SignedDuration) -> Played {
        let mut setup = (self.world)(TestEnvBuilder::new().workflow::<W>()).setup;
        setup.seed = seed;
        setup.beginning = setup
            .beginning
            .saturating_add(later)
            .unwrap_or(Timestamp::MAX);
        vary(&mut setup);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a tokio runtime can be made");
        runtime.block_on(async {
            let watch = Watch::new(
                Gate::default(),
                setup.workflows.clone(),
                setup.activities.clone(),
                fault,
            );
            let world = World::new(setup, watch);
            let run_id = Uuid::from_u128(u128::from(seed) + 1);
            let problem = self.until_the_end(&world, run_id).await.err();
            self.look_back(&world, run_id, problem).await
        })
    }

    async fn until_the_end(&self, world: &World, run_id: Uuid) -> Result<(), String> {
        let text = |error: crate::Error| error.to_string();
        let input = self.input.to_value().map_err(|error| error.to_string())?;
        let start = world.client.start::<W>(input).run_id(run_id);
        let run = start.await.map_err(text)?;
        let script = self
            .meanwhile
            .as_ref()
            .map(|meanwhile| tokio::spawn(meanwhile(run)));
        let began = world.now();
        let mut quiet_since = None;
        loop {
            let progress = world.watch.progress.notified();
            tokio::pin!(progress);
            // Registered before the look, so that nothing in between is missed.
            progress.as_mut().enable();
            world.resume().await.map_err(text)?;
            if let Some(trouble) = world.watch.trouble() {
                return Err(trouble);
            }
            let run = world.client.get(run_id).await.map_err(text)?;
            if run.status.is_terminal() {
                return Ok(());
            }
            let script_is_over = script.as_ref().is_none_or(JoinHandle::is_finished);
            let quiet = script_is_over && nothing_waits(world).await.map_err(text)?;
            let now = world.now();
            quiet_since = quiet.then(|| quiet_since.unwrap_or(now));
            let waited_in_vain =
                quiet_since.is_some_and(|since| now.duration_since(since) > QUIET_MAX);
            if waited_in_vain || now.duration_since(began) > LONGEST {
                let open = world.open_runs().await;
                return Err(format!("the run does not end ({open})"));
            }
            tokio::select! {
                biased;
                () = progress => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    async fn look_back(&self, world: &World, run_id: Uuid, problem: Option<String>) -> Played {
        let (calls, steps) = (world.watch.calls(), world.steps());
        let history = world.client.history(run_id).await;
        let replayed = history
            .as_ref()
            .ok()
            .filter(|_| problem.is_none())
            .map(|history| {
                let verifier = Verifier::new().workflow::<W>();
                verifier.replay(history).map_err(|error| error.to_string())
            });
        let problem = problem.or_else(|| replayed.and_then(Result::err));
        let events = history.map(|history| history.events).unwrap_or_default();
        world.crash().await;
        Played {
            events: events.into_iter().map(|event| event.event).collect(),
            calls,
            steps,
            problem,
        }
    }
}

/// The second undisturbed run of a seed begins this much later.
const LATER: SignedDuration = SignedDuration::from_secs(40 * 86_400 + 3 * 3_600 + 7);
/// How often is looked whether anything is left to happen.
const LOOK_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);
/// Nothing has waited for this long: nothing will happen.
const QUIET_MAX: SignedDuration = SignedDuration::from_hours(3);
/// A run that lasts longer never ends.
const LONGEST: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);

async fn nothing_waits(world: &World) -> crate::Result<bool> {
    let glance = world.glance().await?;
    let waits = glance.tasks || glance.turns || glance.messages;
    Ok(!waits && glance.next_due.is_none())
}

/// Another seed, another engine.
fn vary(setup: &mut Setup) {
    let mut dice = fastrand::Rng::with_seed(setup.seed);
    let settings = &mut setup.settings;
    settings.turns.set_max = dice.usize(1..=8);
    settings.turns.committers = dice.usize(1..=3);
    settings.turns.cached_programs_max = [1, 3, 100][dice.usize(..3)];
    settings.turns.always_replay = dice.bool();
    settings.worker.claim_batch_size = dice.usize(1..=5);
    settings.worker.max_concurrent_tasks = [1, 2, 1_000][dice.usize(..3)];
}
