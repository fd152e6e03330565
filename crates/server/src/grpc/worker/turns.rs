//! Workflow turns over a session.
//!
//! ```text
//!   turn ─► a free place ─► Activation … the worker's queue … TurnAnswer ─► the place is free
//!                 │                            │
//!                 └── TURN_TIMEOUT without ────┴──► given up: the run is taken up again, here or by another worker
//!                     any answer       without an answer to an earlier one
//! ```
//!
//! A worker has `turn_slots` places, and an activation that was sent holds one until it is answered. Nobody can take back what is in a worker's queue: to free the
//! place before would put one more activation behind it, and a worker that is slow would from then on only ever answer what has been given up.
//!
//! **What counts as slow.** A worker may have many activations in its queue, and is given [`TURN_TIMEOUT`] for each and not for all of them. The time of an activation
//! begins when it is sent, and again with each answer to one that was sent before it ([`Pace`]); that of a run that waits for a place, with any answer, for each
//! brings it nearer to its own. So a worker that goes on is never taken for a dead one, however long its queue. A query waits for [`TURN_TIMEOUT`] in all, for somebody
//! waits for it.
//!
//! **What is given up.** One that a worker does not answer while it answers others: answers to later ones do not prolong it. All of them, where the worker answers none at all.
//! Nothing is lost by it: the run is told anew from its start. It is not sent anew beside the first one for another [`TURN_TIMEOUT`], for the worker may still be about it.
//! An answer that comes then is late: it frees the place, counts as a sign of life, and is not looked at.
//!
//! **No place is lost for ever.** An answer to a run's later activation frees the places of its earlier ones, which will never be answered. Where all places are held by what was given up,
//! runs wait, and no answer has come for [`TURN_TIMEOUT`] more, the session is of no use any more: it ends, and a worker that still lives comes back with an empty queue. Until then
//! workers of the same build that do answer are asked first ([`WorkflowHost::is_stalled`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use durable_proto::convert::Malformed;
use durable_proto::v1;
use everruns_durable::hosting::{Activation, Beginning, HostError, Step, WorkflowHost};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;
use v1::server_message::Message;
use v1::turn_answer::Answer;

use super::activation::{activation_message, steps};
use super::outbox::{Outbox, Way};
use super::pace::Pace;
use crate::grpc::RESPONSE_BYTES_MAX;

/// How long a worker may take for an activation, once it has answered those before it.
pub(super) const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// The activations that a session's worker has to answer.
pub(super) struct Turns {
    worker_id: String,
    outbox: Outbox,
    places: Arc<Semaphore>,
    places_max: usize,
    state: Mutex<State>,
    /// One that was given up has been answered after all.
    late: Notify,
    stuck: CancellationToken,
}

#[derive(Default)]
struct State {
    last: u64,
    /// Sent, and somebody waits for the answer.
    open: BTreeMap<u64, (Sent, oneshot::Sender<Option<Answer>>)>,
    /// Sent, and nobody waits any more.
    given_up: BTreeMap<u64, Sent>,
    pace: Pace,
    /// Since when one has been given up and none was answered.
    stalled_since: Option<Instant>,
}

/// An activation that the worker has.
struct Sent {
    /// Its run; none for a query, of which a run may have several at once.
    run: Option<Uuid>,
    _place: OwnedSemaphorePermit,
}

impl State {
    /// Notes an answer, and frees its place. Answers who waits for it.
    fn answered(&mut self, id: u64, now: Instant) -> Option<Waits> {
        let (sent, waits) = match self.open.remove(&id) {
            Some((sent, waiting)) => (sent, Waits::For(waiting)),
            None => (self.given_up.remove(&id)?, Waits::NoMore),
        };
        if let Some(run) = sent.run {
            // A run's activations are answered in order: what is left of its earlier ones is lost.
            self.given_up
                .retain(|other, sent| *other > id || sent.run != Some(run));
        }
        let open = self.open.keys().next().copied();
        let given_up = self.given_up.keys().next().copied();
        let oldest = open.into_iter().chain(given_up).min();
        self.pace.note(id, now, oldest);
        self.stalled_since = None;
        Some(waits)
    }

