//! A client: starts a run, sends it signals, interferes, waits for its end.

use std::sync::Arc;
use std::time::Duration;

use durable_core::Payload;
use everruns_durable::Client;
use everruns_durable::persistence::model::RunRecord;
use everruns_durable::runtime::Runtime;
use futures_util::future::join;
use serde_json::json;
use tokio::time::sleep;
use uuid::Uuid;

use super::node::Nodes;
use super::program::{Program, SignalPlan};
use super::tally::Happening;
use super::world::World;
use crate::differential::Random;
use crate::engine_suite::Scripted;

/// What a client does besides starting a run and sending what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interference {
    None,
    Cancel,
    ShutDown,
    Terminate,
}

impl Interference {
    pub(super) fn of(random: &mut Random) -> Self {
        match random.below(100) {
            0..60 => Self::None,
            60..78 => Self::Cancel,
            78..88 => Self::ShutDown,
            _ => Self::Terminate,
        }
    }
}

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
    /// Whether the interference was accepted.
    pub(super) interfered: bool,
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
const AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Caller {
    pub(super) async fn carry_out(mut self, plan: Plan) -> Told {
        sleep(Duration::from_millis(self.random.below(3000))).await;
        let run_id = self.start(&plan).await;
        self.world.count(Happening::RunStarted, 1);
        let mut other = self.fork();
        let (signals, interfered) = join(
            self.send_all(run_id, &plan),
            other.interfere(run_id, plan.interference),
        )
        .await;
        let run = self.wait(run_id).await;
        self.world.note(&self.who, || {
            format!("run {} ended: {}", plan.key, run.status)
        });
        Told {
            plan,
            run,
            signals,
            interfered,
        }
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

    fn client(&mut self) -> Client {
        let beside = self
            .random
            .one_in(2)
            .then(|| self.nodes.pick(&mut self.random));
        beside.flatten().unwrap_or_else(|| self.own.clone())
    }

    /// Until it is acknowledged.
    async fn start(&mut self, plan: &Plan) -> Uuid {
        loop {
            let client = self.client();
            let start = client
                .start::<Scripted>(plan.program.script.clone())
                .idempotency_key(plan.key.clone());
            match start.await {
                Ok(handle) => {
                    let run_id = handle.id();
                    self.world
                        .note(&self.who, || format!("started {} as {run_id}", plan.key));
                    return run_id;
                }
                Err(error) if error.is_retryable() => sleep(AGAIN_AFTER).await,
                Err(error) => {
                    let key = &plan.key;
                    self.world
                        .violated(format!("the start of {key} was refused: {error}"));
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    async fn send_all(&mut self, run_id: Uuid, plan: &Plan) -> Vec<(Uuid, bool)> {
        let mut sent = Vec::new();
        let mut noise = plan.noise;
        for signal in &plan.program.signals {
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
            let sent = client
                .send(run_id, signal_id, &signal.name, payload.clone())
                .await;
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

    /// Whether the run took note of it.
    async fn interfere(&mut self, run_id: Uuid, interference: Interference) -> bool {
        if interference == Interference::None {
            return false;
        }
        sleep(Duration::from_millis(self.random.below(6000))).await;
        loop {
            let client = self.client();
            let done = match interference {
                Interference::None => return false,
                Interference::Cancel => client.cancel(run_id, "changed our mind").await,
                Interference::ShutDown => client.request_shutdown(run_id).await,
                Interference::Terminate => client.terminate(run_id, "no more").await,
            };
            match done {
                Ok(()) => return true,
                Err(error) if error.is_run_finished() => return false,
                Err(error) if error.is_retryable() => sleep(AGAIN_AFTER).await,
                Err(error) => {
                    self.world
                        .violated(format!("{interference:?} cannot be sent: {error}"));
                    return false;
                }
            }
        }
    }

    async fn reaches_iteration(&mut self, run_id: Uuid, iteration: u32) {
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
