//! One seed: who is there, what they do, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use everruns_durable::Client;
use everruns_durable::persistence::StoreError;
use everruns_durable::persistence::model::{CountLimit, Dump, RunFilter, WorkflowStatus};
use everruns_durable::runtime::{Life, Runtime};
use futures_util::future::{OptionFuture, join_all, join3};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::bell::deafen;
use super::check;
use super::client::{Caller, Plan, Told};
use super::clock::SimClock;
use super::extras::Extras;
use super::interference::Interference;
use super::namesakes::Claim;
use super::node::{Machine, Nodes, disturb};
use super::store::Ground;
use super::stuck::waits_for;
use super::sweep::sweep;
use super::tally::Happening;
use super::timetable::{Keeper, Timetable};
use super::weather::Climate;
use super::world::{Build, World};
use super::{plan, script};
use crate::differential::Random;

/// Runs that have not ended this long after the last fault are stuck: far less than the pause of those who look only when rung.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long activities of ended runs get to hear of it, before it is looked whether they did.
const AFTERMATH: Duration = Duration::from_secs(4);

/// How a dump shows payloads.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// As actors see them.
    Readable,
    /// As the store has them.
    Stored,
}

/// A seed in progress.
pub(super) struct Scenario {
    world: Arc<World>,
    ground: Ground,
    random: Random,
    /// For what only some seeds have: nothing else may depend on whether there is any.
    extra: Random,
}

/// What those who took part tell in the end.
struct Testimony {
    told: Vec<Told>,
    timetable: Option<Timetable>,
    claims: Vec<Claim>,
}

/// The chances of one client.
struct Chances {
    ids: u64,
    faults: u64,
    choices: Random,
}

impl Chances {
    fn of(random: &mut Random) -> Self {
        Self {
            ids: random.bits(),
            faults: random.bits(),
            choices: random.fork(),
        }
    }
}

impl Scenario {
    /// To be called within the seed's runtime.
    pub(super) fn new(seed: u64, ground: Ground, trace: bool) -> Self {
        // Neighbouring seeds shall have nothing in common.
        let spread = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = Random::new(spread ^ 0x5eed);
        // With this number the seeds that tests keep, because they found a mistake, have no extras.
        let mut extra = Random::new(spread ^ 0xe71a_0221);
        let climate = Climate::of(&mut random);
        let machines = 1 + random.index(3);
        let slots = random.pick(&[1, 1, 2, 3, 6]);
        let blind = climate == Climate::Calm && random.percent(60);
        let build = Build {
            climate,
            machines,
            slots,
            blind,
            extras: Extras::of(&mut extra),
        };
        let world = Arc::new(World::new(build, trace));
        world.note("world", || format!("seed {seed}, {build:?}"));
        world.count(Happening::Blind, usize::from(blind));
        Self {
            world,
            ground,
            random,
            extra,
        }
    }

    /// Runs it to its end and checks what is left.
    pub(super) async fn play(mut self) -> Arc<World> {
        let nodes = Arc::new(Nodes::default());
        let mut tasks = self.start_machines(&nodes);
        let plans = self.plans();
        let mut callers = Vec::new();
        for (number, plan) in plans.into_iter().enumerate() {
            let chances = Chances::of(&mut self.random);
            let caller = self.caller(number, &nodes, chances);
            callers.push(tokio::spawn(caller.carry_out(plan)));
        }
        let keeper = self.keeper(&nodes).map(Keeper::keep);
        let namesakes = self.namesakes(&nodes);
        let testimony = self.outlast(callers, keeper, namesakes).await;
        for task in tasks.drain(..) {
            task.abort();
        }
        if let Some(testimony) = testimony {
            self.check(&testimony).await;
            if self.random.one_in(6) {
                sweep(&self.world, &self.ground, self.random.bits()).await;
            }
        }
        self.world
    }

    fn start_machines(&mut self, nodes: &Arc<Nodes>) -> Vec<JoinHandle<()>> {
        let always_replay = self.random.one_in(4);
        self.world
            .count(Happening::AlwaysReplay, usize::from(always_replay));
        let clocks_jump = self.random.one_in(2);
        let deploys = self.world.climate.kills() && self.random.one_in(2);
        let deployed_ms = if deploys {
            1 + self.random.below(8000)
        } else {
            0
        };
        let deafened = deafen(Arc::clone(&self.world), self.random.fork());
        let mut tasks = vec![tokio::spawn(deafened)];
        for index in 0..self.world.machines {
            let skew = if clocks_jump {
                i64::try_from(self.random.below(6000)).unwrap_or(0) - 3000
            } else {
                0
            };
            let clock = Arc::new(SimClock::new(Arc::clone(&self.world), skew));
            if clocks_jump {
                let jumps = disturb(
                    Arc::clone(&clock),
                    Arc::clone(&self.world),
                    self.random.fork(),
                );
                tasks.push(tokio::spawn(jumps));
            }
            let machine = Machine {
                index,
                world: Arc::clone(&self.world),
                ground: self.ground.clone(),
                clock,
                nodes: Arc::clone(nodes),
                random: self.random.fork(),
                always_replay,
                deployed_ms,
            };
            tasks.push(tokio::spawn(machine.run()));
        }
        tasks
    }

    fn plans(&mut self) -> Vec<Plan> {
        let runs = 2 + self.random.index(5);
        let steady = self.world.climate.is_steady();
        (0..runs)
            .map(|number| {
                let first = u32::try_from(number * 100).unwrap_or(0);
                let program = if self.random.one_in(2) {
                    script::Generator::new(&mut self.random, steady).program()
                } else {
                    plan::Generator::new(&mut self.random, first).program()
                };
                let noisy = self.random.one_in(3);
                // Who resets a run that was terminated meanwhile would have it wait for what it was refused.
                let interference = match Interference::of(&mut self.random) {
                    Interference::Terminate if program.resets => Interference::None,
                    interference => interference,
                };
                Plan {
                    key: format!("run-{number}"),
                    program,
                    interference,
                    noise: if noisy { 1 + self.random.below(2) } else { 0 },
                }
            })
            .collect()
    }

