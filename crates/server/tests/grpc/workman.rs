//! A worker of the test's own, which does what the test tells it.

use durable_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as FromWorker;

use crate::place::Caller;

/// A session, seen from the worker.
pub(crate) struct Workman {
    sender: mpsc::Sender<v1::WorkerMessage>,
    receiver: Streaming<v1::ServerMessage>,
}

pub(crate) fn hello(worker_id: &str) -> v1::Hello {
    v1::Hello {
        worker_id: worker_id.to_owned(),
        build: "one".to_owned(),
        task_slots: 4,
        ..v1::Hello::default()
    }
}

pub(crate) fn workflow_type(name: &str) -> v1::WorkflowType {
    v1::WorkflowType {
        workflow_type: name.to_owned(),
        version: String::new(),
    }
}

impl Workman {
    /// Connects, introduces itself and is welcomed.
    pub(crate) async fn connect(caller: &mut Caller, hello: v1::Hello) -> Result<Self, Status> {
        let mut workman = Self::silent(caller).await?;
        workman.say(FromWorker::Hello(hello)).await;
        match workman.hear().await? {
            FromServer::Welcome(_) => Ok(workman),
            other => panic!("not welcomed: {other:?}"),
        }
    }

    /// Connects and says nothing.
    pub(crate) async fn silent(caller: &mut Caller) -> Result<Self, Status> {
        let (sender, messages) = mpsc::channel(16);
        let opened = caller.session(ReceiverStream::new(messages)).await?;
        Ok(Self {
            sender,
            receiver: opened.into_inner(),
        })
    }

    pub(crate) async fn say(&self, message: FromWorker) {
        let message = Some(message);
        self.sender.send(v1::WorkerMessage { message }).await.ok();
    }

    pub(crate) async fn hear(&mut self) -> Result<FromServer, Status> {
        let message = self.receiver.message().await?;
        let message = message.ok_or_else(|| Status::new(Code::Cancelled, "the session is over"))?;
        Ok(message.message.expect("a message says something"))
    }

    pub(crate) async fn task(&mut self) -> v1::Task {
        match self.hear().await {
            Ok(FromServer::Task(task)) => task,
            other => panic!("no task: {other:?}"),
        }
    }

    /// Answers a task and hears what became of it.
    pub(crate) async fn finish(&mut self, task: &v1::Task, end: v1::task_done::End) -> v1::Outcome {
        let lease = task.lease.clone();
        let end = Some(end);
        self.say(FromWorker::TaskDone(v1::TaskDone { lease, end }))
            .await;
        match self.hear().await {
            Ok(FromServer::TaskSettled(settled)) => settled.outcome(),
            other => panic!("not settled: {other:?}"),
        }
    }

    /// The next activation; other messages are passed over.
    pub(crate) async fn activation(&mut self) -> v1::Activation {
        loop {
            match self.hear().await.expect("the session goes on") {
                FromServer::Activation(activation) => return activation,
                FromServer::ForgetRun(_) => {}
                other => panic!("no activation: {other:?}"),
            }
        }
    }

    /// Answers an activation by these actions, one list an item.
    pub(crate) async fn answer(&self, activation: &v1::Activation, steps: Vec<v1::Step>) {
        let answer = v1::turn_answer::Answer::Steps(v1::Steps { steps });
        self.say(FromWorker::TurnAnswer(v1::TurnAnswer {
            activation_id: activation.activation_id.clone(),
            answer: Some(answer),
        }))
        .await;
    }

    /// Ends the session by the worker's word.
    pub(crate) async fn leave(mut self) {
        drop(self.sender);
        while let Ok(Some(_)) = self.receiver.message().await {}
    }
}

/// A step that asks for these actions.
pub(crate) fn step(actions: Vec<v1::action::Action>) -> v1::Step {
    let wrap = |action| v1::Action {
        action: Some(action),
    };
    v1::Step {
        actions: actions.into_iter().map(wrap).collect(),
        ..v1::Step::default()
    }
}
