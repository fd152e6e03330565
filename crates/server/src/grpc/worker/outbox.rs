//! What a session has to tell its worker.

use async_trait::async_trait;
use durable_proto::v1;
use everruns_durable::hosting::TaskSink;
use everruns_durable::persistence::model::{ClaimedTask, TaskLease};
use tokio::sync::mpsc;
use tonic::Status;
use v1::server_message::Message;

use super::convert::{lease_message, task_message};

/// Messages that wait for a slow worker before whoever sends has to wait too.
pub(super) const OUTBOX_MAX: usize = 64;

/// The way to the worker. Cheap to clone. What is sent after the worker has gone is dropped: whoever sent it finds out by other ways.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Result<v1::ServerMessage, Status>>,
}

impl Outbox {
    pub(super) const fn new(sender: mpsc::Sender<Result<v1::ServerMessage, Status>>) -> Self {
        Self { sender }
    }

    /// Sends, waiting for room. False: the worker has gone.
    pub(super) async fn send(&self, message: Message) -> bool {
        self.sender.send(Ok(wrapped(message))).await.is_ok()
    }

    /// Waits for room: what is sent by the answer is sent at once. None: the worker has gone. Cancel-safe.
    pub(super) async fn way(&self) -> Option<Way<'_>> {
        self.sender.reserve().await.ok().map(Way)
    }

    /// Asks a task to stop.
    pub(super) async fn cancel(&self, lease: &TaskLease, reason: String) {
        let lease = Some(lease_message(lease));
        let stop = v1::CancelTask { lease, reason };
        self.send(Message::CancelTask(stop)).await;
    }

    /// Sends from where nobody can wait.
    pub(super) fn post(&self, message: Message) {
        if let Err(mpsc::error::TrySendError::Full(message)) =
            self.sender.try_send(Ok(wrapped(message)))
        {
            let sender = self.sender.clone();
            tokio::spawn(async move { sender.send(message).await.ok() });
        }
    }

    /// The last word: why the session ends.
    pub(super) async fn refuse(&self, status: Status) {
        self.sender.send(Err(status)).await.ok();
    }

    /// Ends when the worker has gone.
    pub(super) async fn closed(&self) {
        self.sender.closed().await;
    }
}

/// Room for one message.
pub(super) struct Way<'a>(mpsc::Permit<'a, Result<v1::ServerMessage, Status>>);

impl Way<'_> {
    pub(super) fn send(self, message: Message) {
        self.0.send(Ok(wrapped(message)));
    }
}

fn wrapped(message: Message) -> v1::ServerMessage {
    let message = Some(message);
    v1::ServerMessage { message }
}

#[async_trait]
impl TaskSink for Outbox {
    async fn run(&self, task: ClaimedTask) {
        self.send(Message::Task(task_message(task))).await;
    }

    async fn stop(&self, lease: TaskLease) {
        let reason = "the task was cancelled, its time is up, or its lease is lost";
        self.cancel(&lease, reason.to_owned()).await;
    }
}
