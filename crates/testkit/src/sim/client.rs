//! A client: starts a run, sends it signals, interferes, waits for its end.

use std::sync::Arc;
use std::time::Duration;

use durable_core::Payload;
use everruns_durable::client::Start;
use everruns_durable::persistence::model::RunRecord;
use everruns_durable::runtime::Runtime;
use everruns_durable::{Client, Error};
use serde_json::json;
use tokio::join;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::interference::{Interfered, Interference, PLAN_ATTRIBUTE};
use super::node::Nodes;
use super::plan::planned;
use super::program::{Code, Limit, Program, SignalPlan, UpdatePlan};
use super::requests::{Replied, View};
use super::tally::Happening;
use super::world::World;
use crate::differential::Random;
use crate::engine_suite::Scripted;

/// What a client is to do.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) key: String,
    pub(super) program: Program,
    pub(super) interference: Interference,
    /// Signals that nobody waits for.
    pub(super) noise: u64,
}

/// What a client was told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) plan: Plan,
    pub(super) run: RunRecord,
    /// By id, whether they were accepted.
    pub(super) signals: Vec<(Uuid, bool)>,
    pub(super) interfered: Interfered,
    pub(super) updates: Vec<Replied>,
    /// What queries saw, in order.
    pub(super) views: Vec<View>,
    /// When it began to wait for the end, and when it was told.
    pub(super) waited_ms: (u64, u64),
}

/// What is sent along with the start of a run.
enum WithStart {
    /// One of its signals, by place, under an id that it keeps when a client who died asks again.
    Signal(usize, Uuid, SignalPlan),
    Update(UpdatePlan),
}

/// Whether a run failed for want of a remedy.
fn is_sick(run: &RunRecord) -> bool {
    run.error.as_ref().is_some_and(|error| error.is("Sick"))
}

/// A client and its world.
pub(super) struct Caller {
    pub(super) world: Arc<World>,
    pub(super) nodes: Arc<Nodes>,
    /// On its own, beside no node.
    pub(super) own: Client,
    pub(super) runtime: Runtime,
    pub(super) random: Random,
    pub(super) who: String,
}

