//! One worker's connection.
//!
//! ```text
//!   worker ──WorkerMessage──► Session::listen ──► RemoteWorker (results, heartbeats), Turns (answers)
//!   worker ◄──ServerMessage── Outbox ◄────────── RemoteWorker (tasks), Turns (activations)
//! ```
//!
//! A session that ends by the worker's word gives its tasks back at once. One that breaks keeps their leases until those run out: the worker may be
//! there again in a moment, and go on. So does one whose token counts no more (the worker may come back with its successor), and one that answers no
//! workflow turns any more.

use std::sync::Arc;
use std::time::Duration;

use durable_proto::convert::{Malformed, payload, required};
use durable_proto::v1;
use everruns_durable::hosting::{Attachment, Hosting, RemoteWorker};
use everruns_durable::persistence::model::{TaskLease, TaskOutcome};
use futures_util::Stream;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Status, Streaming};
use tracing::{debug, info, warn};
use v1::server_message::Message as Outgoing;
use v1::worker_message::Message as Incoming;

use super::convert::{ended, lease, outcome, release_outcome, unreadable};
use super::hello::{Introduced, TASK_SLOTS_MAX, introduced};
use super::outbox::{OUTBOX_MAX, Outbox};
use super::turns::{TURN_TIMEOUT, Turns};
use crate::auth::WatchedPass;
use crate::grpc::status;

/// How long a worker may take to introduce itself.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Results of one session that are being stored at once; further messages wait.
const RESULTS_MAX: usize = 64;

/// Opens a session; what is to be sent comes out of the answer.
pub(super) fn open(
    hosting: Hosting,
    mut pass: WatchedPass,
    incoming: Streaming<v1::WorkerMessage>,
    draining: CancellationToken,
) -> impl Stream<Item = Result<v1::ServerMessage, Status>> + use<> {
    let (sender, receiver) = mpsc::channel(OUTBOX_MAX);
    let outbox = Outbox::new(sender);
    tokio::spawn(async move {
        if let Err(status) = serve(&hosting, &mut pass, incoming, &outbox, &draining).await {
            debug!(token = pass.principal().name, %status, "a session ends");
            outbox.refuse(status).await;
        }
    });
    ReceiverStream::new(receiver)
}

async fn serve(
    hosting: &Hosting,
    pass: &mut WatchedPass,
    mut incoming: Streaming<v1::WorkerMessage>,
    outbox: &Outbox,
    draining: &CancellationToken,
) -> Result<(), Status> {
    let hello = first(&mut incoming).await?;
    let Introduced {
        mut profile,
        hosted,
        turn_slots,
        holding,
    } = introduced(hello, pass.principal())?;
    let (worker_id, build) = (profile.id.clone(), profile.build.clone());
    // What it still runs counts before it is given more.
    let slots = profile.slots;
    if !holding.is_empty() {
        profile.slots = 0;
    }
    let worker = hosting.open_worker(profile, Arc::new(outbox.clone()));
    let worker = worker.ok_or_else(status::stopped)?;
    let session_id = hosting.new_id().ok_or_else(status::stopped)?;
    outbox
        .send(Outgoing::Welcome(v1::Welcome {
            session_id: session_id.to_string(),
            lease_ms: millis(worker.lease()),
            turn_timeout_ms: millis(TURN_TIMEOUT),
        }))
        .await;
    info!(worker_id, %session_id, token = pass.principal().name, "a worker has connected");
    let turns = Turns::new(worker_id.clone(), outbox.clone(), turn_slots);
    let mut attachment = None;
    if !hosted.is_empty() {
        let host = Arc::clone(&turns);
        attachment = hosting.attach_workflows(host, hosted, build);
    }
    if !holding.is_empty() {
        let resumed = worker.resume(holding).await;
        resumed.map_err(|error| status::store(&error))?;
        worker.set_slots(slots);
    }
    let session = Session {
        worker: Arc::new(worker),
        turns,
        outbox: outbox.clone(),
        results: Arc::new(Semaphore::new(RESULTS_MAX)),
        storing: TaskTracker::new(),
    };
    let ended = session
        .listen(&mut incoming, &mut attachment, pass, draining)
        .await;
    drop(attachment);
    let left = session.end(&ended).await;
    info!(worker_id, %session_id, ended = ended.as_str(), "a worker has gone");
    left?;
    match ended {
        Ended::Said => Ok(()),
        Ended::Broken(status)
        | Ended::Refused(status)
        | Ended::Denied(status)
        | Ended::Stuck(status) => Err(status),
    }
}

/// How a session ended.
enum Ended {
    /// By the worker's own word.
    Said,
    /// The connection is lost, or what it brought cannot be read.
    Broken(Status),
    /// It sent what the contract does not allow.
    Refused(Status),
    /// Its token counts no more.
    Denied(Status),
    /// It holds all places for workflow turns, and answers none.
    Stuck(Status),
}

impl Ended {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Said => "said goodbye",
            Self::Broken(_) => "connection lost",
            Self::Refused(_) => "refused",
            Self::Denied(_) => "its token counts no more",
            Self::Stuck(_) => "answers no workflow turns",
        }
    }
}

struct Session {
    worker: Arc<RemoteWorker>,
    turns: Arc<Turns>,
    outbox: Outbox,
    results: Arc<Semaphore>,
    storing: TaskTracker,
}