    fn owes(&self, run: Uuid) -> bool {
        self.given_up.values().any(|sent| sent.run == Some(run))
    }
}

/// Whether somebody waits for an answer.
enum Waits {
    For(oneshot::Sender<Option<Answer>>),
    NoMore,
}

impl Turns {
    pub(super) fn new(worker_id: String, outbox: Outbox, places: usize) -> Arc<Self> {
        Arc::new(Self {
            worker_id,
            outbox,
            places: Arc::new(Semaphore::new(places)),
            places_max: places,
            state: Mutex::default(),
            late: Notify::new(),
            stuck: CancellationToken::new(),
        })
    }

    /// Takes an answer in. One that nobody waits for any more came too late, which is no mistake.
    pub(super) fn answered(&self, message: v1::TurnAnswer) -> Result<(), Malformed> {
        let id = message.activation_id.parse().map_err(|_| {
            let problem = format!("{:?} is no id of an activation", message.activation_id);
            Malformed::new("turn_answer.activation_id", problem)
        })?;
        let waits = self.state.lock().answered(id, Instant::now());
        match waits {
            // Who gave up waiting in this very moment does not need it.
            Some(Waits::For(waiting)) => drop(waiting.send(message.answer)),
            Some(Waits::NoMore) => self.late.notify_waiters(),
            None => {}
        }
        Ok(())
    }

    /// The worker is about to leave: it is sent nothing new. What it has it may answer.
    pub(super) fn stop_sending(&self) {
        self.places.close();
    }

    /// The session is over: nobody answers any more.
    pub(super) fn close(&self) {
        self.stop_sending();
        let mut state = self.state.lock();
        state.open.clear();
        state.given_up.clear();
        drop(state);
        self.late.notify_waiters();
    }

    /// Ends when the worker holds all places and will not answer. Cancel-safe.
    pub(super) async fn stuck(&self) {
        self.stuck.cancelled().await;
    }

    async fn ask(&self, activation: Activation) -> Result<Option<Answer>, HostError> {
        let run_id = activation.run.run_id;
        let run = (activation.beginning != Beginning::Apart).then_some(run_id);
        let mut message = activation_message(activation);
        let bytes = message.encoded_len();
        if bytes > RESPONSE_BYTES_MAX {
            return Err(HostError::Broken(format!(
                "its history has {bytes} bytes as a message, the limit is {RESPONSE_BYTES_MAX}; let it continue as new in time"
            )));
        }
        if let Some(run) = run {
            // It may still be about an earlier one; where it never answers that, it is told anew all the same.
            timeout(TURN_TIMEOUT, self.owes_nothing(run)).await.ok();
        }
        let place = self.while_moving(Pace::latest, self.place()).await;
        let (place, way) = place.ok_or_else(|| self.no_place(run_id))??;
        let (waiting, answer) = oneshot::channel();
        let id = {
            let mut state = self.state.lock();
            if self.places.is_closed() {
                return Err(leaving());
            }
            state.last += 1;
            let (id, sent) = (state.last, Sent { run, _place: place });
            state.open.insert(id, (sent, waiting));
            message.activation_id = id.to_string();
            // Within the lock, so that they are sent in the order of their ids.
            way.send(Message::Activation(message));
            id
        };
        let _waiting = Waiting { turns: self, id };
        let answer = self.while_moving(|pace| pace.before(id), answer).await;
        let answer = answer.ok_or_else(|| self.unanswered(run_id))?;
        answer.map_err(|_| gone("its session is over"))
    }