/// Pause before a call that failed is made again.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Caller {
    pub(super) async fn carry_out(mut self, plan: Plan) -> Told {
        sleep(Duration::from_millis(self.random.below(3000))).await;
        self.world.note(&self.who, || format!("{plan:?}"));
        let with_start = self.with_start(&plan.program);
        let run_id = self.start(&plan, with_start.as_ref()).await;
        self.world.count(Happening::RunStarted, 1);
        let mut others: [Self; 5] = std::array::from_fn(|_| self.fork());
        let [interferer, updater, decider, asker, resetter] = &mut others;
        let program = &plan.program;
        let (signals, interfered, updates, (), views, ()) = join!(
            self.send_all(run_id, &plan, with_start),
            interferer.interfere(run_id, &plan),
            updater.update_all(run_id, program),
            decider.decide_letters(run_id, program),
            asker.ask(run_id, program),
            resetter.reset(run_id, program),
        );
        let (run, waited_ms) = self.outcome(run_id, program).await;
        self.world.note(&self.who, || {
            format!("run {} ended: {}", plan.key, run.status)
        });
        Told {
            plan,
            run,
            signals,
            interfered,
            updates,
            views,
            waited_ms,
        }
    }

    /// Waits for the end; what fails until it is mended is mended and tried again.
    async fn outcome(&mut self, run_id: Uuid, program: &Program) -> (RunRecord, (u64, u64)) {
        let from_ms = self.world.millis();
        let run = self.wait(run_id).await;
        let Some(marker) = program.mends.as_deref().filter(|_| is_sick(&run)) else {
            return (run, (from_ms, self.world.millis()));
        };
        self.world.remedies.mend(marker);
        self.retry(run_id).await;
        let from_ms = self.world.millis();
        let run = self.wait(run_id).await;
        (run, (from_ms, self.world.millis()))
    }

    fn fork(&mut self) -> Self {
        Self {
            world: Arc::clone(&self.world),
            nodes: Arc::clone(&self.nodes),
            own: self.own.clone(),
            runtime: self.runtime.clone(),
            random: self.random.fork(),
            who: self.who.clone(),
        }
    }

    /// Does something, or dies before it knows whether it was done: then it is None.
    pub(super) async fn mortal<T>(
        &mut self,
        most_ms: u64,
        deed: impl IntoFuture<Output = T>,
    ) -> Option<T> {
        // Where nobody looks without a ring, nobody may die before it rings.
        if self.world.blind || !self.random.one_in(6) {
            return Some(deed.await);
        }
        let life = Duration::from_millis(self.random.below(most_ms));
        let lived = timeout(life, deed.into_future()).await.ok();
        if lived.is_none() {
            self.world.count(Happening::ClientDied, 1);
            self.world
                .note(&self.who, || "dies and is started again".to_owned());
        }
        lived
    }

    /// Some other word than the first of a program's is sent along with its start.
    fn with_start(&mut self, program: &Program) -> Option<WithStart> {
        if matches!(program.code, Code::Script(_)) || !self.random.one_in(3) {
            return None;
        }
        let once = |name: &str| {
            program
                .signals
                .iter()
                .filter(|other| other.name == name)
                .count()
                == 1
        };
        let signal = program.signals.iter().position(|signal| once(&signal.name));
        let update = program
            .updates
            .first()
            .filter(|update| update.iteration == 0);
        match (signal, update) {
            (_, Some(update)) => Some(WithStart::Update(update.clone())),
            (Some(place), None) => {
                let signal_id = self.runtime.new_id();
                let signal = program.signals[place].clone();
                Some(WithStart::Signal(place, signal_id, signal))
            }
            (None, None) => None,
        }
    }

    pub(super) fn client(&mut self) -> Client {
        let beside = self
            .random
            .one_in(2)
            .then(|| self.nodes.pick(&mut self.random));
        beside.flatten().unwrap_or_else(|| self.own.clone())
    }

    /// Until it is acknowledged.
    async fn start(&mut self, plan: &Plan, mut with: Option<&WithStart>) -> Uuid {
        loop {
            let client = self.client();
            let started = match &plan.program.code {
                Code::Script(script) => {
                    let start = client.start::<Scripted>(script.clone());
                    self.begin(plan, with, start).await
                }
                Code::Plan(input) => {
                    let start = client.start::<planned>(input.clone());
                    self.begin(plan, with, start).await
                }
            };
            match started {
                Some(Ok(run_id)) => {
                    self.world
                        .note(&self.who, || format!("started {} as {run_id}", plan.key));
                    return run_id;
                }
                Some(Err(error)) if error.is_retryable() => sleep(AGAIN_AFTER).await,
                // An earlier try started it, and it is over: what was sent along is refused.
                Some(Err(error)) if error.is_run_finished() && with.is_some() => with = None,
                Some(Err(error)) => {
                    let key = &plan.key;
                    self.world
                        .violated(format!("the start of {key} was refused: {error}"));
                    std::future::pending::<()>().await;
                }
                None => {}
            }
        }
    }

    async fn begin<W: 'static>(
        &mut self,
        plan: &Plan,
        with: Option<&WithStart>,
        start: Start<W>,
    ) -> Option<Result<Uuid, Error>> {
        let start = start
            .idempotency_key(plan.key.clone())
            .attribute("origin", "client")
            .memo(&plan.key);
        let start = if self.world.extras.batches {
            start.attribute(PLAN_ATTRIBUTE, plan.key.clone())
        } else {
            start
        };
        let start = match plan.program.limit {
            Some(Limit::Execution(time)) => start.execution_timeout(time),
            Some(Limit::Run(time)) => start.run_timeout(time),
            None => start,
        };
        let started = match with {
            Some(WithStart::Signal(_, signal_id, signal)) => {
                self.world.count(Happening::SignalWithStart, 1);
                let start = start.signal_as(*signal_id, &signal.name, &signal.payload);
                self.mortal(200, start).await
            }
            Some(WithStart::Update(update)) => {
                self.world.count(Happening::UpdateWithStart, 1);
                let start = start.update(&update.name, &update.input).id(&update.id);
                let started = self.mortal(200, start).await;
                started.map(|started| started.map(|(run, _)| run))
            }
            None => self.mortal(200, start).await,
        };
        started.map(|started| started.map(|run| run.id()))
    }

    async fn send_all(
        &mut self,
        run_id: Uuid,
        plan: &Plan,
        with: Option<WithStart>,
    ) -> Vec<(Uuid, bool)> {
        let mut sent = Vec::new();
        let mut noise = plan.noise;
        for (place, signal) in plan.program.signals.iter().enumerate() {
            if matches!(with, Some(WithStart::Signal(gone, ..)) if gone == place) {
                continue;
            }
            if !self.random.one_in(4) {
                sleep(Duration::from_millis(self.random.below(2500))).await;
            }
            self.reaches_iteration(run_id, signal.iteration).await;
            sent.push(self.send(run_id, signal).await);
        }
        while noise > 0 {
            noise -= 1;
            if plan.program.signals.is_empty() {
                sleep(Duration::from_millis(self.random.below(2500))).await;
            }
            let nobodys = SignalPlan {
                name: "noise".to_owned(),
                payload: json!("nobody waits for this"),
                iteration: 0,
            };
            sent.push(self.send(run_id, &nobodys).await);
        }
        sent
    }

    /// Until it is acknowledged or refused; always under the same id.
    async fn send(&mut self, run_id: Uuid, signal: &SignalPlan) -> (Uuid, bool) {
        let signal_id = self.runtime.new_id();
        let payload = Payload::from_value(&signal.payload).expect("a number is JSON");
        loop {
            let client = self.client();
            let sending = client.send(run_id, signal_id, &signal.name, payload.clone());
            let Some(sent) = self.mortal(200, sending).await else {
                continue;
            };
            match sent {
                Ok(()) => {
                    self.world.count(Happening::SignalAccepted, 1);
                    return (signal_id, true);
                }
                Err(error) if error.is_run_finished() => {
                    self.world.count(Happening::SignalRefused, 1);
                    return (signal_id, false);
                }
                Err(error) if error.is_retryable() => sleep(AGAIN_AFTER).await,
                Err(error) => {
                    let name = &signal.name;
                    self.world
                        .violated(format!("signal {name} cannot be sent: {error}"));
                    return (signal_id, false);
                }
            }
        }
    }

    pub(super) async fn reaches_iteration(&mut self, run_id: Uuid, iteration: u32) {
        if iteration == 0 {
            return;
        }
        loop {
            match self.own.get(run_id).await {
                Ok(run) if run.iteration >= iteration || run.status.is_terminal() => return,
                Ok(_) | Err(_) => sleep(AGAIN_AFTER).await,
            }
        }
    }

    async fn wait(&mut self, run_id: Uuid) -> RunRecord {
        loop {
            let client = self.client();
            match client.run::<Scripted>(run_id).ended().await {
                Ok(run) => return run,
                Err(error) if error.is_retryable() => sleep(AGAIN_AFTER).await,
                Err(error) => {
                    self.world
                        .violated(format!("run {run_id} cannot be waited for: {error}"));
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}