    fn caller(&self, number: usize, nodes: &Arc<Nodes>, chances: Chances) -> Caller {
        let who = format!("c{number}");
        let clock = Arc::new(SimClock::new(Arc::clone(&self.world), 0));
        let runtime = Runtime::seeded(chances.ids, clock, Life::new());
        let store = self.ground.reached_by(&who, &self.world, chances.faults);
        Caller {
            world: Arc::clone(&self.world),
            nodes: Arc::clone(nodes),
            own: Client::on_runtime(store, &runtime),
            runtime,
            random: chances.choices,
            who,
        }
    }

    /// Some seeds have a schedule.
    fn keeper(&mut self, nodes: &Arc<Nodes>) -> Option<Keeper> {
        if !self.random.one_in(6) {
            return None;
        }
        let chances = Chances::of(&mut self.random);
        let caller = self.caller(99, nodes, chances);
        let triggers = self.world.extras.triggers;
        Some(Keeper {
            impatience: triggers.then(|| self.extra.fork()),
            world: caller.world,
            nodes: caller.nodes,
            own: caller.own,
            random: caller.random,
        })
    }

    /// Some seeds have clients who start runs under one workflow id.
    fn namesakes(&mut self, nodes: &Arc<Nodes>) -> Vec<JoinHandle<Vec<Claim>>> {
        let numbers = 0..self.world.extras.namesakes;
        let started = numbers.map(|number| {
            let chances = Chances::of(&mut self.extra);
            let caller = self.caller(50 + number, nodes, chances);
            tokio::spawn(caller.claim_name(number))
        });
        started.collect()
    }

    /// Through the storm and until every run has ended. None: it never comes to that.
    async fn outlast(
        &mut self,
        callers: Vec<JoinHandle<Told>>,
        keeper: Option<impl Future<Output = Timetable>>,
        namesakes: Vec<JoinHandle<Vec<Claim>>>,
    ) -> Option<Testimony> {
        let storm = Duration::from_millis(3000 + self.random.below(9000));
        let keeper = OptionFuture::from(keeper);
        let mut callers = Box::pin(join3(join_all(callers), keeper, join_all(namesakes)));
        let early = timeout(storm, &mut callers).await.ok();
        self.world.calm_down();
        let told = match early {
            Some(told) => told,
            None => match timeout(PATIENCE, &mut callers).await {
                Ok(told) => told,
                Err(_) => {
                    self.report_stuck().await;
                    return None;
                }
            },
        };
        let (told, timetable, claims) = told;
        let told = told.into_iter().collect::<Result<Vec<Told>, _>>();
        let claims = claims.into_iter().collect::<Result<Vec<Vec<Claim>>, _>>();
        let (Ok(told), Ok(claims)) = (told, claims) else {
            self.world.violated("a client panicked");
            return None;
        };
        // A start that was held in the storm, and given up by who sent it, may come after all the others have ended.
        for _ in 0..2 {
            if timeout(PATIENCE, self.all_settled()).await.is_err() {
                self.report_stuck().await;
                return None;
            }
            sleep(AFTERMATH).await;
        }
        Some(Testimony {
            told,
            timetable,
            claims: claims.into_iter().flatten().collect(),
        })
    }

    /// Children may outlive those who started them, and messages their senders.
    async fn all_settled(&self) {
        let open = RunFilter {
            statuses: vec![WorkflowStatus::Pending, WorkflowStatus::Running],
            ..RunFilter::default()
        };
        loop {
            let store = &self.ground.store;
            let settled = async {
                let open = store
                    .count_runs(open.clone(), CountLimit::Capped)
                    .await?
                    .count;
                let counts = store.counts().await?;
                Ok::<bool, StoreError>(open == 0 && counts.messages == 0)
            };
            match self.ground.direct(settled).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => self
                    .world
                    .violated(format!("the store cannot be read: {error}")),
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// All that is stored, as actors see it, or as it is.
    async fn dump(&self, form: Form) -> Option<Dump> {
        let ground = &self.ground;
        let dump = match form {
            Form::Readable => ground.dump(&self.world).await,
            Form::Stored => ground.direct(ground.store.dump()).await,
        };
        match dump {
            Ok(dump) => Some(dump),
            Err(error) => {
                self.world
                    .violated(format!("the store cannot be read: {error}"));
                None
            }
        }
    }

    async fn report_stuck(&self) {
        let Some(dump) = self.dump(Form::Readable).await else {
            return;
        };
        for run in dump.runs.iter().filter(|run| !run.run.status.is_terminal()) {
            self.world.violated(format!("stuck: {}", waits_for(run)));
        }
        let messages: usize = dump.runs.iter().map(|run| run.messages.len()).sum();
        if messages > 0 {
            self.world
                .violated(format!("stuck: {messages} messages are not delivered"));
        }
    }

    async fn check(&self, testimony: &Testimony) {
        let (Some(dump), Some(stored)) = (
            self.dump(Form::Readable).await,
            self.dump(Form::Stored).await,
        ) else {
            return;
        };
        let scene = check::Scene {
            world: &self.world,
            dump: &dump,
            stored: &stored,
            told: &testimony.told,
            executions: self.world.ledger.executions(),
            heard: self.world.ledger.heard(),
            claims: &testimony.claims,
            timetable: testimony.timetable.as_ref(),
        };
        check::all(&scene);
    }
}