    /// Ends when the worker has answered all that it was sent of a run.
    async fn owes_nothing(&self, run: Uuid) {
        loop {
            let late = self.late.notified();
            tokio::pin!(late);
            late.as_mut().enable();
            if !self.state.lock().owes(run) {
                return;
            }
            late.await;
        }
    }

    /// A free place, and room in the outbox: what has them both is sent at once. Cancel-safe.
    async fn place(&self) -> Result<(OwnedSemaphorePermit, Way<'_>), HostError> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| leaving())?;
        let way = self.outbox.way().await;
        Ok((place, way.ok_or_else(|| gone("its connection is lost"))?))
    }

    /// Waits for as long as the worker goes on; none: no answer of those that count has come for [`TURN_TIMEOUT`].
    async fn while_moving<T>(
        &self,
        last: impl Fn(&Pace) -> Option<Instant>,
        part: impl Future<Output = T>,
    ) -> Option<T> {
        let began = Instant::now();
        tokio::pin!(part);
        loop {
            let last = last(&self.state.lock().pace);
            let until = last.map_or(began, |last| last.max(began)) + TURN_TIMEOUT;
            if until <= Instant::now() {
                return None;
            }
            if let Ok(done) = timeout_at(until, &mut part).await {
                return Some(done);
            }
        }
    }

    fn unanswered(&self, run_id: Uuid) -> HostError {
        self.stalled(run_id);
        gone(&format!(
            "it did not answer for {TURN_TIMEOUT:?} after those before it"
        ))
    }

    fn no_place(&self, run_id: Uuid) -> HostError {
        let stalled_for = self.stalled(run_id);
        if stalled_for >= TURN_TIMEOUT && self.state.lock().given_up.len() == self.places_max {
            self.stuck.cancel();
        }
        gone(&format!(
            "no place was free with it, and it answered nothing for {TURN_TIMEOUT:?}"
        ))
    }

    /// Notes that one is given up because of the worker, and answers for how long that has been so.
    fn stalled(&self, run_id: Uuid) -> Duration {
        let now = Instant::now();
        let unanswered = {
            let mut state = self.state.lock();
            if let Some(since) = state.stalled_since {
                return now.saturating_duration_since(since);
            }
            state.stalled_since = Some(now);
            state.open.len() + state.given_up.len()
        };
        // Once for each time that it falls silent: all that it holds is given up with the first.
        warn!(
            worker_id = self.worker_id,
            %run_id,
            unanswered,
            turn_slots = self.places_max,
            "a worker did not answer an activation within {TURN_TIMEOUT:?} after those before it, and its run is taken up again; \
             let workflow code not block, and say hello with fewer turn_slots if many wait in the worker"
        );
        Duration::ZERO
    }
}

fn gone(why: &str) -> HostError {
    HostError::Gone(why.to_owned())
}

fn leaving() -> HostError {
    gone("it is about to leave, or its session is over")
}

/// Somebody waits for an answer, until they give up.
struct Waiting<'a> {
    turns: &'a Turns,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        if let Some((sent, _)) = state.open.remove(&self.id) {
            state.given_up.insert(self.id, sent);
        }
    }
}

#[async_trait]
impl WorkflowHost for Turns {
    async fn turn(&self, activation: Activation) -> Result<Vec<Step>, HostError> {
        let is_query = activation.beginning == Beginning::Apart;
        let answer = self.ask(activation);
        let answer = if is_query {
            let answer = timeout(TURN_TIMEOUT, answer).await;
            answer.map_err(|_| gone(&format!("it did not answer within {TURN_TIMEOUT:?}")))?
        } else {
            answer.await
        };
        steps(answer?)
    }

    fn forget(&self, run_id: Uuid) {
        self.outbox.post(Message::ForgetRun(v1::ForgetRun {
            run_id: run_id.to_string(),
        }));
    }

    fn is_stalled(&self) -> bool {
        self.state.lock().stalled_since.is_some()
    }
}

#[cfg(test)]
mod tests;