impl Session {
    /// Takes messages in until the stream ends.
    async fn listen(
        &self,
        incoming: &mut Streaming<v1::WorkerMessage>,
        attachment: &mut Option<Attachment>,
        pass: &mut WatchedPass,
        draining: &CancellationToken,
    ) -> Ended {
        let mut told = false;
        loop {
            let message = tokio::select! {
                biased;
                () = draining.cancelled(), if !told => {
                    told = true;
                    self.go_elsewhere(attachment).await;
                    continue;
                }
                denied = pass.lost() => return Ended::Denied(status::denied(&denied)),
                () = self.turns.stuck() => return Ended::Stuck(stuck()),
                // It reads no more: what is left to say would wait for ever.
                () = self.outbox.closed() => {
                    return Ended::Broken(Status::cancelled("the worker reads no more"));
                }
                message = incoming.message() => message,
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => return Ended::Said,
                Err(status) => return Ended::Broken(status::received(status)),
            };
            if let Err(mistake) = self.take(message, attachment).await {
                return Ended::Refused(status::malformed(&mistake));
            }
        }
    }

    fn take_nothing_new(&self, attachment: &mut Option<Attachment>) {
        self.worker.stop_accepting();
        *attachment = None;
        self.turns.stop_sending();
    }

    async fn go_elsewhere(&self, attachment: &mut Option<Attachment>) {
        self.take_nothing_new(attachment);
        let reason = "the server is about to stop".to_owned();
        let message = v1::GoElsewhere { reason };
        self.outbox.send(Outgoing::GoElsewhere(message)).await;
    }

    async fn take(
        &self,
        message: v1::WorkerMessage,
        attachment: &mut Option<Attachment>,
    ) -> Result<(), Malformed> {
        let message = required("message", message.message)?;
        match message {
            Incoming::Hello(_) => {
                return Err(Malformed::new(
                    "hello",
                    "it was said before; once is enough",
                ));
            }
            Incoming::TaskDone(done) => self.done(done).await?,
            Incoming::Heartbeat(beat) => self.beat(beat).await?,
            Incoming::Slots(slots) => {
                self.worker
                    .set_slots(slots.task_slots.min(TASK_SLOTS_MAX) as usize);
            }
            Incoming::TurnAnswer(answer) => self.turns.answered(answer)?,
            Incoming::Goodbye(_) => self.take_nothing_new(attachment),
        }
        Ok(())
    }

    async fn done(&self, done: v1::TaskDone) -> Result<(), Malformed> {
        let lease = lease(done.lease).map_err(|mistake| mistake.within("task_done"))?;
        self.settle(lease, ended(done.end)).await;
        Ok(())
    }

    async fn beat(&self, beat: v1::TaskHeartbeat) -> Result<(), Malformed> {
        let lease = lease(beat.lease).map_err(|mistake| mistake.within("heartbeat"))?;
        let Some(details) = beat.details else {
            return Ok(());
        };
        match payload("heartbeat.details", details) {
            Ok(details) => self.worker.heartbeat(&lease, details),
            Err(mistake) => {
                self.outbox.cancel(&lease, mistake.to_string()).await;
                self.settle(lease, Some(unreadable(&mistake))).await;
            }
        }
        Ok(())
    }

    /// Stores how a task ended, beside the stream: the worker is told when it is done. None: it was not run.
    async fn settle(&self, lease: TaskLease, end: Option<TaskOutcome>) {
        let (worker, outbox) = (Arc::clone(&self.worker), self.outbox.clone());
        let permit = Arc::clone(&self.results).acquire_owned().await;
        self.storing.spawn(async move {
            let settled = match end {
                Some(end) => worker
                    .finish(lease.clone(), end)
                    .await
                    .map(|stored| outcome(&lease, &stored)),
                None => worker
                    .release(lease.clone())
                    .await
                    .map(|released| release_outcome(&lease, released)),
            };
            drop(permit);
            match settled {
                Ok(settled) => {
                    outbox.send(Outgoing::TaskSettled(settled)).await;
                }
                // Unsettled: the worker sends it again, or its lease runs out.
                Err(error) => {
                    warn!(task_id = %lease.task_id, %error, "a result could not be stored");
                }
            }
        });
    }

    /// Waits for what is being stored, and gives back what was not answered where the worker has left by its own word.
    async fn end(self, ended: &Ended) -> Result<(), Status> {
        self.turns.close();
        self.storing.close();
        self.storing.wait().await;
        let Some(worker) = Arc::into_inner(self.worker) else {
            return Ok(());
        };
        if matches!(ended, Ended::Said) {
            let closed = worker.close().await;
            closed.map_err(|error| status::store(&error))?;
        }
        Ok(())
    }
}

fn stuck() -> Status {
    Status::unavailable(format!(
        "none of the activations was answered within {TURN_TIMEOUT:?}, and there is no place for more; connect again, with fewer turn_slots perhaps"
    ))
}

/// The introduction.
async fn first(incoming: &mut Streaming<v1::WorkerMessage>) -> Result<v1::Hello, Status> {
    let message = tokio::time::timeout(HELLO_TIMEOUT, incoming.message()).await;
    let message = message.map_err(|_| {
        Status::deadline_exceeded(format!("no hello within {HELLO_TIMEOUT:?}; say it first"))
    })?;
    let message = message.map_err(status::received)?;
    match message.and_then(|message| message.message) {
        Some(Incoming::Hello(hello)) => Ok(hello),
        Some(_) => Err(Status::invalid_argument("the first message must be hello")),
        None => Err(Status::invalid_argument(
            "the session ended without a hello",
        )),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
